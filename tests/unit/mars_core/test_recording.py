"""Steps of fixed shape: the same tokens as free steps, without the host, and on CUDA as graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mars_core.eagle3.cache import prepare_head
from mars_core.engine.engines import MOST, Engines
from mars_core.engine.recording import FixedSteps, Recorded
from mars_core.models import ModelPool, Pair
from mars_core.rules import RULES
from mars_core.session import Run, Session, run_config
from mars_core.types import DrafterConfig, DraftMode, ModelRef, PromptConfig, RuleConfig, Sampling, Trace, TreeShape
from tests.eagle_heads import random_head, tiny_config
from tests.live_pairs import random_pair
from tests.pairs import tiny_pair
from tests.unit.ui.eagle_pair import eagle_pair

PROMPT = "The quick brown fox"
DRAFTERS = {
    "none": DrafterConfig("none"),
    "chain": DrafterConfig("model", k=5),
    "one": DrafterConfig("model", k=1),
    "sampled chain": DrafterConfig("model", k=4, mode=DraftMode.SAMPLED),
    "ngram": DrafterConfig("ngram", k=1),
    "head, chain": DrafterConfig("eagle3", k=4),
    "head, tree": DrafterConfig("eagle3", tree=TreeShape(12, 4, 3)),
    "head, small tree": DrafterConfig("eagle3", tree=TreeShape(2, 5, 2)),
}
SAMPLINGS = [Sampling(0.0), Sampling(1.0), Sampling(0.8, top_k=20, top_p=0.9)]


@pytest.fixture(scope="module", params=["llama", "mistral", "qwen3"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return headed(request.param)


@pytest.fixture(scope="module")
def llama() -> Pair:
    return headed("llama")


def headed(kind: str) -> Pair:
    """A pair with a head; ``graphs`` makes its engines' full steps fixed ones."""
    pair = random_pair(kind, noise=0.05, eos=frozenset())
    head = random_head(tiny_config(pair.target.config, taps=(0, 1, 1)), pair.target)
    prepare_head(head)
    return replace(pair, head=head, head_ref=ModelRef("tests/head", "2" * 40))


def started(
    pair: Pair, drafter: DrafterConfig, sampling: Sampling, rule: str = "strict", *, prompt: str = PROMPT, seed: int = 0,
    tokens: int = 30, meter: bool = True,
) -> Run:  # fmt: skip
    config = run_config(
        pair, prompt=PromptConfig(prompt), rule=RuleConfig("none" if drafter.kind == "none" else rule), drafter=drafter, sampling=sampling,
        max_new_tokens=tokens, seed=seed,
    )  # fmt: skip
    return Session(pair).start(config, meter=meter)


def finished(run: Run) -> Trace:
    assert list(run)
    return run.trace()


def story(trace: Trace) -> list[object]:
    """What a run decided, step by step."""
    return [
        (step.drafted, step.kept, [(token.id, token.outcome, token.node, token.own) for token in step.tokens])
        for step in trace.steps
    ]


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("sampling", [SAMPLINGS[0], SAMPLINGS[2]], ids=str)
def test_fixed_steps_decide_as_free_ones(pair: Pair, name: str, sampling: Sampling) -> None:
    fixed, steps = replace(pair, graphs=True, engines=Engines()), 0
    for seed, rule in enumerate(("strict", "strict") if name == "none" else ("strict", "mars", "typical")):
        free = finished(started(pair, DRAFTERS[name], sampling, rule, seed=seed))
        trace = finished(started(fixed, DRAFTERS[name], sampling, rule, seed=seed))
        assert story(trace) == story(free)
        assert trace.config.environment["path"] == "fast layers, fixed shapes"
        assert free.config.environment["path"] == "fast layers, eager"
        for mine, other in zip(trace.tokens, free.tokens, strict=True):
            assert (mine.p, mine.tv, mine.logprob) == pytest.approx((other.p, other.tv, other.logprob), abs=1e-5)
        steps += len(trace.steps)
    assert steps > 6


