"""A run decides the same alone, beside others, captured, continued, and without measured columns,
whatever its rule reads: state of the run, a ledger, a classifier, a plan of relaxations, penalties."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch

from mars_core.models import Pair
from mars_core.models.idle import Engines
from mars_core.session import Session
from mars_core.telemetry import spent_before
from mars_core.types import Processors, Sampling, Trace
from tests.checkpoints import tiny_model, tiny_tokenizer
from tests.live_pairs import (
    EVERY_DRAFT,
    config_for,
    decoded,
    disturbed,
    headed,
    pair_of,
    random_pair,
    ready_pair,
    searched,
)
from tests.replay import Operations, replayed
from tests.unit.mars_core.test_classifier import classified


class Case(NamedTuple):
    """``options``: of the runs; each of the three has one value of ``varied``. Texts with equal
    parameters are judged together."""

    options: dict[str, Any]
    varied: tuple[dict[str, float], ...] = ({}, {}, {})
    sampling: Sampling = Sampling(1.0)


DYNAMIC = {"theta": "0.4 + 0.1*min(4, entropy) + 0.001*position + 0.01*tv"}
NO_TV = {"theta": "0.4 + 0.1*min(4, entropy) + 0.001*position"}  # trees have none
WARM = Processors(0.05, 0.9, 1.2, 0.3, 0.2, 3, (("[40]", 2.0), ("on", -1.0)))
CASES = {
    "strict": Case({}, sampling=Sampling(0.8, top_k=20, top_p=0.9)),
    "an expression": Case({"rule": "mars"}),
    "a ledger": Case({"rule": "asd", "gate": 1.0}, tuple({"budget": b} for b in (0.6, 0.6, 1e5))),
    "a classifier": Case({"rule": "judge"}, tuple({"harm": each} for each in (0.5, 0.5, 0.9))),
    "a plan": Case(
        {"rule": "placebo"},
        tuple({"relaxed": n, "of": 5, "draw": n + 1, "best": 0} for n in (2, 0, 4)),
    ),
    "penalties": Case({"rule": "mars"}, sampling=Sampling(1.0, processors=WARM)),
}
READING = {
    "an expression": ("coupled chain", "tree"),
    "a ledger": ("sampled chain", "greedy chain"),
    "a classifier": ("coupled chain", "tree"),
    "a plan": ("sampled chain", "tree"),
    "penalties": ("greedy chain", "tree"),
}


def recorded(trace: Trace) -> list[object]:
    """All but times and the number of slots."""
    steps = [replace(step, elapsed_s=0.0, draft_s=0.0, verify_s=0.0) for step in trace.steps]
    return [trace.status, trace.stop_reason, trace.text, trace.prompt_ids, trace.given, repr(steps)]


def story(trace: Trace, after: int = 0) -> list[tuple[Any, ...]]:
    """What a run decided from an output position on, and what it measured of p; numbers to four
    digits, as graphs sum in another order."""
    return [
        (
            *(token.position, token.id, token.own, token.outcome, token.node),
            *(f"{getattr(token, name):.3f}" for name in ("parameter", "regret", "p", "tv")),
        )
        for step in trace.steps
        for token in step.tokens
        if token.position >= after
    ]


@cache
def pair_of_kind(kind: str) -> Pair:
    """Of an architecture, or a llama in bfloat16."""
    if kind != "bfloat16":
        return (
            ready_pair()
            if kind == "llama"
            else searched(headed(random_pair(kind, 0.05, frozenset())))
        )
    target = tiny_model("llama").bfloat16()
    half = pair_of(target, disturbed(target, 0.05), tiny_tokenizer(), frozenset())
    half = searched(headed(replace(half, dtype=torch.bfloat16)))
    assert half.exact, half.inexact
    return half


@pytest.mark.parametrize(
    ("name", "drafter", "kind"),
    [
        *(("strict", drafter, "llama") for drafter in EVERY_DRAFT),
        *((name, drafter, "llama") for name, both in READING.items() for drafter in both),
        *(("strict", "tree", "mistral"), ("strict", "coupled chain", "qwen3")),
        *(("strict", drafter, "bfloat16") for drafter in ("none", "sampled chain", "head")),
    ],
)
def test_a_run_is_the_same_alone_beside_others_captured_continued_and_unmeasured(
    name: str, drafter: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a prompt of one token and of several; full drafts, none, and what is between."""
    case, chosen = CASES[name], EVERY_DRAFT[drafter]
    warm = (list(CASES).index(name) + list(EVERY_DRAFT).index(drafter)) % 2
    pair = classified(pair_of_kind(kind))
    sampling = replace(case.sampling, temperature=warm * case.sampling.temperature)
    options = dict(case.options)
    if name == "an expression":
        options |= NO_TV if chosen.tree and warm else DYNAMIC
    configs = [
        config_for(
            pair, chosen, sampling, prompt=prompt, seed=seed, new=8 + seed, **options, **more
        )
        for seed, (prompt, more) in enumerate(zip(("once", "a", "once"), case.varied, strict=True))
    ]
    alone = [decoded(pair, config) for config in configs]
    stories = [story(each) for each in alone]
    other = config_for(pair, chosen, seed=1, new=9)  # its engine reads less
    beside = [run.trace() for _, run in sorted(Session(pair).together([*configs, other], 3))]
    assert [recorded(each) for each in beside[:3]] == [recorded(each) for each in alone]
    bare = Session(pair).start(configs[0], telemetry=False)
    assert list(bare) and bare.trace().token_ids == alone[0].token_ids
    if name != "a plan":  # which counts the rejections of a whole text
        begun = sum(len(step.emitted) for step in alone[0].steps[:1])
        rest = replace(
            alone[0].config,
            prefix=alone[0].token_ids[:begun],
            max_new_tokens=8 - begun,
            spent=spent_before(alone[0], begun),
        )
        assert story(decoded(pair, rest)) == story(alone[0], begun)
    stand_in, captured = replayed(monkeypatch), replace(pair, graphs=True, engines=Engines())
    trace = decoded(captured, configs[0])
    assert story(trace) == stories[0]
    assert trace.config.environment["path"] == "fast layers, CUDA graphs"
    stand_in.watch = operations = Operations()
    beside = [run.trace() for _, run in sorted(Session(captured).together([*configs, other], 2))]
    assert [story(each) for each in beside[:3]] == stories
    assert stand_in.replays and not operations.uncaptured
