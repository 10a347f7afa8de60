"""What the handlers work with, built by ``app.py`` and passed down. Holds no values of any one visitor but stop requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mars_core.jobs import Accelerator, execution_order
from mars_core.jobs.accelerators import Local
from mars_core.models import CATALOG, ModelPool, PairSpec
from mars_core.types import Trace
from storage import RunStore
from ui.jobs.queue import Queue
from ui.jobs.stops import StopRequests
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.public.visitors import ANYBODY, Visitor, visitor_of


@dataclass(frozen=True, slots=True)
class Services:
    """``catalog`` is what is offered, the default first; ``order`` gives the order in which lanes run; a test may fix it.

    Whatever computes goes through ``accelerator``, one at a time: ``queue`` says whose turn it is. Without an accelerator of another
    kind that is ``engine``, one thread for all, which also loads models.
    """

    pool: ModelPool
    store: RunStore
    catalog: tuple[PairSpec, ...] = CATALOG
    stops: StopRequests = field(default_factory=StopRequests)
    engine: Executor = field(default_factory=partial(ThreadPoolExecutor, max_workers=1, thread_name_prefix="engine"))
    order: Callable[[int], list[int]] = execution_order
    public: bool = False  # strangers use this page: only pairs of the catalog, everybody sees their own runs
    limits: Limits = PRIVATE_LIMITS
    sign_in: bool = False  # visitors may sign in with Hugging Face
    retention_days: int | None = None  # after which runs are removed for good
    notice: str = ""  # what everybody should know: that runs are not kept, say
    visitor: Visitor = ANYBODY  # for whom these services were made by ``seen_by``
    accelerator: Accelerator = None  # type: ignore[assignment]  # without one: Local
    queue: Queue = None  # type: ignore[assignment]  # without one: of the limits
    observers: tuple[Callable[[Trace], None], ...] = ()  # called once for every run that was saved

    def __post_init__(self) -> None:
        if self.accelerator is None:
            object.__setattr__(self, "accelerator", Local(self.pool, self.engine))
        if self.queue is None:
            object.__setattr__(self, "queue", Queue(self.limits))

    @property
    def own_models(self) -> bool:
        """Whether a pair that is not of the catalog may be run."""
        return not self.public and self.accelerator.loads

    @property
    def key(self) -> str:
        """Names one open page for what the server keeps of it. A browser makes up its session, but not who its owner is: another
        visitor who sends this session's name means another page."""
        return f"{self.visitor.owner or ''}/{self.visitor.session}"

    def seen_by(self, request: Any) -> Services:
        """The same services for whoever sends ``request`` (gr.Request or Starlette's): its store has that owner's runs only."""
        visitor = visitor_of(request, public=self.public, sign_in=self.sign_in)
        return replace(self, visitor=visitor, store=self.store.of(visitor.owner))

    def rounds(self, lanes: int, rounds: int) -> tuple[int, ...]:
        """The order in which all lanes run once in each of some rounds."""
        return tuple(lane for _ in range(rounds) for lane in self.order(lanes))

    def observe(self, trace: Trace) -> None:
        """A run was saved."""
        for observer in self.observers:
            observer(trace)

    def shutdown(self, seconds: float) -> bool:
        """Nobody enters any more, and what runs is cancelled; waits up to ``seconds`` until it is saved. Whether all is."""
        self.queue.close()
        self.stops.request_all()
        return self.queue.empty(seconds)
