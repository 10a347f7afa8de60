"""What a runner says of the lanes of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evaluation.study.result import LaneResult
from mars_core.types import StopReason, Trace

LaneTraces = Mapping[int, tuple[Trace, ...]]  # lane → its turns


class Stopped(Exception):
    """A run was cancelled, by request or time limit. It is not committed; all earlier results
    are."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class LaneProgress(NamedTuple):
    """A lane of a task is running. ``tokens``: of all its turns so far."""

    task: int
    lane: int
    tokens: int


class LaneEnded(NamedTuple):
    """``order``: its number among the lanes of the task."""

    task: int
    lane: int
    order: int
    traces: tuple[Trace, ...]
    result: LaneResult


class TaskEnded(NamedTuple):
    """``relatives``: lane → values relative to its baseline, also of lanes that another process
    saved."""

    task: int
    relatives: Mapping[int, Mapping[str, object]]


RunnerEvent = LaneProgress | LaneEnded | TaskEnded | None  # None: no progress; the caller may stop
