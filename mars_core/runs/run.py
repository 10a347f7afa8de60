"""A run: the text of one prompt, from an engine's steps to Steps and a Trace."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import NamedTuple

from mars_core.engine import Engine, InvalidLogitsError, RawStep
from mars_core.engine.assembly import Assembler
from mars_core.engine.build import Kind, verifier_of
from mars_core.jobs import RUN_FAILURES, Began, RecordedRun, Why
from mars_core.models import Pair
from mars_core.models.errors import brief, is_out_of_memory
from mars_core.models.memory import PeakMemory
from mars_core.panics import contained
from mars_core.rules import shift_kind
from mars_core.types import RunConfig, ShiftKind, Status, Step, StopReason


class Checked(NamedTuple):
    """A valid configuration with complete parameters, and its prompt."""

    config: RunConfig
    prompt_ids: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Maximum tokens of the text, prompt included."""
        return len(self.prompt_ids) + len(self.config.prefix) + self.config.max_new_tokens


class Seat(NamedTuple):
    """A slot of an engine; ``batch``: slots of one that other runs use too, 0 if none does."""

    kind: Kind
    engine: Engine
    slot: int = 0
    batch: int = 0


class Run(RecordedRun):
    """One generation. Iterate it for its Steps; ``trace`` is available at any time, before the end
    with status cancelled. Its times exclude the consumer's work between two steps, and captures,
    which later runs share."""

    def __init__(self, pair: Pair, checked: Checked, telemetry: bool, seat: Seat) -> None:
        config, prompt_ids = checked
        self._pair, self._telemetry = pair, telemetry
        self._seat: Seat | None = seat
        kind = shift_kind(config.rule.name, config.drafter, config.sampling.temperature)
        recorded = {} if kind is ShiftKind.EXACT else {"tv": kind.value}
        if seat.batch:
            recorded["batch"] = str(seat.batch)
        if pair.shapes.kernels and not seat.kind.cache_size.shapes.kernels:
            recorded["exact"] = f"no: its steps have more than {pair.shapes.most_rows} rows"
        if seat.kind.scores and pair.classifier_ref:
            recorded["classifier"] = "@".join(astuple(pair.classifier_ref))
        config = replace(
            config, environment={**config.environment, "path": seat.engine.path, **recorded}
        )
        self._assembler = Assembler(pair.tokenizer, pair.pieces, config.prompt.stop, config.prefix)
        super().__init__(Began(0, config, prompt_ids, self._assembler.given, self._assembler.text))
        self.cancelled = False  # whether it is to end before its next step
        self._elapsed_s = 0.0
        self._peak = PeakMemory(pair.device)
        self.why: Why = lambda: None  # asked while a long prompt is read

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self.cancelled:
            self.close()
        if self._seat is None:
            raise StopIteration
        with self.failing():
            if math.isnan(self.prefill_s):
                self.begin()
            if self._seat is not None:
                started = time.perf_counter()
                ((_, raw),) = self._seat.engine.step()
                return self.take(raw, started)
        raise StopIteration

    @contextmanager
    def failing(self) -> Iterator[None]:
        """End the run with an error within, which is raised again."""
        try:
            with contained():
                yield
        except RUN_FAILURES as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Ends the run with an error. Its engine is not used again by others than the batch."""
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.engine.end(seat.slot)
        self._finish(Status.FAILED, StopReason.ERROR, failure(error, str(self._pair.device)))

    @property
    def ended(self) -> bool:
        """Whether it has no further step."""
        return self._seat is None

    def cancel(self, why: StopReason = StopReason.CANCELLED) -> None:
        """Ends the run before its next step, from any thread; no effect after the run has ended."""
        if not self.cancelled and self.status is Status.CANCELLED:
            self.stop_reason = why
        self.cancelled = True

    def close(self) -> None:
        """Releases the slot, or caches and captures; a run that has not ended is cancelled. Call it
        in the thread that iterates the run."""
        self.cancelled, seat, self._seat = True, self._seat, None
        self.peak_memory_bytes = self._peak.bytes()
        if seat is not None:
            seat.engine.end(seat.slot)
            if not seat.batch and self._pair.graphs:
                self._pair.engines.give_back(seat.kind, seat.engine)

    def begin(self) -> None:
        """Read the prompt, and end the run between two passes once ``why`` has a reason."""
        assert self._seat is not None, "it has not ended"
        config, prefix = self.config, len(self.config.prefix)
        kind, engine, slot, _ = self._seat
        verifier = verifier_of(self._pair, config, kind, self._telemetry)
        read, started = [*self.prompt_ids, *config.prefix], time.perf_counter()
        try:
            engine.begin(
                slot,
                verifier,
                read,
                config.max_new_tokens,
                config.seed,
                prefix,
                config.spent,
                self._go_on,
            )
        except _ReadingEnded:
            self.close()
        else:
            self.prefill_s = self._elapsed_s = time.perf_counter() - started

    def _go_on(self) -> None:
        if (end := self.why()) is not None:
            self.cancel(end)
            raise _ReadingEnded

    def take(self, raw: RawStep | InvalidLogitsError, started: float) -> Step:
        """Return the next step, from the engine's; ``started``: when the engine began it."""
        if isinstance(raw, InvalidLogitsError):
            raise raw
        config, prefix = self.config, len(self.config.prefix)
        before = self._elapsed_s - raw.set_up_s - started
        step, stopped = self._assembler.step(raw, before + time.perf_counter())
        reason = (
            StopReason.STOP_STRING if stopped else StopReason.EOS if raw.eos else StopReason.LENGTH
        )
        ended = (
            reason is not StopReason.LENGTH
            or self._assembler.count == prefix + config.max_new_tokens
        )
        self.steps.append(self._assembler.close(step) if ended else step)
        self.text, self.peak_memory_bytes = self._assembler.text, self._peak.bytes()
        self._elapsed_s = before + time.perf_counter()
        if ended:
            self._finish(Status.COMPLETED, reason, "")
        return self.steps[-1]

    def _finish(self, status: Status, reason: StopReason, error: str) -> None:
        self.status, self.stop_reason, self.error = status, reason, error
        self.close()


class _ReadingEnded(Exception):
    """The run was cancelled while its prompt was read."""


def failure(error: Exception, device: str) -> str:
    """Return why a run failed, in one sentence without the stack trace in a library's message."""
    if is_out_of_memory(error):
        return f"The memory of {device} ran out; take a shorter prompt, fewer new tokens or a smaller pair."
    return brief(error)
