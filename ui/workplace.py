"""What the handlers work with, built by ``app.py`` and passed down. Holds no values of any one visitor but stop requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mars_core.comparison import execution_order
from mars_core.models import CATALOG, ModelPool, PairSpec
from storage import RunStore
from ui.limits import PRIVATE_LIMITS, Limits
from ui.stops import StopRequests
from ui.visitors import ANYBODY, Visitor, visitor_of


@dataclass(frozen=True, slots=True)
class Workplace:
    """``catalog`` is what is offered, the default first; ``order`` gives the order in which lanes run; a test may fix it.

    Whatever computes runs in ``engine``, one thread for all: a second thread that computed on a CPU would bring workers of its
    own, and with more of them than cores OpenMP stops waiting actively, which more than halves the speed of small models.
    """

    pool: ModelPool
    store: RunStore
    catalog: tuple[PairSpec, ...] = CATALOG
    stops: StopRequests = field(default_factory=StopRequests)
    engine: Executor = field(default_factory=partial(ThreadPoolExecutor, max_workers=1, thread_name_prefix="engine"))
    ran: set[PairSpec] = field(default_factory=set)  # pairs of which a run was completed in this process
    order: Callable[[int], list[int]] = execution_order
    public: bool = False  # strangers use this page: only pairs of the catalog, everybody sees their own runs
    limits: Limits = PRIVATE_LIMITS
    sign_in: bool = False  # visitors may sign in with Hugging Face
    retention_days: int | None = None  # after which runs are removed for good
    visitor: Visitor = ANYBODY  # for whom this workplace was made by ``seen_by``

    def seen_by(self, request: Any) -> Workplace:
        """The same workplace for whoever sends ``request`` (gr.Request or Starlette's): its store has that owner's runs only."""
        visitor = visitor_of(request, public=self.public)
        return replace(self, visitor=visitor, store=self.store.of(visitor.owner))
