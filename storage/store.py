"""RunStore: keeps runs whole or not at all and hands them back. Knows no models, no screen and no environment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pandas as pd
from sqlalchemy import func, select

from mars_core.types import PromptConfig, Trace
from storage import comparisons, owners, runs, search, sweeps, votes
from storage.comparisons import StoredComparison
from storage.listing import COLUMNS, check_page, frame, latest_first, rows
from storage.owner_store import OwnerStore
from storage.records import check_numbering
from storage.runs import RunRecord
from storage.schema import Comparison, Run
from storage.search import Choices, Found, Search
from storage.sweeps import StoredSweep
from storage.votes import StoredVote
from storage.words import Choice, Source


class RunStore(OwnerStore):
    """The runs and studies in one database: ``sqlite:////folder/file.db`` or ``postgresql://…``; None: a file in the data folder.

    May be used from several threads; writes are made one after the other. Every method raises StorageError when the
    database fails, and then nothing has been changed.
    """

    def new_comparison(self, prompt: PromptConfig, *, source: Source = Source.COMPARE) -> str:
        """Make a comparison without runs; returns its id."""
        with self._write("The comparison was not saved") as connection:
            return comparisons.add_comparison(connection, prompt, source)

    def save_run(self, comparison_id: str, trace: Trace, *, lane: int, order: int) -> str:
        """Save a run, whole or not at all; returns its id. Its prompt must be the comparison's."""
        check_numbering(trace)
        new = runs.new_run(trace, lane, order)
        with self._write("The run was not saved") as connection:
            comparisons.check_prompt(comparisons.comparison_row(connection, comparison_id), trace.config.prompt)
            runs.add_run(connection, comparison_id, new)
        return new.id

    def annotate(
        self,
        comparison_id: str,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        comment: str | None = None,
    ) -> None:
        """Set the name (200 characters at most), the tags (20 of 40), the comment (10,000); None leaves what is there."""
        with self._write("The comparison was not changed") as connection:
            comparisons.annotate(connection, comparison_id, name, tags, comment)

    def delete(self, comparison_id: str) -> None:
        """Put a comparison away: no list, export or vote has it any more. ``restore`` brings it back until it is purged."""
        with self._write("The comparison was not deleted") as connection:
            comparisons.delete_comparison(connection, comparison_id)

    def restore(self, comparison_id: str) -> None:
        """Bring a deleted comparison back as it was."""
        with self._write("The comparison was not restored") as connection:
            comparisons.restore_comparison(connection, comparison_id)

    def purge(self, before: datetime) -> int:
        """Remove for good what was deleted before, with its runs, steps, tokens and vote, a few comparisons at a time; how many."""
        put_away = Comparison.deleted_at < before
        return self._until_none("Deleted comparisons were not all removed", owners.remove_comparisons, put_away)

    def remove_unfinished(self, before: datetime) -> int:
        """Remove for good the comparisons made before that have no run: their process ended before it saved one; how many."""
        without_run = ~select(Run.id).where(Run.comparison_id == Comparison.id).exists()
        failure = "Unfinished comparisons were not all removed"
        return self._until_none(failure, owners.remove_comparisons, Comparison.created_at < before, without_run)

    def load(self, comparison_id: str) -> StoredComparison:
        """A comparison with the traces that were saved. Raises StorageError where there is none of this id."""
        with self.read() as connection:
            return comparisons.load(connection, comparison_id)

    def count(self) -> int:
        """How many comparisons there are."""
        with self.read() as connection:
            every = select(func.count()).select_from(Comparison)
            every = every.where(Comparison.deleted_at.is_(None), *self.scope.comparisons())
            return connection.execute(every).scalar_one()

    def comparisons(self, *, limit: int = 200, offset: int = 0, batches: bool = True) -> pd.DataFrame:
        """One page of the comparisons, latest first, one row each; without ``batches`` none of sweeps and studies.

        Columns: ``id``, ``created_at`` (UTC), ``prompt`` (its first 280 characters, made ``text.readable``), ``target``
        (of the first lane; empty where there is no run); and, each a tuple with one entry a run by lane: ``rules``,
        ``status``, ``new_tokens``, ``tau``, ``tokens_per_s``, ``ttft_s``, ``wall_s``, ``relaxed_share``.
        """
        check_page(limit, offset)
        with self.read() as connection:
            which = () if batches else (Comparison.source.not_in(search.BATCHES),)
            page = latest_first(rows().where(*which, *self.scope.comparisons()))
            return frame(connection, page.limit(limit).offset(offset))[list(COLUMNS)]

    def find(self, search_for: Search) -> Found:
        """One page of the comparisons that were asked for.

        Columns: those of ``comparisons``, then ``name`` and ``comment`` (made ``text.readable``), ``tags`` (a tuple),
        ``source`` and ``run_ids`` (a tuple with one entry a run by lane).
        """
        with self.read() as connection:
            return search.find(connection, search_for)

    def choices(self) -> Choices:
        """The rules, targets and tags that a search may ask for."""
        with self.read() as connection:
            return search.choices(connection)

    def records(self, run_ids: Sequence[str]) -> tuple[RunRecord, ...]:
        """Runs without their steps and tokens, in the order asked. Raises StorageError for an unknown id."""
        with self.read() as connection:
            return runs.records(connection, run_ids)

    def texts(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Id → text of the runs that are there, and whose comparison is not deleted."""
        with self.read() as connection:
            return runs.texts(connection, run_ids)

    def traces(self, run_ids: Sequence[str]) -> dict[str, Trace]:
        """Id → trace of the runs that are there, those of deleted comparisons included: a study still reckons with them."""
        with self.read() as connection:
            return runs.traces(connection, run_ids)

    def sweep(self, sweep_id: str) -> StoredSweep:
        """A sweep of an earlier release. Raises StorageError where there is none of this id."""
        with self.read() as connection:
            return sweeps.load_sweep(connection, sweep_id)

    def sweeps(self, limit: int = 50) -> tuple[StoredSweep, ...]:
        """The latest sweeps of earlier releases, latest first; those of this one are studies."""
        check_page(limit, 0)
        with self.read() as connection:
            return sweeps.latest_sweeps(connection, limit)

    def add_vote(
        self, comparison_id: str, *, left_lane: int, right_lane: int, choice: Choice, comment: str = ""
    ) -> str:
        """Save the one vote of a comparison; returns its id. Raises StorageError for a second one and for an empty lane."""
        with self._write("The vote was not saved") as connection:
            return votes.add_vote(connection, comparison_id, left_lane, right_lane, choice, comment)

    def comment_vote(self, vote_id: str, comment: str) -> None:
        """Put a comment (10,000 characters at most) in the place of the one that is there."""
        with self._write("The comment was not saved") as connection:
            votes.comment_vote(connection, vote_id, comment)

    def votes(self) -> tuple[StoredVote, ...]:
        """All votes, latest first."""
        with self.read() as connection:
            return votes.all_votes(connection)
