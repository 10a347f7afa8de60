"""The texts of a study's stored runs: of its worst prompts, and of every lane for
export and for judging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evaluation.plan.plan import Plan, Task, read_plan
from evaluation.report.document.prompts import OPENED, Texts
from evaluation.report.rows import PromptRow
from evaluation.report.values import Report
from evaluation.study.result import answer, read_result
from mars_core.types import Status
from storage import RunRecord, RunStore, StoredResult


def records_of(store: RunStore, run_ids: Sequence[str]) -> dict[str, RunRecord]:
    """Run id → record, without runs whose comparison has been deleted. Raises StorageError where
    the database fails."""
    return {record.id: record for record in store.records(run_ids, existing=True)}


def worst_texts(store: RunStore, report: Report) -> dict[tuple[str, str], Texts]:
    """Read the texts of the prompts displayed in full in a report, by ``PromptRow.worst``."""
    return texts_of(store, report.prompts[:OPENED])


def texts_of(store: RunStore, rows: Sequence[PromptRow]) -> dict[tuple[str, str], Texts]:
    """Read the texts of these prompts by ``PromptRow.worst``, if all their runs are stored: of the
    first turn that differs, else the first."""
    turns = {row.worst: row.turns for row in rows if row.turns}
    records = records_of(
        store,
        list(dict.fromkeys(run for pairs in turns.values() for pair in pairs for run in pair)),
    )
    texts = {}
    for worst, ids in turns.items():
        if all(run in records for pair in ids for run in pair):
            pairs = [(records[baseline], records[rule]) for baseline, rule in ids]
            turn = next(
                (at for at, (baseline, rule) in enumerate(pairs) if baseline.text != rule.text), 0
            )
            baseline, rule = pairs[turn]
            number = turn + 1 if len(pairs) > 1 else 0
            texts[worst] = Texts(
                baseline.text, rule.text, rule.comparison_id, number, (baseline.id, rule.id)
            )
    return texts


class StoredAnswer(NamedTuple):
    """One item with one seed. ``runs``: one per turn."""

    stored: StoredResult
    task: Task
    runs: tuple[RunRecord, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """One per turn, without a stop string."""
        return tuple(map(answer, self.runs))


class Answered(NamedTuple):
    """All completed answers of a lane at a temperature whose runs are stored."""

    plan: Plan
    lane: int
    temperature: float
    answers: tuple[StoredAnswer, ...]


def read_answered(store: RunStore, study_id: str) -> Iterator[Answered]:
    """Read the answers by lane and temperature, without those of which a run was deleted and those of
    placebos that relaxed nothing, whose runs are strict's. Raises StorageError; ValueError for
    another version."""
    plan = read_plan(store.study(study_id).plan)
    groups: dict[tuple[int, float], list[StoredResult]] = {}
    for one in store.results(study_id):
        if plan.writes_anew(one.task) and read_result(one.data).status is Status.COMPLETED:
            groups.setdefault((one.lane, plan.task(one.task).temperature), []).append(one)
    for key, stored in sorted(groups.items()):
        records = records_of(store, [run_id for one in stored for run_id in one.run_ids])
        answers = (
            StoredAnswer(one, plan.task(one.task), tuple(records[run] for run in one.run_ids))
            for one in stored
            if one.run_ids and records.keys() >= {*one.run_ids}
        )
        yield Answered(plan, *key, tuple(answers))
