"""A comparison as it is read back: its turns, each with the runs of its lanes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from mars_core.types import PromptConfig, Status, Summary, Trace
from storage.schema import Source


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was saved. ``lane``: its column, 0-based; ``order``: its position in the order of
    execution."""

    id: str
    lane: int
    order: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class Repeat:
    """A later run of a lane with the same configuration, made to measure the time; without its
    tokens."""

    lane: int
    order: int
    status: Status
    summary: Summary


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """The last turn of a comparison, with the first run of every lane, by lane, and their
    ``repeats``, by order. ``earlier``: the turns before, each alone; ``later``: how many follow.
    ``created_at`` is aware, in UTC."""

    id: str
    created_at: datetime
    prompt: PromptConfig
    runs: tuple[StoredRun, ...]
    name: str = ""
    tags: tuple[str, ...] = ()
    comment: str = ""
    source: Source = Source.COMPARE
    repeats: tuple[Repeat, ...] = ()
    earlier: tuple[StoredComparison, ...] = ()
    later: int = 0

    @property
    def turns(self) -> tuple[StoredComparison, ...]:
        return (*self.earlier, self)

    def at(self, turn: int, runs: Collection[str] = ()) -> StoredComparison:
        """Return the turn of this number, from 1, with those before it; without a number the last
        one that has any of these runs, by id; else the last."""
        turns = enumerate(self.turns, 1)
        turn = turn or max(
            (at for at, of in turns if any(run.id in runs for run in of.runs)), default=0
        )
        if not 0 < turn < len(self.turns):
            return self
        before = self.turns[: turn - 1]
        return replace(self.turns[turn - 1], earlier=before, later=len(self.turns) - turn)

    @property
    def executed(self) -> int:
        """Return the number of runs of all turns."""
        return sum(len(turn.runs) + len(turn.repeats) for turn in self.turns)
