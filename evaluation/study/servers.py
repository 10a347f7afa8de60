"""The servers of a study, as its plan records them."""

from __future__ import annotations

from dataclasses import dataclass

SERVER = "server"  # the drafter of served runs, and their rule where none was requested or it is not known
MAX_CONCURRENCY = 1024


@dataclass(frozen=True, slots=True)
class Served:
    """``baseline_url``: of the strict lanes, if it is another server.

    ``concurrency``: numbers of requests in flight; the repeats of the study have these values in turn. Raises ValueError.
    """

    url: str
    model: str
    baseline_url: str = ""
    baseline_model: str = ""
    concurrency: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for load in self.concurrency:
            if not 1 <= load <= MAX_CONCURRENCY:
                raise ValueError(f"concurrency is {load}; it must be 1 to {MAX_CONCURRENCY:,}.")

    def of(self, *, baseline: bool) -> tuple[str, str]:
        """URL and model of a lane."""
        return (self.baseline_url, self.baseline_model) if baseline and self.baseline_url else (self.url, self.model)

    def load(self, repeat: int) -> int:
        """Requests in flight during a repeat."""
        return self.concurrency[repeat % len(self.concurrency)]

    def waves(self, repeats: int, tasks: int) -> tuple[tuple[int, int], ...]:
        """Groups of tasks that have the same requests in flight: the first task after each, and their number. ``tasks``: of a repeat."""
        if len(self.concurrency) == 1:
            return ((repeats * tasks, self.load(0)),)
        return tuple((tasks * (repeat + 1), self.load(repeat)) for repeat in range(repeats))
