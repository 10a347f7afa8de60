"""Captured steps: the same tokens as eager ones, though a replay runs no Python; and what engines
leave behind."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product, zip_longest
from typing import Any

import pytest
import torch

from mars_core.engine import Engine
from mars_core.models import ModelPool, Pair
from mars_core.models.idle import MAX_IDLE, Engines
from mars_core.rules import RULES, Siblings
from mars_core.runs.run import Run
from mars_core.session import Session
from mars_core.types import (
    PROTECTED,
    DrafterConfig,
    DraftMode,
    Processors,
    Sampling,
    Trace,
)
from tests.eagle_pair import eagle_pair
from tests.live_pairs import EVERY_DRAFT, config_for, finished, headed, random_pair, searched
from tests.pairs import tiny_pair
from tests.replay import Operations, Replayed, replayed
from tests.unit.mars_core.test_classifier import classified
from tests.unit.mars_core.test_live import story

PROMPT = "The quick brown fox"
SAMPLINGS = [
    Sampling(0.0),
    Sampling(1.0, processors=Processors(protect=PROTECTED)),
    Sampling(0.8, top_k=20, top_p=0.9),
]


@pytest.fixture(scope="module")
def llama() -> Pair:
    return headed(random_pair(noise=0.05, eos=frozenset()))


def started(
    pair: Pair,
    drafter: DrafterConfig,
    sampling: Sampling = SAMPLINGS[0],
    **options: Any,
) -> Run:
    usual = {"prompt": PROMPT, "new": 20}
    return Session(pair).start(config_for(pair, drafter, sampling, **usual | options))


def written(*options: Any, **named: Any) -> Trace:
    return finished(started(*options, **named))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[Replayed]:
    return replayed(monkeypatch)


def capturing(pair: Pair, *, exact: bool = False) -> Pair:
    return replace(searched(pair) if exact else pair, graphs=True, engines=Engines())


def test_an_engine_serves_one_run_after_the_other_and_forgets_the_first(
    llama: Pair, stand_in: type[Replayed]
) -> None:
    """Runs that alternate, overlap or are given up leave nothing behind; texts of similar length
    share an engine."""
    captured = capturing(llama)
    drafter, sampling = EVERY_DRAFT["tree"], Sampling(1.0)
    expected = [story(written(llama, drafter, sampling, prompt=text)) for text in ("abc", PROMPT)]
    assert [
        story(written(captured, drafter, sampling, prompt=text)) for text in ("abc", PROMPT)
    ] == expected
    made = stand_in.captures
    first, second = (started(captured, drafter, sampling, prompt=text) for text in ("abc", PROMPT))
    abandoned = started(captured, drafter, sampling)
    next(abandoned)
    for _ in zip_longest(first, second):
        pass
    assert [story(first.trace()), story(second.trace())] == expected
    assert story(written(captured, drafter, sampling)) == expected[1]
    assert stand_in.captures == 3 * made, "the first of the two that overlap had the idle engine"


def test_only_a_few_idle_engines_are_cached() -> None:
    engines = Engines[int]()
    for each in range(MAX_IDLE + 1):
        engines.give_back(each, each)
    assert engines.take(0) is None and [engines.take(1) for _ in range(2)] == [1, None]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector: what lives in cycles stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("graphs", [False, True])
def test_what_a_run_took_is_free_without_the_collector(
    llama: Pair, monkeypatch: pytest.MonkeyPatch, graphs: bool
) -> None:
    replayed(monkeypatch)
    pair = replace(llama, graphs=graphs, engines=Engines())
    with uncollected():
        for end, name in product(
            ("cancelled", "dropped", "completed", "failed"), ("none", "coupled chain", "tree")
        ):
            run: Run | None = started(pair, EVERY_DRAFT[name], new=10)
            assert run is not None and run._seat is not None
            engine = run._seat.engine
            parts = [weakref.ref(part) for part in (engine, engine._target, engine.drafter)]
            del engine
            next(run)
            if end == "dropped":
                run = None
            elif end == "cancelled":
                run.cancel()
            elif end == "failed":
                with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="broken"):
                    patch.setattr(Engine, "_decide", broken)
                    next(run)
            if run is not None:  # a page may hold it on
                assert list(run) or end != "completed"
                assert run.trace().status.value == end
            if end != "failed":  # such an engine is not given back
                pair.engines.clear()
            assert not any(part() for part in parts), (end, name)


def broken(*_arguments: object) -> None:
    raise RuntimeError("broken")


def test_the_watch_sees_what_it_should() -> None:
    x = torch.arange(4.0)
    with Operations() as watch:
        x[x > 1]
        float(x.sum())
        torch.tensor([1.0])
    assert {"index by a mask", "_local_scalar_dense", "lift_fresh"} <= watch.uncaptured


@pytest.mark.parametrize("name", ["coupled chain", "tree", "sampled chain"])
def test_a_replay_of_no_rule_reads_from_the_host(
    llama: Pair, name: str, stand_in: type[Replayed]
) -> None:
    pair, drafter, watch = classified(llama), EVERY_DRAFT[name], Operations()
    captured = capturing(pair, exact=True)
    stand_in.watch = watch
    for rule in RULES.values():
        if drafter.mode not in rule.modes or (
            drafter.tree is not None and rule.siblings is Siblings.REFUSED
        ):
            continue
        before = stand_in.replays
        written(captured, drafter, SAMPLINGS[1], rule=rule.name, prompt="ababababab", new=7)
        assert stand_in.replays > before and not watch.uncaptured, rule.name


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def on_cuda(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[Pair]]:
    """A pair with a draft model and one with a head, in float32, with and without graphs."""
    folder = tmp_path_factory.mktemp("pairs")
    specs = [tiny_pair(folder), eagle_pair(folder)]
    return {
        graphs: [
            ModelPool(device="cuda", dtype="float32", graphs=graphs).get(spec) for spec in specs
        ]
        for graphs in (False, True)
    }


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("name", EVERY_DRAFT)
def test_graphs_decide_batches_of_several_rules_as_eager_runs(
    on_cuda: dict[bool, list[Pair]], name: str
) -> None:
    """Whose graphs are not replayed in the order of their captures."""
    drafter = EVERY_DRAFT[name]
    at = drafter.kind == "eagle3"
    dice, rules = random.Random(name), ("strict", "mars", "typical", "topk-delta", "always")
    configs = [
        config_for(
            on_cuda[True][at],
            drafter,
            sampling,
            prompt=PROMPT * (seed % 3 + 1),
            rule=dice.choice(rules if drafter.mode is DraftMode.GREEDY else rules[:2]),
            new=dice.randint(5, 40),
            seed=seed,
        )
        for seed, sampling in enumerate(SAMPLINGS * 6)
    ]
    eager = [finished(Session(on_cuda[False][at]).start(config)) for config in configs]
    for _ in range(2):
        order = dice.sample(range(len(configs)), len(configs))
        batch = Session(on_cuda[True][at]).together((configs[each] for each in order), 4)
        traces = {order[number]: run.trace() for number, run in batch}
        for each, alone in enumerate(eager):
            assert traces[each].token_ids == alone.token_ids