def test_a_prompt_of_one_token_and_a_text_of_one(llama: Pair) -> None:
    fixed = replace(llama, graphs=True, engines=Engines())
    for drafter in DRAFTERS.values():
        for tokens in (1, 3, 20):
            short = [
                finished(started(each, drafter, Sampling(1.0), prompt="a", tokens=tokens)) for each in (llama, fixed)
            ]
            assert story(short[0]) == story(short[1])


def test_an_engine_serves_one_run_after_the_other_and_forgets_the_first(llama: Pair) -> None:
    """Runs that alternate, overlap or are given up leave nothing behind; texts of similar length share an engine."""
    fixed = replace(llama, graphs=True, engines=Engines())
    drafter, sampling = DRAFTERS["head, tree"], Sampling(1.0)
    expected = [story(finished(started(llama, drafter, sampling, prompt=text))) for text in ("abc", PROMPT)]
    assert [story(finished(started(fixed, drafter, sampling, prompt=text))) for text in ("abc", PROMPT)] == expected
    assert len(fixed.engines._idle) == 1
    first, second = (started(fixed, drafter, sampling, prompt=text) for text in ("abc", PROMPT))
    abandoned = started(fixed, drafter, sampling)
    next(abandoned)
    while len(first._steps) + len(second._steps) < len(expected[0]) + len(expected[1]):
        for run in (first, second):
            next(run, None)
    assert [story(first.trace()), story(second.trace())] == expected
    assert story(finished(started(fixed, drafter, sampling))) == expected[1]


def test_only_a_few_idle_engines_are_kept(llama: Pair) -> None:
    fixed = replace(llama, graphs=True, engines=Engines())
    for k in range(1, MOST + 3):
        finished(started(fixed, DrafterConfig("model", k=k), Sampling(0.0), tokens=8))
    kinds = [kind[0].k for kind in fixed.engines._idle]  # type: ignore[index]
    assert kinds == list(range(3, MOST + 3))


