"""A run as its events tell it, for whoever did not compute it: a trace at any time. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mars_core.jobs import Began, Ended, Wrote
from mars_core.telemetry import summarise
from mars_core.types import Given, RunConfig, Status, Step, StopReason, Trace


class Record:
    """Follows one run from its Began on. What was written is here even where the run's process is not any more."""

    def __init__(self, began: Began) -> None:
        self._began = began
        self._steps: list[Step] = []
        self._text = began.text
        self._prefill_s = math.nan
        self._peak_memory_bytes = 0
        self._ended: Ended | None = None

    def follow(self, event: Wrote | Ended) -> None:
        """The run's next event."""
        if isinstance(event, Ended):
            self._ended = event
            return
        self._steps += event.steps
        self._text, self._prefill_s = event.text, event.prefill_s
        self._peak_memory_bytes = event.peak_memory_bytes

    def trace(self) -> Trace:
        """What happened so far; status cancelled until the run has ended."""
        began = self._began
        ended = self._ended or Ended(began.run, Status.CANCELLED, StopReason.CANCELLED, "")
        return trace_of(
            began.config, began.prompt_ids, began.given, self._steps, self._text, status=ended.status,
            stop_reason=ended.stop_reason, error=ended.error, prefill_s=self._prefill_s,
            peak_memory_bytes=self._peak_memory_bytes,
        )  # fmt: skip


def trace_of(
    config: RunConfig, prompt_ids: tuple[int, ...], given: tuple[Given, ...], steps: Sequence[Step], text: str, *,
    status: Status, stop_reason: StopReason, error: str, prefill_s: float, peak_memory_bytes: int,
) -> Trace:  # fmt: skip
    """A trace, with the summary of its steps."""
    return Trace(
        config=config,
        status=status,
        stop_reason=stop_reason,
        prompt_ids=prompt_ids,
        text=text,
        steps=tuple(steps),
        summary=summarise(
            steps,
            prompt_tokens=len(prompt_ids),
            prefill_s=prefill_s,
            ttft_s=steps[0].elapsed_s if steps else math.nan,
            peak_memory_bytes=peak_memory_bytes,
        ),
        error=error,
        given=given,
    )
