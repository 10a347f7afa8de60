"""What crosses the border between the page and whatever computes: a Job in, events out. Plain values that can be pickled.

Standard library only. On ZeroGPU the border is one between processes; else it is one between threads.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mars_core.types import Given, RunConfig, Status, Step, StopReason

if TYPE_CHECKING:
    from mars_core.models import PairSpec


@dataclass(frozen=True, slots=True)
class Job:
    """Runs on one pair, one after the other, each warmed up directly before it. One that failed does not hinder the next; a
    cancelled one is the last.

    ``order``: indices of ``configs`` in the order of execution. ``seconds``: of wall clock for all of them, after which the run under
    way is cancelled with reason deadline. ``interval_s``: between two reports of a run; its first step is reported at once.
    """

    pair: PairSpec
    configs: tuple[RunConfig, ...]
    order: tuple[int, ...]
    seconds: float = math.inf
    interval_s: float = 0.125


class Began(NamedTuple):
    """A run begins: its configuration as it is run (parameters complete, path known) and its prompt."""

    run: int  # index of configs, as in the events below
    config: RunConfig
    prompt_ids: tuple[int, ...]
    given: tuple[Given, ...]
    text: str  # of the given tokens


class Wrote(NamedTuple):
    """Steps of the run under way, and its text so far. With ``last`` there come no more: the next event is how it ended."""

    run: int
    steps: tuple[Step, ...]
    text: str
    prefill_s: float
    peak_memory_bytes: int
    last: bool


class Ended(NamedTuple):
    """How a run ended. ``error``: one sentence, only with status failed."""

    run: int
    status: Status
    stop_reason: StopReason
    error: str


Event = Began | Wrote | Ended


class AcceleratorError(RuntimeError):
    """Nothing can be computed just now, or the process that did has gone: one sentence."""


class Stop(Protocol):
    """A request to stop, asked for before every step."""

    def requested(self) -> bool: ...


class Accelerator(Protocol):
    """What computes jobs, one at a time. ``loads``: also of pairs that are not in memory yet."""

    loads: bool

    def run(self, job: Job, stop: Stop) -> Generator[Event, None, None]:
        """The events of ``job``: for every run Began, Wrote …, Ended. Closed, the run under way ends before its next step.

        Raises AcceleratorError where no run could be begun.
        """
        ...
