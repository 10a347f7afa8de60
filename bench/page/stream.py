"""The cost of streaming: the page's generator compared with plain runs of the same configurations,
alternating in one process."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from bench.common.decoding import complete
from mars_core.jobs import perform
from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.session import Session
from storage import RunStore
from ui.jobs.services import Services
from ui.settings.form import Form, LaneForm, read_configs
from ui.tabs.compare import frames, handlers


@dataclass(frozen=True, slots=True)
class Shown:
    """Seconds of one comparison through the page's generator, and of the same runs without it
    (``direct``)."""

    direct: float
    total: float
    opening: float  # before the lanes wait: the pair, the configurations
    steps: float  # in the engine
    rows: float  # of the tokens, as they come
    ended: float  # the whole view of a lane, once it ended
    warm_up: float
    saving: float
    closing: float  # the sentence, tables and figures

    @property
    def streaming(self) -> float:
        """The runs and their display: everything except opening, warm-up, saving and closing."""
        return self.total - self.opening - self.warm_up - self.saving - self.closing


def clocked(seconds: defaultdict[str, float], function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[function.__name__] += time.perf_counter() - started

    return timed


def form(seed: int) -> Form:
    """The page's defaults with another seed."""
    lanes = (LaneForm("strict", {}), LaneForm("mars", {"theta": 0.9}))
    spec = BUNDLED_PAIR
    return Form(
        prompt=spec.prompts[0],
        pair=spec.key,
        temperature=1.0,
        k=5,
        max_new_tokens=128,
        seed=seed,
        lanes=lanes,
    )


def compare(rounds: int) -> list[Shown]:
    """Both alternately, in random order; the first round is a warm-up."""
    engine, found = ThreadPoolExecutor(max_workers=1), list[Shown]()
    clock: defaultdict[str, float] = defaultdict(float)
    with (
        TemporaryDirectory(prefix="mars-page-") as folder,
        RunStore(f"sqlite:///{folder}/runs.db") as store,
        engine,
        ExitStack() as patches,
    ):
        parts = (
            (store, "new_comparison"),
            (store, "save_run"),
            (frames, "token_rows"),
            (frames, "ended_view"),
            (perform, "burst"),
            (Session, "warm_up"),
        )
        for owner, name in parts:
            patches.enter_context(patch.object(owner, name, clocked(clock, getattr(owner, name))))
        services = Services(
            ModelPool(), store, engine=engine, order=lambda lanes: list(range(lanes))
        )
        pair = engine.submit(services.pool.get, BUNDLED_PAIR).result()
        for seed in range(rounds + 1):
            first = random.random() < 0.5
            before = engine.submit(direct, pair, seed).result() if first else 0.0
            shown = streamed(services, clock, seed)
            found.append(
                replace(
                    shown, direct=before if first else engine.submit(direct, pair, seed).result()
                )
            )
    return found[1:]


def direct(pair: Pair, seed: int) -> float:
    """Seconds of the runs, without interruption."""
    started = time.perf_counter()
    for config in read_configs(form(seed), pair):
        complete(pair, config)
    return time.perf_counter() - started


def streamed(services: Services, clock: defaultdict[str, float], seed: int) -> Shown:
    """Every frame becomes the text that the page would send; the last one closes the comparison.
    ``direct`` is left nan."""
    clock.clear()
    started = before = time.perf_counter()
    opening = closing = 0.0
    for frame in handlers.run_comparison(services, form(seed), "bench"):
        assert [
            *([frame.strip.html()] if frame.strip else []),
            *(lane.json() for lane in frame.lanes if lane),
        ]
        if frame.lanes and not opening:
            opening = time.perf_counter() - started
        before, closing = time.perf_counter(), time.perf_counter() - before
    saving = clock["new_comparison"] + clock["save_run"]
    parts = (
        clock["burst"],
        clock["token_rows"],
        clock["ended_view"],
        clock["warm_up"],
        saving,
        closing,
    )
    return Shown(math.nan, before - started, opening, *parts)
