"""The promise: strict emits, token for token, what the target alone emits, for every drafter, K,
temperature and architecture; a relaxed rule emits the same up to the first token it forgave."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from mars_core.decoder import is_fast
from mars_core.eagle3.cache import prepare_head
from mars_core.eagle3.head import Eagle3Head
from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.session import Session
from mars_core.telemetry import first_divergence
from mars_core.types import (
    Cause,
    DrafterConfig,
    DraftMode,
    ModelRef,
    Outcome,
    Sampling,
    Step,
    Trace,
    TreeShape,
)
from tests.checkpoints import FAST, HEADED, KINDS, SPECIAL, tiny_model, tiny_tokenizer
from tests.eagle_heads import random_head, tiny_config
from tests.live_pairs import config_for, disturbed, generated, pair_of, traced

STORY = "Write a story about Anna and a boat."
WARM, FILTERED = Sampling(1.0), Sampling(0.7, top_k=20, top_p=0.9)
TOKENIZER = tiny_tokenizer(vocabulary=(*SPECIAL, *"abcdefghi"))
GREEDY = DraftMode.GREEDY
DRAFTS = {
    "chain": DrafterConfig("model"),
    "greedy chain": DrafterConfig("model", mode=GREEDY),
    "one": DrafterConfig("model", k=1),
    "long": DrafterConfig("model", k=9),
    "n-grams": DrafterConfig("ngram", k=4),
    "suffix": DrafterConfig("suffix", k=5),
    "head": DrafterConfig("eagle3", k=4),
    "greedy head": DrafterConfig("eagle3", k=5, mode=GREEDY),
    "tree": DrafterConfig("eagle3", tree=TreeShape(12, 5, 3)),
    "wide tree": DrafterConfig("eagle3", tree=TreeShape(60, 4, 10)),
    "narrow tree": DrafterConfig("eagle3", tree=TreeShape(2, 1, 2)),
    "greedy tree": DrafterConfig("eagle3", tree=TreeShape(12, 5, 3), mode=GREEDY),
}
CONTEXT, NEW = 64, 16  # tokens
WITHOUT_HEAD = [name for name, each in DRAFTS.items() if each.kind != "eagle3"]


def matrix_target(kind: str) -> PreTrainedModel:
    """A model of twelve tokens, so that untrained drafts are often right, and branches of trees are
    taken."""
    options: dict[str, Any] = {"vocab_size": len(TOKENIZER), "max_position_embeddings": CONTEXT}
    return tiny_model(kind, seed=5, num_hidden_layers=3, eos_token_id=None, **options)


def matrix_head(target: PreTrainedModel, **options: Any) -> Eagle3Head:
    layers: Any = {"feature_layers": (0, 1, 2), "norm_before_residual": True}
    return random_head(tiny_config(target.config, **layers, **options), target, seed=7)


def matrix_pair(kind: str, *, fast: bool = True, **options: Any) -> Pair:
    """With a head where there are such; ``options``: of it."""
    target, head = matrix_target(kind), None
    if kind in HEADED:
        head = matrix_head(target, **options)
        prepare_head(head)
    pair = pair_of(target, disturbed(target, 0.05), TOKENIZER, frozenset(), fast=fast)
    return replace(pair, head=head, head_ref=head and ModelRef("tests/head", "2" * 40))


ARCHITECTURES = [*KINDS, "llama, its own modules", "mistral, its own modules"]


@pytest.mark.parametrize(("number", "name"), list(enumerate(ARCHITECTURES)))
def test_strict_is_the_target_alone(number: int, name: str) -> None:
    """Of every architecture, whatever is drafted, at temperature 0 as ``generate``, or where
    distributions are filtered: the first one with all drafts, the others with one half in turn."""
    kind, _, modules = name.partition(", ")
    pair, branched = matrix_pair(kind, fast=not modules), 0
    assert is_fast(pair.target) is (kind in FAST and not modules)
    alone = [
        traced(pair, DrafterConfig("none"), sampling, prompt="agbbeahc", seed=1, new=NEW)
        for sampling in (Sampling(0.0), FILTERED)
    ]
    assert alone[0].token_ids == generated(pair, alone[0].prompt_ids, NEW, eos_token_id=None)
    chosen = [*DRAFTS] if pair.head else WITHOUT_HEAD
    for at, drafts in enumerate(chosen[number % 2 :: 2] if number else chosen):
        expected = alone[(at + number // 2) % 2]
        sampling = expected.config.sampling
        trace = traced(pair, DRAFTS[drafts], sampling, prompt="agbbeahc", seed=1, new=NEW)
        assert trace.token_ids == expected.token_ids, drafts
        assert trace.summary.tv_sum == trace.summary.kl_sum == 0
        branched += sum(map(branches, trace.steps))
    assert branched > 2 or not pair.head, "else no path is moved"


def branches(step: Step) -> bool:
    """Whether the accepted nodes are others than the first ones."""
    return [token.node for token in step.emitted[: step.kept]] != list(range(1, step.kept + 1))


@pytest.mark.parametrize("rule", ["mars", "mars-algorithm1", "mars-gap"])
@pytest.mark.parametrize("seed", range(3))
def test_sampled_drafts_part_at_the_first_different_decision(
    session: Session, rule: str, seed: int
) -> None:
    """Strict measures no shift."""
    drafter = DrafterConfig("model", mode=DraftMode.SAMPLED)
    strict, relaxed = (
        traced(session.pair, drafter, WARM, prompt=STORY, rule=each, new=40, seed=seed)
        for each in ("strict", rule)
    )
    assert strict.summary.tv_sum == pytest.approx(0, abs=1e-12)
    assert strict.summary.accepted > strict.summary.relaxed == 0
    divergence = first_divergence(strict, relaxed)
    if divergence is None:
        assert not any(token.outcome is Outcome.RELAXED for token in relaxed.tokens)
        return
    assert divergence.cause in (Cause.RELAXED, Cause.TIGHTENED, Cause.REDRAWN)


def test_a_relaxed_text_is_strict_text_up_to_the_first_relaxed_token(session: Session) -> None:
    """And coupled drafts are accepted more often than greedy ones."""

    def trace(rule: str, drafter: DrafterConfig) -> Trace:
        return traced(session.pair, drafter, WARM, prompt=STORY, rule=rule, new=40, seed=5)

    alone, tau, relaxing = trace("none", DrafterConfig("none")), dict[str, float](), 0
    for name in ("chain", "greedy chain", "head", "greedy head", "tree", "greedy tree"):
        strict, relaxed = (trace(rule, DRAFTS[name]) for rule in ("strict", "mars-gap"))
        assert strict.token_ids == alone.token_ids, name
        tau[name], divergence = strict.summary.tau, first_divergence(strict, relaxed)
        ids = [token.position for token in relaxed.tokens if token.outcome is Outcome.RELAXED]
        assert (divergence.position if divergence else None) == next(iter(ids), None), name
        if divergence:
            relaxing += 1
            assert divergence.cause is Cause.RELAXED
            assert strict.tokens[ids[0]].id == relaxed.tokens[ids[0]].own
    assert relaxing > 3 and all(
        tau[name] > tau[f"greedy {name}"] for name in ("chain", "head", "tree")
    )


STORED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "token_ids.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(BUNDLED_PAIR))


@pytest.mark.parametrize(
    "stored",
    STORED,
    ids=lambda each: f"{each['rule']}-{each['drafter']}-{each['mode']}-{each['seed']}",
)
def test_tokens_and_steps_are_those_of_before(session: Session, stored: dict[str, Any]) -> None:
    tree = TreeShape(*stored["tree"]) if stored["tree"] else None
    config = config_for(
        session.pair,
        DrafterConfig(stored["drafter"], None, stored["k"], DraftMode(stored["mode"]), tree),
        Sampling(stored["temperature"], stored["top_k"], stored["top_p"]),
        prompt=stored["prompt"],
        rule=stored["rule"],
        new=64,
        seed=stored["seed"],
    )
    run = session.start(config)
    steps = list(run)
    assert [token.id for step in steps for token in step.emitted] == stored["token_ids"]
    assert len(steps) == stored["steps"]
