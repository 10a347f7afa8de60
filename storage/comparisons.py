"""Comparisons in the database: made, read, annotated, deleted and brought back. Opens no transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, insert, select, update

from mars_core.types import PromptConfig
from storage.errors import StorageError
from storage.notes import checked_comment, checked_name, checked_tags, haystack
from storage.records import check_id, new_id, prompt_row, read_prompt, unknown
from storage.runs import StoredRun, runs_of
from storage.schema import Comparison
from storage.scope import scope_of
from storage.words import Source


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A comparison and its runs, by lane, then order. ``created_at`` is aware, in UTC."""

    id: str
    created_at: datetime
    prompt: PromptConfig
    runs: tuple[StoredRun, ...]
    name: str = ""
    tags: tuple[str, ...] = ()
    comment: str = ""
    source: Source = Source.COMPARE
    sweep_id: str | None = None


def add_comparison(connection: Connection, prompt: PromptConfig, source: Source, owner: str | None = None) -> str:
    """It belongs to ``owner``, else to that of the scope."""
    comparison_id = new_id()
    row = {"id": comparison_id, "created_at": datetime.now(UTC), **prompt_row(prompt)}
    row |= {"source": source, "search": haystack(prompt.text, "", "", ())}
    row["owner"] = scope_of(connection).owner if owner is None else owner
    connection.execute(insert(Comparison), row)
    return comparison_id


def comparison_row(connection: Connection, comparison_id: str, *, deleted: bool = False) -> RowMapping:
    """Raises StorageError where there is none of this id; a deleted one counts only with ``deleted``."""
    check_id(comparison_id)
    statement = select(Comparison.__table__).where(Comparison.id == comparison_id, *scope_of(connection).comparisons())
    row = connection.execute(statement).mappings().one_or_none()
    if row is None or (row["deleted_at"] is not None and not deleted):
        raise unknown(comparison_id)
    return row


def check_prompt(row: RowMapping, prompt: PromptConfig) -> None:
    """Raise StorageError unless ``prompt`` is the comparison's; history and thinking are each run's own."""
    if read_prompt(row) != replace(prompt, history=(), thinking=None):
        raise StorageError("The run was not saved: its prompt is not the prompt of its comparison.")


def load(connection: Connection, comparison_id: str) -> StoredComparison:
    row = comparison_row(connection, comparison_id)
    prompt = read_prompt(row)
    return StoredComparison(
        row["id"],
        row["created_at"],
        prompt,
        runs_of(connection, comparison_id, prompt),
        name=row["name"],
        tags=tuple(row["tags"]),
        comment=row["comment"],
        source=row["source"],
        sweep_id=row["sweep_id"],
    )


def annotate(
    connection: Connection, comparison_id: str, name: str | None, tags: Sequence[str] | None, comment: str | None
) -> None:
    """None leaves what is there. Raises StorageError for a text that is too long."""
    row = comparison_row(connection, comparison_id)
    name = row["name"] if name is None else checked_name(name)
    tags = row["tags"] if tags is None else checked_tags(tags)
    comment = row["comment"] if comment is None else checked_comment(comment)
    search = haystack(row["prompt"], name, comment, tags)
    change = update(Comparison).where(Comparison.id == comparison_id)
    connection.execute(change.values(name=name, tags=tags, comment=comment, search=search))


def delete_comparison(connection: Connection, comparison_id: str) -> None:
    comparison_row(connection, comparison_id)
    _mark(connection, comparison_id, datetime.now(UTC))


def restore_comparison(connection: Connection, comparison_id: str) -> None:
    comparison_row(connection, comparison_id, deleted=True)
    _mark(connection, comparison_id, None)


def _mark(connection: Connection, comparison_id: str, deleted_at: datetime | None) -> None:
    connection.execute(update(Comparison).where(Comparison.id == comparison_id).values(deleted_at=deleted_at))
