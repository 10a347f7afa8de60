"""Blind votes between two lanes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    insert,
    join,
    null,
    select,
    update,
)
from sqlalchemy.orm import aliased

from mars_core.types import Status
from storage.connection import Connected
from storage.errors import StorageError
from storage.runs.comparisons import checked, comparison_row
from storage.runs.records import OF_LABEL, run_label
from storage.schema import Choice, ComparisonRow, RunRow, Source, Vote
from storage.scope import Scope, check_id, live, new_id, unknown

_LEFT, _RIGHT = aliased(RunRow), aliased(RunRow)
_SIDES = {"left": _LEFT, "right": _RIGHT}
# What a side of a vote is called by.
_LABELS = [
    getattr(run, name).label(f"{side}_{name}") for side, run in _SIDES.items() for name in OF_LABEL
]
_VOTED = (
    join(Vote, ComparisonRow, ComparisonRow.id == Vote.comparison_id)
    .join(_LEFT, _LEFT.id == Vote.left_run_id)
    .join(_RIGHT, _RIGHT.id == Vote.right_run_id)
)


@dataclass(frozen=True, slots=True)
class StoredVote:
    """A vote. ``left_rule``, ``right_rule``: with parameters, as in tables; ``left_run``,
    ``right_run``: ids."""

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


@dataclass(frozen=True, slots=True)
class VoteCount:
    """Number of votes on two rules (as in StoredVote) with this choice; None: rounds that ended
    without a vote because both texts were the same."""

    left_rule: str
    right_rule: str
    choice: Choice | None
    count: int


class Votes(Connected):
    """At most one vote per comparison."""

    def add_vote(
        self,
        comparison_id: str,
        *,
        left_lane: int,
        right_lane: int,
        choice: Choice,
    ) -> str:
        """Save the vote of a comparison; returns its id. Raises StorageError for a second vote and
        for an empty lane."""
        with self._write("The vote was not saved") as connection:
            comparison_row(connection, comparison_id)
            if left_lane == right_lane:
                raise StorageError("The vote was not saved: its two sides are one lane.")
            if connection.execute(
                select(Vote.id).where(Vote.comparison_id == comparison_id)
            ).first():
                raise StorageError("The vote was not saved: this comparison has one already.")
            row = {
                "id": new_id(),
                "comparison_id": comparison_id,
                "created_at": datetime.now(UTC),
                "choice": choice,
                "left_run_id": _run(connection, comparison_id, left_lane),
                "right_run_id": _run(connection, comparison_id, right_lane),
                "comment": "",
            }
            connection.execute(insert(Vote), row)
            return str(row["id"])

    def comment_vote(self, vote_id: str, comment: str) -> None:
        """Replace the comment (at most 10,000 characters)."""
        with self._write("The comment was not saved") as connection:
            check_id(vote_id, "vote")
            if connection.execute(_votes(self.scope).where(Vote.id == vote_id)).first() is None:
                raise unknown(vote_id, "vote")
            connection.execute(
                update(Vote).where(Vote.id == vote_id).values(comment=checked("comment", comment))
            )

    def votes(self, limit: int | None = None) -> tuple[StoredVote, ...]:
        """Return the votes, the latest first."""
        latest = _votes(self.scope).order_by(Vote.created_at.desc(), Vote.id.desc())
        return tuple(self.rows(latest.limit(limit), Vote.id, "vote", _stored))

    def vote_counts(self) -> tuple[VoteCount, ...]:
        """Number of votes, and of rounds without a vote, by rules and choice."""
        there = *live(self.scope), *self.scope.votes
        votes = select(Vote.choice, *_LABELS).select_from(_VOTED).where(*there)
        same = (
            select(null().label("choice"), *_LABELS)
            .join_from(ComparisonRow, _LEFT, _LEFT.comparison_id == ComparisonRow.id)
            .join(_RIGHT, (_RIGHT.comparison_id == ComparisonRow.id) & (_RIGHT.lane > _LEFT.lane))
            .where(ComparisonRow.source == Source.VOTE, ComparisonRow.runs == 2)
            .where(*(run.status == Status.COMPLETED for run in _SIDES.values()), *there)
            .where(_LEFT.text == _RIGHT.text)
            .where(~select(Vote.id).where(Vote.comparison_id == ComparisonRow.id).exists())
        )
        counted: Counter[tuple[str, str, Choice | None]] = Counter()
        for each in (votes, same):
            counted.update(
                self.rows(
                    each,
                    ComparisonRow.id,
                    "vote of the comparison",
                    lambda row: (*_labels(row), row["choice"]),
                )
            )
        return tuple(VoteCount(*which, count) for which, count in counted.items())


def votes_of(store: Connected, comparison_ids: list[str]) -> list[StoredVote]:
    """Return the votes in the order of the comparisons."""
    votes = _votes(store.scope).where(Vote.comparison_id.in_(comparison_ids))
    with store.read() as connection:
        stored = list(map(_stored, connection.execute(votes).mappings()))
    return sorted(stored, key=lambda vote: comparison_ids.index(vote.comparison_id))


def _run(connection: Connection, comparison_id: str, lane: int) -> str:
    """Return the run that a lane shows: its last."""
    statement = select(RunRow.id).where(RunRow.comparison_id == comparison_id, RunRow.lane == lane)
    row = connection.execute(
        statement.order_by(RunRow.execution_order.desc()).limit(1)
    ).scalar_one_or_none()
    if row is None:
        raise StorageError(f"The vote was not saved: lane {lane + 1} of the comparison has no run.")
    return row


def _votes(scope: Scope) -> Select[*tuple[Any, ...]]:
    runs = (_LEFT.id.label("left_run"), _RIGHT.id.label("right_run"))
    columns = (Vote.id, Vote.comparison_id, Vote.created_at, Vote.choice, Vote.comment)
    votes = select(*columns, ComparisonRow.prompt, *runs, *_LABELS).select_from(_VOTED)
    return votes.where(*live(scope), *scope.votes)


def _labels(row: RowMapping) -> tuple[str, str]:
    """Return the labels of both sides."""
    left, right = (run_label({name: row[f"{side}_{name}"] for name in OF_LABEL}) for side in _SIDES)
    return left, right


def _stored(row: RowMapping) -> StoredVote:
    values = {each.name: row[each.name] for each in fields(StoredVote) if each.name in row}
    values["left_rule"], values["right_rule"] = _labels(row)
    return StoredVote(**values)
