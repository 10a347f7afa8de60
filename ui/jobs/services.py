"""The dependencies of the handlers: models, store, queue, limits. ``app.py`` builds them;
``for_visitor`` gives those of one visitor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from display.format import about, plural
from mars_core.accelerators import Local
from mars_core.jobs import Accelerator, execution_order, servers_last
from mars_core.models import CATALOG, ModelPool, PairSpec
from mars_core.rules import RULES
from mars_core.types import ANSWER, SERVER, RunConfig, Trace
from storage import RunStore
from ui.jobs.queue import Paces, Queue
from ui.jobs.stops import JobStop, StopRequests
from ui.kit.errors import error_message
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.public.visitors import ANYBODY, Visitor, visitor_of


@dataclass(frozen=True, slots=True)
class Services:
    """``catalog`` is what is offered, the default first; ``order`` gives the order in which lanes
    run; a test may fix it. All jobs run on ``accelerator``, one at a time, in the order of
    ``queue``. The default accelerator is ``engine``, a single thread that also loads models."""

    pool: ModelPool
    store: RunStore
    catalog: tuple[PairSpec, ...] = CATALOG
    stops: StopRequests = field(default_factory=StopRequests)
    engine: Executor = field(
        default_factory=partial(ThreadPoolExecutor, max_workers=1, thread_name_prefix="engine")
    )
    order: Callable[[int], list[int]] = execution_order
    public: bool = False  # strangers use this page: only pairs of the catalog, everybody sees only their own runs
    limits: Limits = PRIVATE_LIMITS
    sign_in: bool = False  # visitors may sign in with Hugging Face
    servers: tuple[str, ...] = ()  # base URLs that may be asked; empty: all, in public mode none
    # of a visitor, for one request: keys of servers by address, and pasted answers by lane
    server_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    answers: Mapping[int, Trace] = field(default_factory=dict, repr=False)
    retention_days: int | None = None  # after which runs are removed for good
    notice: str = ""  # what everybody should know: that runs are not stored, say
    visitor: Visitor = ANYBODY  # for whom these services were made by ``for_visitor``
    scope: str = ""  # the part of the page whose jobs are stopped together
    accelerator: Accelerator = None  # type: ignore[assignment]  # without one: Local
    queue: Queue = None  # type: ignore[assignment]  # without one: of the limits
    paces: Paces = field(default_factory=Paces)
    observers: tuple[Callable[[Trace], None], ...] = ()  # called once for every run that was saved

    def __post_init__(self) -> None:
        if self.accelerator is None:
            object.__setattr__(self, "accelerator", Local(self.pool, self.engine))
        if self.queue is None:
            object.__setattr__(self, "queue", Queue(self.limits))

    @property
    def custom_models(self) -> bool:
        """Whether a pair that is not of the catalog may be run."""
        return not self.public and self.accelerator.loads

    @property
    def asks_servers(self) -> bool:
        """Whether a lane may be a server."""
        return bool(self.servers) or not self.public

    @property
    def rules(self) -> tuple[str, ...]:
        """What may write a lane: the rules, and a server where this page asks any."""
        return (*RULES, *[SERVER] * self.asks_servers)

    @property
    def key(self) -> str:
        """The key of one open page. It includes the owner, because a browser chooses its session
        name: the same name from another visitor is another page."""
        return f"{self.visitor.owner or ''}/{self.visitor.session}"

    @property
    def stop(self) -> JobStop:
        return JobStop(self.stops, f"{self.key}/{self.scope}")

    def for_visitor(self, request: Any) -> Services:
        """Return the services for the visitor of ``request`` (gr.Request or Starlette's): their
        store has this owner's runs only."""
        visitor = visitor_of(request, public=self.public, sign_in=self.sign_in)
        return replace(self, visitor=visitor, store=self.store.of(visitor.owner))

    def sentence(self, error: Exception | str) -> str:
        return error_message(error, public=self.public)

    def rounds(
        self, configs: Sequence[RunConfig], rounds: int, *, again: bool = False
    ) -> tuple[int, ...]:
        """Return the order in which all lanes run once in each of some rounds, and a saved answer
        in the first one. ``again``: they ran before."""
        read = [lane for lane, each in enumerate(configs) if ANSWER in each.environment]
        order = [] if again else [*read]
        for _ in range(rounds):
            order += [lane for lane in self.order(len(configs)) if lane not in read]
        return servers_last(order, configs)

    def duration_of(self, spec: PairSpec, tokens: int) -> str:
        """Return a range, by the latest runs of the pair's target."""
        pace, most = self.paces.of(spec.target.name), self.limits.seconds
        takes = "how long it takes is known after the first run of this model."
        if pace:
            ends = about(tokens * pace.shortest), about(tokens * pace.longest)
            takes = (
                f"{' to '.join(dict.fromkeys(ends))}, by the last {plural(pace.runs, 'run')} here."
            )
        if most and (pace is None or tokens * pace.longest > most):
            takes += f" It stops after {most} s and can be resumed."
        return takes

    def observe(self, trace: Trace) -> None:
        for observer in (self.paces.observe, *self.observers):
            observer(trace)

    def shutdown(self, seconds: float) -> bool:
        """Closes the queue and cancels the current run; waits up to ``seconds`` until it is saved.
        Returns whether all runs ended."""
        self.queue.close()
        self.stops.all = True
        return self.queue.empty(seconds)
