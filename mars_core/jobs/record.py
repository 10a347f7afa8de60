"""A run as its events describe it, for whoever did not compute it: a trace at any time. Standard library only."""

from __future__ import annotations

import math

from mars_core.jobs import Began, Ended, Wrote
from mars_core.telemetry import summarise
from mars_core.types import Status, Step, StopReason, Trace


class Record:
    """One run from its Began on. What was written is here even where the run's process is not any more."""

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
