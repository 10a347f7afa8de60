"""Fair comparisons: runs go one after the other, warm, in an order that favours none. Imports no library."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

from mars_core.types import RunConfig

if TYPE_CHECKING:
    from mars_core.session import Session

WARM_UP_TOKENS = 8
RUN_FAILURES = (RuntimeError, ValueError, MemoryError)  # what iterating a run may raise; its trace then says why


def execution_order(runs: int) -> list[int]:
    """Run numbers in random order. It is not seeded: repeated comparisons must not repeat a bias. Store it with the runs."""
    return random.sample(range(runs), runs)


def warm_up(session: Session, config: RunConfig) -> None:
    """A few tokens that nobody sees, by the engine of the run itself. A failure here comes again in the run, and is told there."""
    with suppress(*RUN_FAILURES):
        run = session.start(config)
        for step in run:
            if step.tokens[-1].position - len(config.prefix) >= WARM_UP_TOKENS - 1:
                break
        run.close()
