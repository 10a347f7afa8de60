"""A comparison for a program: the same runs as on the page, saved alike, with plain progress in place of frames. Knows no component."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mars_core.comparison import warm_up
from mars_core.models import PairSpec
from mars_core.types import RunConfig, Status
from ui.labels import lane_label
from ui.runs import burst
from ui.workplace import Workplace

if TYPE_CHECKING:
    from mars_core.session import Run, Session

INTERVAL_S = 0.25  # between two reports of progress, and at most until a client that has gone is noticed
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a comparison stands. ``share``: 0 to 1; ``comparison``: its id, once it has one."""

    message: str
    share: float
    comparison: str | None = None

    def document(self) -> dict[str, Any]:
        return {"id": self.comparison, "state": "running", "progress": self.share, "message": self.message}


def load_session(workplace: Workplace, spec: PairSpec) -> Generator[Progress, None, Session]:
    """Reports that the pair is waited for; returns a session on it. Raises ModelError."""
    loading = workplace.engine.submit(workplace.pool.get, spec)
    yield from _waiting(loading, Progress(f"Waiting for the pair {spec.title!r}", 0.0))
    pair = loading.result()
    from mars_core.session import Session  # not before a pair is there: the page starts without all that models need

    return Session(pair)


def run_all(workplace: Workplace, session: Session, configs: Sequence[RunConfig]) -> Generator[Progress, None, str]:
    """Run and save the configurations, one after the other, warm, in the workplace's order; the first that fails is the last.

    Returns the id of the comparison, which is saved when its first run begins. Closed on the way, the run under way is saved as
    cancelled and no other is begun. Raises StorageError.
    """
    spec, comparison = session.pair.spec, ""
    if spec not in workplace.ran:  # in a fresh process the warm-up of each run alone is not enough
        for config in configs:
            yield from _warm(workplace, session, config, Progress("Warming up", 0.0))
    for place, lane in enumerate(workplace.order(len(configs))):
        share = place / len(configs)
        yield from _warm(workplace, session, configs[lane], Progress("Warming up", share, comparison or None))
        comparison = comparison or workplace.store.new_comparison(configs[lane].prompt)
        run = session.start(configs[lane])
        try:
            for message, done in _steps(workplace, run, configs[lane]):
                told = f"Run {place + 1} of {len(configs)}: {lane_label(configs[lane])}, {message}"
                yield Progress(told, share + done / len(configs), comparison)
        finally:
            trace = run.trace()
            workplace.store.save_run(comparison, trace, lane=lane, order=place)
        if trace.status is not Status.COMPLETED:
            break
        workplace.ran.add(spec)
    return comparison


def _warm(workplace: Workplace, session: Session, config: RunConfig, progress: Progress) -> Iterator[Progress]:
    yield from _waiting(workplace.engine.submit(warm_up, session, config), progress)


def _waiting(work: Future[Made], progress: Progress) -> Iterator[Progress]:
    """Says what is waited for, before it is; what ``work`` raises is raised."""
    yield progress
    work.result()


def _steps(workplace: Workplace, run: Run, config: RunConfig) -> Iterator[tuple[str, float]]:
    """The engine's thread decodes an interval at a time; what is said of it, and the share of the run that is done."""
    tokens, goes_on, seconds = 0, True, 0.0
    while goes_on:
        steps, goes_on = workplace.engine.submit(burst, run, seconds, lambda: False).result()
        seconds = INTERVAL_S
        tokens += sum(len(step.emitted) for step in steps)
        yield f"{tokens} of at most {config.max_new_tokens} tokens", tokens / config.max_new_tokens
