"""Blind votes in the database: which of two lanes a reader preferred. Knows no page and opens no transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, insert, select, update
from sqlalchemy.orm import aliased

from storage.comparisons import comparison_row
from storage.errors import StorageError
from storage.notes import checked_comment
from storage.records import check_id, new_id, rule_label, unknown
from storage.schema import Comparison, Run, Vote
from storage.scope import scope_of
from storage.words import Choice

_LEFT, _RIGHT = aliased(Run), aliased(Run)


@dataclass(frozen=True, slots=True)
class StoredVote:
    """A vote. ``left_rule``, ``right_rule``: with parameters, as a table names them; ``left_run``, ``right_run``: ids."""

    id: str
    comparison_id: str
    created_at: datetime
    choice: Choice
    left_rule: str
    right_rule: str
    left_run: str
    right_run: str
    comment: str
    prompt: str

    @property
    def winner_run(self) -> str | None:
        """The id of the preferred run."""
        return {Choice.LEFT: self.left_run, Choice.RIGHT: self.right_run}.get(self.choice)


def add_vote(
    connection: Connection, comparison_id: str, left_lane: int, right_lane: int, choice: Choice, comment: str
) -> str:
    comparison_row(connection, comparison_id)
    if left_lane == right_lane:
        raise StorageError("The vote was not saved: its two sides are one lane.")
    if connection.execute(select(Vote.id).where(Vote.comparison_id == comparison_id)).first():
        raise StorageError("The vote was not saved: this comparison has one already.")
    vote_id = new_id()
    row = {"id": vote_id, "comparison_id": comparison_id, "created_at": datetime.now(UTC), "choice": choice}
    row |= {"left_run_id": _run(connection, comparison_id, left_lane), "comment": checked_comment(comment)}
    row |= {"right_run_id": _run(connection, comparison_id, right_lane)}
    connection.execute(insert(Vote), row)
    return vote_id


def comment_vote(connection: Connection, vote_id: str, comment: str) -> None:
    check_id(vote_id, "vote")
    if connection.execute(_votes(connection).where(Vote.id == vote_id)).first() is None:
        raise unknown(vote_id, "vote")
    connection.execute(update(Vote).where(Vote.id == vote_id).values(comment=checked_comment(comment)))


def all_votes(connection: Connection) -> tuple[StoredVote, ...]:
    """Latest first."""
    rows = connection.execute(_votes(connection).order_by(Vote.created_at.desc(), Vote.id.desc())).mappings()
    return tuple(map(_stored, rows))


def votes_of(connection: Connection, comparison_ids: list[str]) -> tuple[StoredVote, ...]:
    """In the order of the comparisons."""
    rows = connection.execute(_votes(connection).where(Vote.comparison_id.in_(comparison_ids))).mappings()
    return tuple(map(_stored, sorted(rows, key=lambda row: comparison_ids.index(row["comparison_id"]))))


def _run(connection: Connection, comparison_id: str, lane: int) -> str:
    """The run that a lane shows: its last."""
    statement = select(Run.id).where(Run.comparison_id == comparison_id, Run.lane == lane)
    found = connection.execute(statement.order_by(Run.execution_order.desc()).limit(1)).scalar_one_or_none()
    if found is None:
        raise StorageError(f"The vote was not saved: lane {lane + 1} of the comparison has no run.")
    return found


def _votes(connection: Connection) -> Select[*tuple[Any, ...]]:
    rules = [
        getattr(run, name).label(f"{side}_{name}")
        for side, run in (("left", _LEFT), ("right", _RIGHT))
        for name in ("rule", "rule_parameters")
    ]
    statement = select(*Vote.__table__.c, Comparison.prompt, *rules).join(
        Comparison, Comparison.id == Vote.comparison_id
    )
    statement = statement.join(_LEFT, _LEFT.id == Vote.left_run_id).join(_RIGHT, _RIGHT.id == Vote.right_run_id)
    scope = scope_of(connection)
    return statement.where(Comparison.deleted_at.is_(None), *scope.comparisons(), *scope.votes())


def _stored(row: RowMapping) -> StoredVote:
    return StoredVote(
        id=row["id"],
        comparison_id=row["comparison_id"],
        created_at=row["created_at"],
        choice=row["choice"],
        left_rule=_label(row, "left"),
        right_rule=_label(row, "right"),
        left_run=row["left_run_id"],
        right_run=row["right_run_id"],
        comment=row["comment"],
        prompt=row["prompt"],
    )


def _label(row: RowMapping, side: str) -> str:
    return rule_label({name: row[f"{side}_{name}"] for name in ("rule", "rule_parameters")})
