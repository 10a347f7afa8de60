"""What the handlers work with, built by ``app.py`` and passed down. Holds no values of any one visitor but stop requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from mars_core.comparison import execution_order
from mars_core.models import CATALOG, ModelPool, PairSpec
from storage import RunStore
from ui.stops import StopRequests


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
