"""Comparisons: created, read, annotated, deleted and restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select, update

from mars_core.types import PromptConfig, Trace
from storage.connection import Connected
from storage.errors import StorageError, explained
from storage.lookup import new_id, row_of, unknown
from storage.runs.records import check_numbering, new_run, prompt_row, read_prompt
from storage.runs.reindex import reindex
from storage.runs.runs import Repeat, StoredRun, add_run, runs_of
from storage.runs.texts import forget_texts
from storage.schema import Comparison, Run, Source
from storage.scope import Table

LENGTHS = {"name": 200, "tag": 40, "comment": 10_000}  # characters at most
MAX_TAGS = 20
ROWS_A_WRITE = 20  # a run of 512 tokens has some 2,000 rows


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A comparison with the first run of every lane, by lane, and their ``repeats``, by order. ``created_at`` is aware, in UTC."""

    id: str
    created_at: datetime
    prompt: PromptConfig
    runs: tuple[StoredRun, ...]
    name: str = ""
    tags: tuple[str, ...] = ()
    comment: str = ""
    source: Source = Source.COMPARE
    sweep_id: str | None = None
    repeats: tuple[Repeat, ...] = ()


class Comparisons(Connected):
    """For all methods except ``restore`` and ``purge`` a deleted comparison does not exist."""

    def new_comparison(self, prompt: PromptConfig, *, source: Source = Source.COMPARE) -> str:
        """Create a comparison without runs; returns its id."""
        with self._write("The comparison was not saved") as connection:
            return add_comparison(connection, prompt, source, self.scope.owner)

    def save_run(self, comparison_id: str, trace: Trace, *, lane: int, order: int) -> str:
        """Save a run in one transaction; returns its id. Its prompt must be the comparison's."""
        check_numbering(trace)
        with explained("The run was not saved", self.location):
            new = new_run(trace, lane, order)
        with self._write("The run was not saved") as connection:
            check_prompt(comparison_row(connection, comparison_id), trace.config.prompt)
            return add_run(connection, comparison_id, new)

    def load(self, comparison_id: str) -> StoredComparison:
        """A comparison with the traces that were saved. Raises StorageError for an unknown id."""
        with self.read() as connection:
            row = comparison_row(connection, comparison_id)
            prompt = read_prompt(row)
            runs, repeats = runs_of(connection, comparison_id, prompt)
        own = {name: row[name] for name in ("id", "created_at", "name", "comment", "source", "sweep_id")}
        return StoredComparison(**own, prompt=prompt, runs=runs, repeats=repeats, tags=tuple(row["tags"]))

    def annotate(
        self,
        comparison_id: str,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        comment: str | None = None,
    ) -> None:
        """Set the name (200 characters at most), the tags (20 of 40), the comment (10,000); None leaves a field unchanged."""
        with self._write("The comparison was not changed") as connection:
            row = comparison_row(connection, comparison_id)
            name = row["name"] if name is None else checked("name", name.strip())
            tags = row["tags"] if tags is None else _checked_tags(tags)
            comment = row["comment"] if comment is None else checked("comment", comment)
            change = update(Comparison).where(Comparison.id == comparison_id)
            connection.execute(change.values(name=name, tags=tags, comment=comment))
            reindex(connection, [comparison_id])

    def delete(self, comparison_id: str) -> None:
        """Delete a comparison: it is no longer in lists, exports or votes. ``restore`` undoes it until it is purged."""
        with self._write("The comparison was not deleted") as connection:
            comparison_row(connection, comparison_id)
            change = update(Comparison).where(Comparison.id == comparison_id)
            connection.execute(change.values(deleted_at=datetime.now(UTC)))
            reindex(connection, [comparison_id])

    def restore(self, comparison_id: str) -> None:
        """Restore a deleted comparison."""
        with self._write("The comparison was not restored") as connection:
            row_of(connection, Comparison, comparison_id)
            connection.execute(update(Comparison).where(Comparison.id == comparison_id).values(deleted_at=None))
            reindex(connection, [comparison_id])

    def purge(self, before: datetime) -> int:
        """Permanently remove comparisons deleted before, with their runs, steps, tokens and votes; returns their number."""
        return self._remove(Comparison, "Deleted comparisons were not all removed", Comparison.deleted_at < before)

    def remove_unfinished(self, before: datetime) -> int:
        """Permanently remove comparisons created before that have no run because their process ended; returns their number."""
        without_run = ~select(Run.id).where(Run.comparison_id == Comparison.id).exists()
        failure = "Unfinished comparisons were not all removed"
        return self._remove(Comparison, failure, Comparison.created_at < before, without_run)

    def _remove(self, table: Table, failure: str, *which: ColumnElement[bool]) -> int:
        """Permanently remove rows in the scope, a few at a time so that others can write; returns their number."""
        few = select(table.id).where(*which, *self.scope.of(table)).limit(ROWS_A_WRITE)
        removed = self._until_none(failure, lambda connection: remove(connection, table, connection.scalars(few).all()))
        if removed and table is Comparison and self._engine.dialect.name == "sqlite":
            with self._write(failure) as connection:
                forget_texts(connection, begin=True)
            self._until_none(failure, forget_texts)
        return removed


def add_comparison(connection: Connection, prompt: PromptConfig, source: Source, owner: str) -> str:
    """The id of a new comparison, which belongs to ``owner``."""
    comparison_id = new_id()
    row = {"id": comparison_id, "created_at": datetime.now(UTC), **prompt_row(prompt), "owner": owner}
    connection.execute(insert(Comparison), row | {"source": source})
    reindex(connection, [comparison_id])
    return comparison_id


def remove(connection: Connection, table: Table, ids: Sequence[str]) -> int:
    """Permanently remove comparisons with their runs, or sweeps without their comparisons; returns their number."""
    return connection.execute(delete(table).where(table.id.in_(ids))).rowcount


def comparison_row(connection: Connection, comparison_id: str) -> RowMapping:
    """Raises StorageError if the id is unknown or the comparison deleted."""
    row = row_of(connection, Comparison, comparison_id, Comparison.__table__)
    if row["deleted_at"] is not None:
        raise unknown(comparison_id)
    return row


def check_prompt(row: RowMapping, prompt: PromptConfig) -> None:
    """Raise StorageError unless ``prompt`` is the comparison's; history and thinking may differ between runs."""
    if read_prompt(row) != replace(prompt, history=(), thinking=None):
        raise StorageError("The run was not saved: its prompt is not the prompt of its comparison.")


def checked(noun: str, text: str) -> str:
    """``text``. Raises StorageError if it is too long for a name, tag or comment (``noun``)."""
    if len(text) > LENGTHS[noun]:
        raise StorageError(f"A {noun} may have {LENGTHS[noun]:,} characters at most, not {len(text):,}.")
    return text


def _checked_tags(tags: Sequence[str]) -> list[str]:
    """Stripped, each once, sorted; empty ones are left out. Raises StorageError if a tag is too long or there are too many."""
    found = sorted({tag.strip() for tag in tags} - {""})
    if len(found) > MAX_TAGS:
        raise StorageError(f"A comparison may have {MAX_TAGS} tags at most, not {len(found)}.")
    return [checked("tag", tag) for tag in found]
