"""Many runs at once: one engine writes their texts together, and the next run begins where one has
ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from mars_core.decoder import is_fast
from mars_core.engine import Engine
from mars_core.engine.build import Kind, build, kind_of
from mars_core.jobs import RUN_FAILURES
from mars_core.models import Pair
from mars_core.panics import contained
from mars_core.runs.run import Checked, Run, Seat


def takes_batches(pair: Pair) -> bool:
    """Return whether its models decode several texts in one pass; transformers' modules do not."""
    return is_fast(pair.target) and (pair.draft is None or is_fast(pair.draft))


def together(
    pair: Pair,
    runs: Iterable[Checked],
    slots: int,
    telemetry: bool,
    began: Callable[[int, Run], None],
) -> Iterator[tuple[int, Run]]:
    """See ``Session.together``."""
    batch = _Batch(pair, slots if takes_batches(pair) else 1, telemetry, began)
    waiting = enumerate(runs)
    upcoming = next(waiting, None)
    try:
        while upcoming is not None or batch.running:
            while upcoming is not None and batch.has_room(upcoming[1]):
                yield from batch.begin(*upcoming)
                upcoming = next(waiting, None)
            yield from batch.step()
    finally:
        batch.close()


class _Batch:
    """The runs of one engine, by slot."""

    def __init__(
        self, pair: Pair, slots: int, telemetry: bool, began: Callable[[int, Run], None]
    ) -> None:
        self._pair, self._slots, self._telemetry, self._began = pair, slots, telemetry, began
        self.running: dict[int, tuple[int, Run]] = {}
        self._engine: tuple[Kind, Engine] | None = None

    def has_room(self, checked: Checked) -> bool:
        """Return whether the run can begin now; without running ones, an engine for it is opened."""
        kind = kind_of(self._pair, checked.config, checked.tokens, self._slots)
        if self._engine is not None:
            present = self._engine[0]
            tokens = present.cache_size.tokens
            alike = kind._replace(cache_size=present.cache_size) == present
            if alike and kind.cache_size.tokens <= tokens:
                return len(self.running) < self._slots
        if self.running:
            return False
        self.close()
        self._engine = kind, self._pair.engines.take(kind) or build(self._pair, kind)
        return True

    def begin(self, number: int, checked: Checked) -> Iterator[tuple[int, Run]]:
        """Begins a run; yields it if it has failed."""
        assert self._engine is not None, "see has_room"
        slot = min(set(range(self._slots)) - set(self.running))
        seat = Seat(*self._engine, slot, self._slots if self._slots > 1 else 0)
        run = Run(self._pair, checked, self._telemetry, seat)
        self.running[slot] = number, run
        self._began(number, run)
        with suppress(*RUN_FAILURES), run.failing():
            run.begin()
        yield from self._ended()

    def step(self) -> Iterator[tuple[int, Run]]:
        """Take one step of all runs; yields those that have ended."""
        for _, run in self.running.values():
            if run.cancelled:
                run.close()
        yield from self._ended()
        if not self.running:
            return
        assert self._engine is not None, "there are runs"
        started = time.perf_counter()
        try:
            with contained():
                steps = self._engine[1].step()
        except RUN_FAILURES as error:
            for _, run in self.running.values():
                run.fail(error)
            self._engine = None  # its state is undefined
            steps = []
        for slot, raw in steps:
            run = self.running[slot][1]
            with suppress(*RUN_FAILURES), run.failing():
                run.take(raw, started)
        yield from self._ended()

    def _ended(self) -> Iterator[tuple[int, Run]]:
        """Takes the ended runs out."""
        for slot, (number, run) in [*self.running.items()]:
            if run.ended:
                del self.running[slot]
                yield number, run

    def close(self) -> None:
        """Cancels what runs, and releases the engine."""
        for _, run in self.running.values():
            run.close()
        self.running.clear()
        if self._engine is not None and self._pair.graphs:
            self._pair.engines.give_back(*self._engine)
        self._engine = None
