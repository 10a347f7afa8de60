"""What crosses the border between the page and whatever computes: a Job in, events out. Plain values that can be pickled.

Standard library only. On ZeroGPU the border is one between processes; else it is one between threads. ``Record`` makes a trace of the
events; runs that are to be compared go one after the other, warm (``Session.warm_up``), in an order that favours none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mars_core.telemetry import summarise
from mars_core.types import Given, RunConfig, Status, Step, StopReason, Trace

if TYPE_CHECKING:
    from mars_core.models import PairSpec

RUN_FAILURES = (RuntimeError, ValueError, MemoryError)  # what iterating a run may raise; its trace then says why


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


class Record:
    """One run as its events describe it, for whoever did not compute it: a trace at any time, even where its process is gone."""

    def __init__(self, began: Began) -> None:
        _, self.config, self.prompt_ids, self.given, self.text = began
        self.steps: list[Step] = []
        self.prefill_s = math.nan
        self._peak_memory_bytes = 0
        self.status, self.stop_reason, self.error = Status.CANCELLED, StopReason.CANCELLED, ""

    @property
    def peak_memory_bytes(self) -> int:
        return self._peak_memory_bytes

    def follow(self, event: Wrote | Ended) -> None:
        """The run's next event."""
        if isinstance(event, Ended):
            _, self.status, self.stop_reason, self.error = event
        else:
            self.steps += event.steps
            self.text, self.prefill_s, self._peak_memory_bytes = event.text, event.prefill_s, event.peak_memory_bytes

    def trace(self) -> Trace:
        """What happened so far; status cancelled until the run has ended."""
        summary = summarise(
            self.steps, prompt_tokens=len(self.prompt_ids), prefill_s=self.prefill_s, peak_memory_bytes=self.peak_memory_bytes
        )  # fmt: skip
        return Trace(
            config=self.config, status=self.status, stop_reason=self.stop_reason, prompt_ids=self.prompt_ids, text=self.text,
            steps=tuple(self.steps), summary=summary, error=self.error, given=self.given,
        )  # fmt: skip


def execution_order(runs: int) -> list[int]:
    """Run numbers in random order. It is not seeded: repeated comparisons must not repeat a bias. Store it with the runs."""
    return random.sample(range(runs), runs)
