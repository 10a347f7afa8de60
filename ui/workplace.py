"""What the handlers work with, built by ``app.py`` and passed down. Holds no values of any one visitor but stop requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mars_core.comparison import execution_order
from mars_core.models import CATALOG, ModelPool, PairSpec
from storage import RunStore
from ui.stops import StopRequests


@dataclass(frozen=True, slots=True)
class Workplace:
    """``catalog`` is what is offered, the default first; ``order`` gives the order in which lanes run; a test may fix it."""

    pool: ModelPool
    store: RunStore
    catalog: tuple[PairSpec, ...] = CATALOG
    stops: StopRequests = field(default_factory=StopRequests)
    order: Callable[[int], list[int]] = execution_order
