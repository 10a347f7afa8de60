"""Comparisons with their runs: created, read, annotated, deleted and restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from mars_core.types import PromptConfig, Trace
from storage.connection import Connected
from storage.errors import StorageError, explained
from storage.index import forget_texts, reindex
from storage.runs.records import (
    OF_PROMPT,
    TRACE,
    NewRun,
    new_run,
    prompt_row,
    read_prompt,
    read_trace,
)
from storage.runs.stored import Repeat, StoredComparison, StoredRun
from storage.schema import ComparisonRow, RunRow, RunTrace, Source
from storage.schema.text import mapped, storable
from storage.schema.trace import PROMPT, SUMMARY
from storage.scope import new_id, row_of, unknown

LENGTHS = {"name": 200, "tag": 40, "comment": 10_000}  # characters at most
MAX_TAGS = 20
ROWS_A_WRITE = 20  # a run of 512 tokens has some 2,000 rows
_OF_COMPARISON = (
    select(RunRow.__table__, *OF_PROMPT, *TRACE)
    .join(RunTrace, RunTrace.run_id == RunRow.id)
    .join(ComparisonRow)
)
_OF_COMPARISON = _OF_COMPARISON.where(RunRow.comparison_id == bindparam("of")).order_by(
    RunRow.execution_order
)


class Comparisons(Connected):
    """For all methods except ``restore`` and ``purge`` a deleted comparison does not exist."""

    def new_comparison(self, prompt: PromptConfig, *, source: Source = Source.COMPARE) -> str:
        """Create a comparison without runs; returns its id."""
        with self._write("The comparison was not saved") as connection:
            return add_comparison(connection, prompt, source, self.scope.owner)

    def save_run(self, comparison_id: str, trace: Trace, *, lane: int, order: int) -> str:
        """Save a run in one transaction; returns its id. Its prompt must be the comparison's, or
        one that goes on from earlier turns."""
        prompt = trace.config.prompt
        with explained("The run was not saved", self.location):
            new = new_run(trace, lane, order)
        with self._write("The run was not saved") as connection:
            row = comparison_row(connection, comparison_id)
            if prompt.history and storable(prompt.text) != row["prompt"]:
                new.run["question"], prompt = prompt.text, replace(prompt, text=row["prompt"])
            check_prompt(row, prompt)
            return add_run(connection, comparison_id, new)

    def load(self, comparison_id: str) -> StoredComparison:
        """Load a comparison with the traces that were saved. Raises StorageError for an unknown
        id."""
        turns: dict[int, StoredComparison] = {}
        with self._naming(f"comparison {comparison_id}"), self.read() as connection:
            row = comparison_row(connection, comparison_id)
            rows = connection.execute(_OF_COMPARISON, {"of": comparison_id}).mappings().all()
        fields = {name: row[name] for name in ("id", "created_at", "name", "comment", "source")}
        empty = StoredComparison(
            **fields, prompt=read_prompt(row), runs=(), tags=tuple(row["tags"])
        )
        for run in rows:
            with self._naming(f"run {run['id']}"):
                turn = turns.get(run["turn"], replace(empty, prompt=read_prompt(run)))
                turns[run["turn"]] = _with_run(turn, run)
        *earlier, last = [turns[number] for number in sorted(turns)] or [empty]
        return replace(last, earlier=tuple(earlier))

    def annotate(
        self,
        comparison_id: str,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        comment: str | None = None,
    ) -> None:
        """Set the name (200 characters at most), the tags (20 of 40), the comment (10,000); None
        leaves a field unchanged."""
        with self._write("The comparison was not changed") as connection:
            row = comparison_row(connection, comparison_id)
            name = row["name"] if name is None else checked("name", name.strip())
            tags = row["tags"] if tags is None else _checked_tags(tags)
            comment = row["comment"] if comment is None else checked("comment", comment)
            _change(connection, comparison_id, name=name, tags=tags, comment=comment)

    def delete(self, comparison_id: str) -> None:
        """Delete a comparison: it is no longer in lists, exports or votes. ``restore`` undoes it
        until it is purged."""
        with self._write("The comparison was not deleted") as connection:
            comparison_row(connection, comparison_id)
            _change(connection, comparison_id, deleted_at=datetime.now(UTC))

    def restore(self, comparison_id: str) -> None:
        """Restore a deleted comparison."""
        with self._write("The comparison was not restored") as connection:
            row_of(connection, ComparisonRow, comparison_id)
            _change(connection, comparison_id, deleted_at=None)

    def purge(self, before: datetime) -> int:
        """Permanently remove comparisons deleted before, with their runs, steps, tokens and votes;
        returns their number."""
        return self._remove(
            "Deleted comparisons were not all removed", ComparisonRow.deleted_at < before
        )

    def remove_unfinished(self, before: datetime) -> int:
        """Permanently remove comparisons created before that have no run because their process
        ended; returns their number."""
        without_run = ~select(RunRow.id).where(RunRow.comparison_id == ComparisonRow.id).exists()
        failure = "Unfinished comparisons were not all removed"
        return self._remove(failure, ComparisonRow.created_at < before, without_run)

    def _remove(self, failure: str, *which: ColumnElement[bool]) -> int:
        """Permanently remove comparisons in the scope, a few at a time so that others can write;
        returns their number."""
        few = (
            select(ComparisonRow.id)
            .where(*which, *self.scope.of(ComparisonRow))
            .limit(ROWS_A_WRITE)
        )
        removed = self._until_none(
            failure, lambda connection: remove(connection, connection.scalars(few).all())
        )
        if removed and self._engine.dialect.name == "sqlite":
            with self._write(failure) as connection:
                forget_texts(connection, begin=True)
            self._until_none(failure, forget_texts)
        return removed


def _with_run(turn: StoredComparison, run: RowMapping) -> StoredComparison:
    lane, order = int(run["lane"]), run["execution_order"]
    if any(each.lane == lane for each in turn.runs):
        repeat = Repeat(lane, order, run["status"], SUMMARY.read(run))
        return replace(turn, repeats=(*turn.repeats, repeat))
    runs = (*turn.runs, StoredRun(run["id"], lane, order, read_trace(run)))
    return replace(turn, runs=tuple(sorted(runs, key=lambda each: each.lane)))


def add_comparison(
    connection: Connection, prompt: PromptConfig, source: Source, owner: str, **more: Any
) -> str:
    """Add a comparison and return its id; it belongs to ``owner``. ``more``: further columns, or
    others than of a new one."""
    row: dict[str, Any] = {"id": new_id(), "created_at": datetime.now(UTC), "source": source}
    row |= {"owner": owner} | prompt_row(prompt) | more
    connection.execute(insert(ComparisonRow), row)
    reindex(connection, [row["id"]])
    return str(row["id"])


def remove(connection: Connection, ids: Sequence[str]) -> int:
    """Permanently remove comparisons with their runs; returns their number."""
    return connection.execute(delete(ComparisonRow).where(ComparisonRow.id.in_(ids))).rowcount


def comparison_row(connection: Connection, comparison_id: str) -> RowMapping:
    """Raises StorageError if the id is unknown or the comparison deleted."""
    row = row_of(connection, ComparisonRow, comparison_id, ComparisonRow.__table__)
    if row["deleted_at"] is not None:
        raise unknown(comparison_id)
    return row


def check_prompt(row: RowMapping, prompt: PromptConfig) -> None:
    """Raise StorageError unless ``prompt`` is the comparison's; history and thinking may differ
    between runs."""
    if {name: row[name] for name in PROMPT} != mapped(prompt_row(prompt), storable):
        raise StorageError("The run was not saved: its prompt is not the prompt of its comparison.")


def checked(noun: str, text: str) -> str:
    """Return ``text``. Raises StorageError if it is too long for a name, tag or comment
    (``noun``)."""
    if len(text) > LENGTHS[noun]:
        raise StorageError(
            f"A {noun} may have {LENGTHS[noun]:,} characters at most, not {len(text):,}."
        )
    return text


def _change(connection: Connection, comparison_id: str, **values: Any) -> None:
    connection.execute(
        update(ComparisonRow).where(ComparisonRow.id == comparison_id).values(values)
    )
    reindex(connection, [comparison_id])


def _checked_tags(tags: Sequence[str]) -> list[str]:
    """Stripped, each once, sorted; empty ones are left out. Raises StorageError if a tag is too
    long or there are too many."""
    unique = sorted({storable(tag).strip() for tag in tags} - {""})
    if len(unique) > MAX_TAGS:
        raise StorageError(f"A comparison may have {MAX_TAGS} tags at most, not {len(unique)}.")
    return [checked("tag", tag) for tag in unique]


def add_run(connection: Connection, comparison_id: str, new: NewRun) -> str:
    """Write the rows of a run of this comparison; returns the id of the run."""
    connection.execute(insert(RunRow), new.run | {"comparison_id": comparison_id})
    connection.execute(insert(RunTrace), new.trace)
    reindex(connection, [comparison_id])
    return str(new.run["id"])
