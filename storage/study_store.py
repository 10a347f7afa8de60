"""StudyStore: studies in a database, worked off by many processes at once. Knows no plan's form and no models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mars_core.types import Trace
from storage import claims, judgements, results, studies
from storage.claims import Claim, ClaimRow
from storage.connected import Connected
from storage.judgements import StoredJudgement
from storage.listing import check_page
from storage.records import check_numbering
from storage.results import Relatives, StoredResult
from storage.runs import new_run
from storage.studies import StoredStudy, StudyHead, StudyProgress
from storage.words import Preferred, Source

PATIENCE_S = 60.0  # of workers: nobody looks on while they wait, and what they would lose has cost much


class StudyStore(Connected):
    """Every method is one short transaction, and raises StorageError for an unknown study."""

    def new_study(self, name: str, plan: Mapping[str, Any], tasks: int) -> str:
        """Keep a plan of 1 to 1,000,000 tasks, all open; returns its id."""
        with self._write("The study was not saved") as connection:
            return studies.add_study(connection, name, plan, tasks)

    def study(self, study_id: str) -> StoredStudy:
        """A study with its plan."""
        with self.read() as connection:
            return studies.load_study(connection, study_id)

    def studies(self, limit: int = 50, *, sweeps: bool = False) -> tuple[StudyHead, ...]:
        """The latest studies, latest first, without their plans; either sweeps only or all others."""
        check_page(limit, 0)
        with self.read() as connection:
            return studies.latest_studies(connection, limit, sweeps)

    def study_progress(self, study_id: str) -> StudyProgress:
        """How far a study has come, and what each worker has done."""
        with self.read() as connection:
            return studies.progress(connection, study_id)

    def delete_study(self, study_id: str) -> None:
        """Remove a study for good; its comparisons are put away and can be restored. Who works on it loses the claim."""
        with self._write("The study was not deleted") as connection:
            studies.delete_study(connection, study_id)

    def claim_task(self, study_id: str, worker: str, lease_s: float) -> Claim | None:
        """The lowest task that nobody works on, for ``lease_s`` seconds, 86,400 at most.

        None where there is none at this moment: others may still lose or give back theirs until all tasks are done.
        """
        with self._write("No task was claimed", PATIENCE_S) as connection:
            return claims.claim_task(connection, study_id, worker, lease_s)

    def beat(self, claim: Claim, lease_s: float) -> bool:
        """Let a claim last for ``lease_s`` seconds from now; False where it is lost."""
        with self._write("The claim was not prolonged", PATIENCE_S) as connection:
            return claims.beat(connection, claim, lease_s)

    def release_task(self, claim: Claim) -> None:
        """Give a task back, with the results that it has; nothing where the claim is lost."""
        with self._write("The task was not given back", PATIENCE_S) as connection:
            claims.release_task(connection, claim)

    def claims(self, study_id: str) -> tuple[ClaimRow, ...]:
        """The tasks that are claimed, by number; those whose lease has run out included."""
        with self.read() as connection:
            return claims.claims(connection, study_id)

    def release_worker(self, study_id: str, worker: str) -> int:
        """Take all tasks from a worker that is known to be gone; how many they were."""
        with self._write("The worker's tasks were not given back") as connection:
            return claims.release_worker(connection, study_id, worker)

    def save_result(
        self, claim: Claim, lane: int, traces: Sequence[Trace], data: Mapping[str, Any], *, order: int,
        relatives: Relatives | None = None, source: Source = Source.STUDY,
    ) -> tuple[str, ...]:  # fmt: skip
        """Save the runs of a lane, one a turn, and what they came to, whole or not at all; returns the ids of the runs.

        The comparison of each turn is made with its first run and says ``source``. ``relatives``: what lanes of this task that are
        saved by now are beside their baselines. Raises ClaimLost where the claim is lost or the lane has a result already.
        """
        for trace in traces:
            check_numbering(trace)
        new = [new_run(trace, lane, order) for trace in traces]
        with self._write("The result was not saved", PATIENCE_S) as connection:
            return results.save_result(connection, claim, lane, order, traces, new, data, relatives or {}, source)

    def task_results(self, study_id: str, task: int) -> dict[int, StoredResult]:
        """Lane → result, of a task that need not be done."""
        with self.read() as connection:
            rows = results.rows_of_task(connection, study_id, task)
        return {result.lane: result for result in results.read_results(rows)}

    def finish_task(self, claim: Claim, relatives: Relatives) -> None:
        """Save what these lanes are beside their baselines, and close the task. Raises ClaimLost."""
        with self._write("The task was not finished", PATIENCE_S) as connection:
            results.finish(connection, claim, relatives)

    def results(self, study_id: str, *, unfinished: bool = False) -> tuple[StoredResult, ...]:
        """The results of all done tasks, by task, then lane; with ``unfinished`` of the others too."""
        with self.read() as connection:
            rows = results.rows_of_study(connection, study_id, unfinished)
        return results.read_results(rows)

    def reopen_failed(self, study_id: str) -> int:
        """Remove results whose ``data["status"]`` is failed, with their runs, and open their tasks; how many tasks that were.

        A task under a claim that lasts is left as it is.
        """
        with self._write("The failed tasks were not opened") as connection:
            return results.reopen_failed(connection, study_id)

    def add_judgement(
        self, study_id: str, task: int, lane: int, *, swapped: bool, judge: str, choice: Preferred, text: str = ""
    ) -> None:
        """Keep what a judge preferred; ``swapped``: the baseline's text stood first. A later one in that order replaces it."""
        with self._write("The judgement was not saved") as connection:
            judgements.add_judgement(connection, study_id, task, lane, swapped, judge, choice, text)

    def judgements(self, study_id: str) -> tuple[StoredJudgement, ...]:
        """All judgements, by task, lane and order."""
        with self.read() as connection:
            return judgements.judgements(connection, study_id)
