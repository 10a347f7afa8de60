"""The promise: strict emits, token for token, what the target alone emits, for every drafter, K,
temperature and architecture; a relaxed rule emits the same up to the first token it forgave."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from mars_core.decoder import is_fast
from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.session import Session
from mars_core.telemetry import first_divergence
from mars_core.types import Cause, DrafterConfig, DraftMode, Outcome, Sampling, Trace, TreeShape
from tests.checkpoints import KINDS
from tests.live_pairs import config_for, generated, loaded_pair, traced

PROMPT = "The quick brown fox"
STORY = "Write a story about Anna and a boat."
NEW_TOKENS = 20
LONG = 40  # enough for a rule to relax something with every seed
FAST = ("llama", "mistral", "phi3", "qwen2", "qwen3")  # kinds that have fast layers
WARM, FILTERED = Sampling(1.0), Sampling(0.7, top_k=20, top_p=0.9)


def generate(
    pair: Pair,
    rule: str,
    kind: str,
    sampling: Sampling,
    k: int = 5,
    seed: int = 0,
    mode: DraftMode = DraftMode.GREEDY,
    new: int = NEW_TOKENS,
) -> Trace:
    drafter = DrafterConfig(kind, None, k, mode)
    return traced(pair, drafter, sampling, prompt=PROMPT, rule=rule, new=new, seed=seed)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    """Runs of a Llama; what is requested again is not decoded again."""
    pair = loaded_pair("llama", tmp_path_factory.mktemp("llama"))
    return cache(lambda *options, **named: generate(pair, *options, **named))


@pytest.mark.parametrize("name", [*KINDS, "llama, its own modules", "mistral, its own modules"])
def test_strict_is_the_target_alone_on_every_architecture(name: str, tmp_path: Path) -> None:
    """And ``generate`` at temperature 0."""
    kind, _, modules = name.partition(", ")
    pair = loaded_pair(kind, tmp_path, fast=not modules)
    assert is_fast(pair.target) is (kind in FAST and not modules)
    greedy = generated(pair, pair.tokenizer(PROMPT)["input_ids"], NEW_TOKENS, eos_token_id=None)
    for sampling in (Sampling(0.0), FILTERED):
        alone = generate(pair, "none", "none", sampling).token_ids
        assert sampling.temperature or alone == greedy
        for drafter, k in (("model", 5), ("ngram", 4)):
            assert generate(pair, "strict", drafter, sampling, k).token_ids == alone, drafter


@pytest.mark.parametrize("k", range(1, 11))
@pytest.mark.parametrize(
    ("kind", "sampling"), [("model", Sampling(0.7)), ("ngram", Sampling(0.0))], ids=str
)
def test_strict_is_the_target_alone_for_every_k(
    written: Callable[..., Trace], k: int, kind: str, sampling: Sampling
) -> None:
    drafted = written("strict", kind, sampling, k, seed=k % 3)
    assert drafted.token_ids == written("none", "none", sampling, seed=k % 3).token_ids
    assert drafted.summary.tv_sum == 0


@pytest.mark.parametrize("rule", ["mars", "mars-gap"])
@pytest.mark.parametrize("seed", range(2))
def test_relaxed_text_is_strict_text_up_to_the_first_relaxed_token(
    written: Callable[..., Trace], rule: str, seed: int
) -> None:
    strict, relaxed = (
        written(each, "model", WARM, seed=seed, new=LONG) for each in ("strict", rule)
    )
    positions = [token.position for token in relaxed.tokens if token.outcome is Outcome.RELAXED]
    divergence = first_divergence(strict, relaxed)
    assert positions, "the pair of this test must be one on which the rule forgives something"
    assert divergence is not None
    assert (divergence.position, divergence.cause) == (positions[0], Cause.RELAXED)
    assert strict.tokens[divergence.position].id == relaxed.tokens[divergence.position].own


@pytest.mark.parametrize("rule", ["mars", "mars-algorithm1", "mars-gap"])
@pytest.mark.parametrize("seed", range(3))
def test_sampled_drafts_part_at_the_first_different_decision(
    written: Callable[..., Trace], rule: str, seed: int
) -> None:
    """Strict measures no shift."""
    sampled = partial(
        written, kind="model", sampling=WARM, seed=seed, mode=DraftMode.SAMPLED, new=LONG
    )
    strict, relaxed = sampled("strict"), sampled(rule)
    assert strict.summary.tv_sum == pytest.approx(0, abs=1e-12)
    assert strict.summary.accepted > strict.summary.relaxed == 0
    divergence = first_divergence(strict, relaxed)
    if divergence is None:
        assert not any(token.outcome is Outcome.RELAXED for token in relaxed.tokens)
        return
    assert divergence.cause in (Cause.RELAXED, Cause.TIGHTENED, Cause.REDRAWN)


DRAFTS = {
    "chain": DrafterConfig("model"),
    "greedy chain": DrafterConfig("model", mode=DraftMode.GREEDY),
    "long": DrafterConfig("model", k=9),
    "head": DrafterConfig("eagle3", k=4),
    "greedy head": DrafterConfig("eagle3", mode=DraftMode.GREEDY),
    "tree": DrafterConfig("eagle3", tree=TreeShape(12, 5, 3)),
    "wide tree": DrafterConfig("eagle3", tree=TreeShape(30, 4, 10)),
    "greedy tree": DrafterConfig("eagle3", tree=TreeShape(12, 5, 3), mode=DraftMode.GREEDY),
    "n-grams": DrafterConfig("ngram"),
}


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.7, top_k=20, top_p=0.9)], ids=str)
def test_strict_is_the_target_alone_whatever_is_drafted_and_coupled_drafts_are_accepted_more_often(
    session: Session, sampling: Sampling
) -> None:
    """And a relaxed rule leaves the text at its first relaxed token."""

    def trace(rule: str, drafter: DrafterConfig) -> Trace:
        return traced(session.pair, drafter, sampling, prompt=STORY, rule=rule, new=60, seed=5)

    alone, tau = trace("none", DrafterConfig("none")), {}
    for name, drafter in DRAFTS.items():
        strict = trace("strict", drafter)
        assert strict.token_ids == alone.token_ids, name
        assert (strict.summary.tv_sum, strict.summary.kl_sum) == (0, 0)
        tau[name] = strict.summary.tau
        relaxed = trace("mars-gap", drafter)
        divergence = first_divergence(alone, relaxed)
        first = next(
            (token.position for token in relaxed.tokens if token.outcome is Outcome.RELAXED), None
        )
        assert (divergence.position if divergence else None) == first, name
    for name in ("chain", "head", "tree"):
        assert tau[name] > tau[f"greedy {name}"]


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
