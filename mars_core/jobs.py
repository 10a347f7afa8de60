"""The interface between the page and an accelerator: a Job in, events out, all picklable.

On ZeroGPU the two are separate processes, elsewhere separate threads. ``RecordedRun`` builds a
trace from the events. Runs to be compared are executed one after the other, each after a warm-up
(``Session.warm_up``), in random order."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mars_core.telemetry import summarise
from mars_core.types import PrefixToken, RunConfig, Status, Step, StopReason, Trace

if TYPE_CHECKING:
    from mars_core.models import PairSpec

RUN_FAILURES = (
    RuntimeError,
    ValueError,
    MemoryError,
)  # exceptions of iterating a run; its trace then holds the reason


Why = Callable[[], StopReason | None]  # reason to end a run before its next step, or None


def reason_to_end(stopped: Callable[[], bool], ends: float) -> StopReason | None:
    """Return why a run ends before its next step; None where it goes on. ``ends``: its deadline, by
    ``time.monotonic``."""
    if stopped():
        return StopReason.CANCELLED
    return StopReason.DEADLINE if time.monotonic() >= ends else None


@dataclass(frozen=True, slots=True)
class Job:
    """Runs on one pair, one after the other, each directly after its warm-up. After a failed run
    the next one starts; a cancelled run is the last. ``order``: indices of ``configs`` in the order
    of execution. ``seconds``: wall time for all of them, after which the current run is cancelled
    with reason deadline. ``interval_s``: between two reports of a run; its first step is reported
    immediately. ``warm``: the job before ran the same configurations, so no warm-up is needed."""

    pair: PairSpec
    configs: tuple[RunConfig, ...]
    order: tuple[int, ...]
    seconds: float = math.inf
    interval_s: float = 0.125
    warm: bool = False


class Began(NamedTuple):
    """A run has started: its final configuration (parameters complete, path known) and its
    prompt."""

    run: int  # index of configs, as in the events below
    config: RunConfig
    prompt_ids: tuple[int, ...]
    given: tuple[PrefixToken, ...]
    text: str  # text of the given tokens


class Wrote(NamedTuple):
    """New steps of the current run, and its text so far. After ``last`` the next event is Ended."""

    run: int
    steps: tuple[Step, ...]
    text: str
    prefill_s: float
    peak_memory_bytes: int
    last: bool


class Ended(NamedTuple):
    """How a run ended. ``error``: one sentence, only with status failed. ``trace``: the run, where
    it says more than its events, as that of a server does."""

    run: int
    status: Status
    stop_reason: StopReason
    error: str
    trace: Trace | None = None


JobEvent = Began | Wrote | Ended


class AcceleratorError(RuntimeError):
    """The accelerator is not available, or its process has ended; the message is one sentence."""


class Stop(Protocol):
    """A stop request, checked before every step."""

    def requested(self) -> bool: ...


class Accelerator(Protocol):
    """Executes jobs, one at a time. ``loads``: whether it can load pairs that are not in memory."""

    loads: bool

    def run(self, job: Job, stop: Stop) -> Generator[JobEvent, None, None]:
        """Yield the events of ``job``: for every run Began, Wrote …, Ended. Closing the generator
        ends the current run before its next step. Raises AcceleratorError if no run could be
        started."""
        ...

    def reserves_s(self, pair: PairSpec, new_tokens: Sequence[int]) -> int:
        """Return the seconds of a visitor's quota that a job asks for, with the most new tokens of
        each of its runs; 0 where there is no quota."""
        ...


class RecordedRun:
    """Builds the trace of a run from its events; available at any time, even if the computing
    process has ended."""

    def __init__(self, began: Began) -> None:
        _, self.config, self.prompt_ids, self.given, self.text = began
        self.steps: list[Step] = []
        self.prefill_s = math.nan
        self.peak_memory_bytes = 0
        self.status, self.stop_reason, self.error = Status.CANCELLED, StopReason.CANCELLED, ""
        self._answered: Trace | None = None

    def follow(self, event: Wrote | Ended) -> None:
        """Adds the next event of the run."""
        if isinstance(event, Ended):
            _, self.status, self.stop_reason, self.error, self._answered = event
        else:
            self.steps += event.steps
            _, _, self.text, self.prefill_s, self.peak_memory_bytes, _ = event

    def trace(self) -> Trace:
        """Return the trace so far; its status is cancelled until the run has ended."""
        if self._answered:
            return self._answered
        summary = summarise(
            self.steps,
            prompt_tokens=len(self.prompt_ids),
            prefill_s=self.prefill_s,
            peak_memory_bytes=self.peak_memory_bytes,
        )
        return Trace(
            config=self.config,
            status=self.status,
            stop_reason=self.stop_reason,
            prompt_ids=self.prompt_ids,
            text=self.text,
            steps=tuple(self.steps),
            summary=summary,
            error=self.error,
            given=self.given,
        )


def follow(records: dict[int, RecordedRun], event: JobEvent) -> None:
    """Adds the next event of a job to the record of its run."""
    if isinstance(event, Began):
        records[event.run] = RecordedRun(event)
    else:
        records[event.run].follow(event)


def execution_order(runs: int) -> list[int]:
    """Run numbers in random order. It is not seeded, so that repeated comparisons do not repeat a
    bias; it is stored with the runs."""
    return random.sample(range(runs), runs)


def servers_last(order: Iterable[int], configs: Sequence[RunConfig]) -> tuple[int, ...]:
    """Return an order of execution with the runs of servers after those that are decoded here."""
    return tuple(sorted(order, key=lambda number: configs[number].served))
