"""Many runs at once write, and record, what each writes alone."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import pytest
import torch

from mars_core.decoder import CacheSize, PassShapes, open_cache
from mars_core.decoder.fast_cache import FastCache
from mars_core.decoder.positions import Rows
from mars_core.drafting.base import TextLookup
from mars_core.engine import Engine, InvalidLogitsError
from mars_core.engine.inputs import WrittenText
from mars_core.engine.verifier import Verifier
from mars_core.models import Pair
from mars_core.models.idle import Engines
from mars_core.processors import Processor
from mars_core.runs.batch import takes_batches
from mars_core.runs.run import Run
from mars_core.session import Session
from mars_core.types import (
    Processors,
    RunConfig,
    Sampling,
    Status,
    StopReason,
    Trace,
)
from tests.live_pairs import (
    EVERY_DRAFT,
    config_for,
    headed,
    loaded_pair,
    random_pair,
    searched,
)

TEXT = "the quick brown fox jumps over the lazy dog and the quick brown cat"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return searched(headed(random_pair(noise=0.05)))


def together(
    pair: Pair, configs: Iterable[RunConfig], slots: int, **options: Any
) -> dict[int, Trace]:
    return {at: run.trace() for at, run in Session(pair).together(configs, slots, **options)}


def test_passes_of_one_shape_have_all_texts(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ended ones are filled up."""
    fixed = replace(pair, shapes=PassShapes(8, 8, 128), engines=Engines())
    passes, original = set[int](), FastCache._chain

    def chain(self: FastCache, ids: torch.Tensor, rows: Rows, *rest: Any, **more: Any) -> Any:
        if rows.starts[0] > 40:
            passes.add(len(ids))
        return original(self, ids, rows, *rest, **more)

    monkeypatch.setattr(FastCache, "_chain", chain)
    configs = [
        config_for(pair, EVERY_DRAFT["n-grams"], prompt=TEXT, new=new) for new in (5, 12, 20)
    ]
    together(fixed, configs, 3)
    assert passes == {3}


def test_a_longer_run_and_another_drafter_wait_for_an_engine(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mars_core.engine.build._WIDTHS", 16)
    configs = [
        config_for(pair, EVERY_DRAFT[name], prompt="once", new=new)
        for name, new in (
            ("none", 9),
            ("none", 90),
            ("greedy chain", 9),
            ("none", 9),
            ("greedy chain", 12),
        )
    ]
    traces = together(pair, configs, 2)
    assert [len(traces[at].token_ids) for at in range(5)] == [9, 90, 9, 9, 12]


def test_a_row_that_never_ends_holds_nobody_up(pair: Pair) -> None:
    """Configurations are taken when there is room."""
    taken = list[int]()

    def configs() -> Iterable[RunConfig]:
        for at, new in enumerate((200, *[4] * 9)):
            taken.append(at)
            yield config_for(pair, EVERY_DRAFT["none"], new=new)

    ended = []
    for at, _ in Session(pair).together(configs(), 3):
        ended.append(at)
        assert len(taken) <= len(ended) + 4
    assert ended == [*range(1, 10), 0]


def test_one_row_is_cancelled_and_the_others_go_on(pair: Pair) -> None:
    runs = dict[int, Run]()
    configs = [config_for(pair, EVERY_DRAFT["none"], new=new) for new in (40, 6, 30, 5)]
    ended = dict[int, Status]()
    for at, run in Session(pair).together(configs, 3, began=runs.__setitem__):
        ended[at] = run.status
        runs[0].cancel(StopReason.DEADLINE)
    assert [*ended] == [1, 0, 3, 2] and ended.pop(0) is Status.CANCELLED
    assert set(ended.values()) == {Status.COMPLETED}
    assert runs[0].stop_reason is StopReason.DEADLINE and 6 <= len(runs[0].trace().token_ids) < 40


def test_a_failing_row_is_yielded_and_the_others_go_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Engine.step

    def step(self: Engine) -> list[Any]:
        steps = original(self)
        if steps and steps[0][0] == 0 and len(steps) == 3:
            self.end(0)
            steps[0] = 0, InvalidLogitsError()
        return steps

    monkeypatch.setattr(Engine, "step", step)
    configs = [config_for(pair, EVERY_DRAFT["greedy chain"], new=10)] * 3
    traces = together(pair, configs, 3)
    assert traces[0].status is Status.FAILED and "not numbers" in traces[0].error
    assert traces[1].status is traces[2].status is Status.COMPLETED


def test_a_failing_engine_fails_its_runs_and_the_next_ones_have_another(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = Engine.step, cycle([False, True, False, False, False])
    counted = islice(calls, 5)

    def step(self: Engine) -> list[Any]:
        if next(counted, False):
            raise RuntimeError("CUDA error: unspecified launch failure")
        return original(self)

    monkeypatch.setattr(Engine, "step", step)
    traces = together(pair, [config_for(pair, EVERY_DRAFT["none"], new=6)] * 4, 2)
    assert [traces[at].status for at in range(4)] == [Status.FAILED] * 2 + [Status.COMPLETED] * 2


@pytest.mark.parametrize("name", ["none", "n-grams", "tree"])
def test_ended_runs_are_released(pair: Pair, name: str) -> None:
    """While others of their batch run, without the collector's help; all that an engine has of a
    text too, when every text is decoded in its way."""
    configs = (
        config_for(
            pair,
            EVERY_DRAFT[name],
            Sampling(processors=Processors(repetition_penalty=1 + seed / 9)),
            rule="mars",
            theta=seed / 20,
            new=3,
            seed=seed,
        )
        for seed in range(12)
    )
    ended = list[weakref.ref[Run]]()
    gc.collect()
    gc.disable()
    try:
        for _, run in Session(pair).together(configs, 3):
            ended.append(weakref.ref(run))
            del run
            assert sum(each() is not None for each in ended) <= 3  # of the latest step
            if len(ended) == 9:
                kinds = (Verifier, WrittenText, TextLookup, Processor)
                there = [type(each) for each in gc.get_objects() if issubclass(type(each), kinds)]
                for kind in kinds:
                    assert sum(issubclass(each, kind) for each in there) <= 3
    finally:
        gc.enable()
    assert len(ended) == 12


def test_the_memory_of_a_cache_is_that_of_its_slots(pair: Pair) -> None:
    config = pair.target.config
    head = config.hidden_size // config.num_attention_heads
    each = 2 * config.num_hidden_layers * config.num_key_value_heads * head * pair.dtype.itemsize
    for slots in (1, 3, 8):
        size = CacheSize(100, 6, slots=slots)
        cache = open_cache(pair.target, size)
        assert isinstance(cache, FastCache)
        assert cache.layers.store._all.nbytes == slots * size.capacity * each


def test_models_without_fast_layers_run_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    pair = loaded_pair("gpt2", tmp_path_factory.mktemp("gpt2"))
    assert not takes_batches(pair)
    traces = together(pair, [config_for(pair, EVERY_DRAFT["greedy chain"], new=6)] * 2, 8)
    assert all("batch" not in trace.config.environment for trace in traces.values())