class Watched(TorchDispatchMode):
    """Notes every operation that a graph cannot hold: values that go to the host, constants that come from it, shapes that depend on
    values."""

    FORBIDDEN = (
        "_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "is_nonzero", "unique", "equal", "_to_cpu", "bincount",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function).split(".")[1]
        if name in self.FORBIDDEN:
            self.found.add(name)
        if name in ("index", "index_put", "index_put_"):
            masks = [each for each in args[1] if each is not None and each.dtype == torch.bool]
            self.found |= {f"{name} by a mask"} if masks else set()
        return function(*args, **(kwargs or {}))


def test_the_watch_sees_what_it_should() -> None:
    x = torch.arange(4.0)
    with Watched() as watch:
        x[x > 1]
        float(x.sum())
        torch.tensor([1.0])
    assert {"index by a mask", "_local_scalar_dense", "lift_fresh"} <= watch.found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Every part of a fixed step, from its second call on (what is made once is made in the first), is watched."""
    watch, calls = Watched(), dict[int, int]()
    call = Recorded.__call__

    def observed(self: Recorded[Any]) -> Any:
        calls[id(self)] = calls.get(id(self), 0) + 1
        if calls[id(self)] < 2:
            return call(self)
        watch.calls += 1
        with watch:
            return call(self)

    monkeypatch.setattr(Recorded, "__call__", observed)
    yield watch


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_a_fixed_step_never_asks_the_host(llama: Pair, name: str, sampling: Sampling, watched: Watched) -> None:
    fixed, drafter = replace(llama, graphs=True, engines=Engines()), DRAFTERS[name]
    every = sampling.temperature == 1 and name in ("chain", "head, tree", "sampled chain")
    for rule in RULES.values() if every else [RULES["strict"], RULES["mars"]][: 2 - (name == "none")]:
        if drafter.mode not in rule.modes or (drafter.tree is not None and rule.name in ("fly", "ensemble")):
            continue
        finished(started(fixed, drafter, sampling, rule.name, prompt="ababababab", tokens=20))
        assert watched.found == set(), rule.name
    assert watched.calls > 4


def test_steps_are_fixed_only_where_they_are_full(llama: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = replace(llama, graphs=True, engines=Engines())
    taken: list[int] = []
    step = FixedSteps.step
    monkeypatch.setattr(
        FixedSteps, "step", lambda self, ids, *rest: (taken.append(len(ids)), step(self, ids, *rest))[1]
    )
    trace = finished(started(fixed, DRAFTERS["chain"], Sampling(0.0), tokens=30))
    prompt, free = len(trace.prompt_ids), 0
    for each in trace.steps:
        done = sum(len(before.emitted) for before in trace.steps[: each.index])
        assert (prompt + done in taken) == (30 - done - 1 >= 5)
        free += prompt + done not in taken
    assert 0 < free < len(trace.steps)


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def on_cuda(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, list[Pair]]:
    """A pair with a draft model and one with a head, in float32, with and without graphs."""
    folder = tmp_path_factory.mktemp("pairs")
    specs = [tiny_pair(folder), eagle_pair(folder)]
    return {
        graphs: [ModelPool(device="cuda", dtype="float32", graphs=graphs).get(spec) for spec in specs]
        for graphs in (False, True)
    }


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_graphs_decide_as_eager_steps(on_cuda: dict[bool, list[Pair]], name: str, sampling: Sampling) -> None:
    pairs = {graphs: found[name.startswith("head")] for graphs, found in on_cuda.items()}
    for seed in range(2):
        for text in (PROMPT, "a", PROMPT * 20):
            eager, recorded = (
                finished(started(pairs[graphs], DRAFTERS[name], sampling, prompt=text, seed=seed, tokens=64))
                for graphs in (False, True)
            )
            assert recorded.token_ids == eager.token_ids
            assert recorded.config.environment["path"] == "fast layers, CUDA graphs"


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("name", DRAFTERS)
def test_nothing_but_the_answer_is_waited_for(
    on_cuda: dict[bool, list[Pair]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second fixed step on, when all is recorded, every operation that would wait for the device is an error."""
    pair, calls = on_cuda[True][name.startswith("head")], [0]
    step = FixedSteps.step

    def strict(self: FixedSteps, *arguments: Any) -> Any:
        calls[0] += 1
        torch.cuda.set_sync_debug_mode("error" if calls[0] > 2 else "default")
        try:
            return step(self, *arguments)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(FixedSteps, "step", strict)
    finished(started(pair, DRAFTERS[name], Sampling(1.0), tokens=64))
    assert calls[0] > 4


@pytest.mark.parametrize("name", DRAFTERS)
def test_recording_on_the_way_changes_no_step(llama: Pair, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUDA does, played on the CPU: the first call of every part runs it several times before it counts."""
    recorded: set[int] = set()

    def prepare(self: Recorded[Any]) -> None:
        if id(self) not in recorded:
            recorded.add(id(self))
            for _ in range(3):
                self.made = self._function()

    def call(self: Recorded[Any]) -> Any:
        self.prepare()
        self.made = self._function()
        return self.made

    monkeypatch.setattr(Recorded, "ready", property(lambda self: id(self) in recorded))
    monkeypatch.setattr(Recorded, "prepare", prepare)
    monkeypatch.setattr(Recorded, "__call__", call)
    monkeypatch.setattr("mars_core.engine.recording.NARROWEST", 16)  # so that a text needs several recordings
    fixed = replace(llama, graphs=True, engines=Engines())
    for seed in range(3):
        free = finished(started(llama, DRAFTERS[name], Sampling(1.0), seed=seed, tokens=60))
        trace = finished(started(fixed, DRAFTERS[name], Sampling(1.0), seed=seed, tokens=60))
        assert story(trace) == story(free)
        assert trace.summary.wall_s > 0
    assert len(recorded) > 2
