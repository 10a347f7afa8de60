"""The promise: strict emits, token for token, what the target alone emits, for every drafter, K, temperature and architecture;
a relaxed rule emits the same up to the first token it forgave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from scipy.stats import chi2
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mars_core.decoder import is_fast
from mars_core.models import Pair
from mars_core.telemetry import first_divergence
from mars_core.types import Cause, DrafterConfig, DraftMode, Outcome, Sampling, Trace
from tests.checkpoints import KINDS
from tests.live_pairs import config_for, decoded, loaded_pair, random_pair

PROMPT = "The quick brown fox"
NEW_TOKENS = 24
LONG = 40  # enough for a rule to relax something with every seed
FAST = ("llama", "mistral", "phi3", "qwen2", "qwen3")  # kinds that have fast layers


@pytest.fixture(scope="module", params=[*KINDS, *(f"{kind}, its own modules" for kind in FAST)])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kind, _, own = request.param.partition(", ")
    pair = loaded_pair(kind, tmp_path_factory.mktemp(kind), fast=not own)
    assert is_fast(pair.target) is (kind in FAST and not own)
    yield pair


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return loaded_pair("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def alone(llama: Pair) -> Callable[[Sampling, int], Trace]:
    """What the target alone writes with a seed; every k is held against the same runs."""
    return cache(lambda sampling, seed: generate(llama, "none", "none", sampling, seed=seed))


def generate(
    pair: Pair, rule: str, kind: str, sampling: Sampling, k: int = 5, seed: int = 0, mode: DraftMode = DraftMode.GREEDY,
    new: int = NEW_TOKENS,
) -> Trace:  # fmt: skip
    drafter = DrafterConfig(kind, None, k, mode)
    return decoded(pair, config_for(pair, drafter, sampling, prompt=PROMPT, rule=rule, new=new, seed=seed))


def test_strict_at_temperature_0_is_generate(pair: Pair) -> None:
    ids = torch.tensor([pair.tokenizer(PROMPT)["input_ids"]])
    expected = pair.target.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        eos_token_id=None,
        pad_token_id=0,
    )[0, ids.shape[1] :].tolist()
    assert list(generate(pair, "none", "none", Sampling(0.0)).token_ids) == expected
    assert list(generate(pair, "strict", "model", Sampling(0.0)).token_ids) == expected
    assert list(generate(pair, "strict", "ngram", Sampling(0.0)).token_ids) == expected


@pytest.mark.parametrize("sampling", [Sampling(1.0, top_k=10), Sampling(0.7, top_p=0.9)], ids=str)
def test_strict_is_the_target_alone_on_every_architecture(pair: Pair, sampling: Sampling) -> None:
    alone = generate(pair, "none", "none", sampling).token_ids
    for kind, k in (("model", 5), ("ngram", 4)):
        assert generate(pair, "strict", kind, sampling, k).token_ids == alone, (kind, k)


@pytest.mark.parametrize("k", range(1, 11))
@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(0.7)], ids=str)
def test_strict_is_the_target_alone_for_every_k(
    llama: Pair, alone: Callable[[Sampling, int], Trace], k: int, sampling: Sampling
) -> None:
    for kind in ("model", "ngram"):
        drafted = generate(llama, "strict", kind, sampling, k, seed=k % 3)
        assert drafted.token_ids == alone(sampling, k % 3).token_ids
        assert drafted.summary.tv_sum == 0


@pytest.mark.parametrize("rule", ["mars", "mars-gap"])
@pytest.mark.parametrize("seed", range(4))
def test_relaxed_text_is_strict_text_up_to_the_first_forgiven_token(llama: Pair, rule: str, seed: int) -> None:
    strict = generate(llama, "strict", "model", Sampling(1.0), seed=seed, new=LONG)
    relaxed = generate(llama, rule, "model", Sampling(1.0), seed=seed, new=LONG)
    forgiven = [token.position for token in relaxed.tokens if token.outcome is Outcome.RELAXED]
    found = first_divergence(strict, relaxed)
    assert forgiven, "the pair of this test must be one on which the rule forgives something"
    assert found is not None
    assert (found.position, found.cause) == (forgiven[0], Cause.RELAXED)
    assert strict.tokens[found.position].id == relaxed.tokens[found.position].own


@pytest.mark.parametrize("rule", ["mars", "mars-algorithm1", "mars-gap"])
@pytest.mark.parametrize("seed", range(4))
def test_sampled_drafts_part_at_the_first_different_decision(llama: Pair, rule: str, seed: int) -> None:
    sampled = DraftMode.SAMPLED
    strict = generate(llama, "strict", "model", Sampling(1.0), seed=seed, mode=sampled, new=LONG)
    relaxed = generate(llama, rule, "model", Sampling(1.0), seed=seed, mode=sampled, new=LONG)
    found = first_divergence(strict, relaxed)
    if found is None:
        assert not any(token.outcome is Outcome.RELAXED for token in relaxed.tokens)
        return
    assert found.cause in (Cause.RELAXED, Cause.TIGHTENED, Cause.REDRAWN)
    before = [(token.id, token.outcome) for token in strict.tokens[: found.position]]
    assert before == [(token.id, token.outcome) for token in relaxed.tokens[: found.position]]


def test_sampled_strict_measures_no_shift(llama: Pair) -> None:
    trace = generate(llama, "strict", "model", Sampling(0.7, top_p=0.9), mode=DraftMode.SAMPLED)
    assert trace.summary.tv_sum == pytest.approx(0, abs=1e-12)
    assert trace.summary.accepted > 0
    assert trace.summary.relaxed == 0


def test_none_samples_the_law_of_generate() -> None:
    """Chi-square over the first token of 800 whole runs against the warpers of generate; false alarm probability 1e-4."""
    pair = random_pair()
    sampling, count = Sampling(1.5, 20, 0.9), 800
    ids = torch.tensor([pair.tokenizer(PROMPT)["input_ids"]])
    scores = TemperatureLogitsWarper(1.5)(ids, pair.target(ids).logits[:, -1])
    scores = TopPLogitsWarper(0.9)(ids, TopKLogitsWarper(20)(ids, scores))
    expected = scores.softmax(-1)[0].double()
    seen = torch.zeros(len(expected), dtype=torch.float64)
    for seed in range(count):
        seen[generate(pair, "none", "none", sampling, seed=seed, new=1).token_ids[0]] += 1
    possible = expected > 0
    assert seen[~possible].sum() == 0
    assert (count * expected[possible]).min() > 5, "chi-square needs some of each"
    statistic = ((seen - count * expected)[possible] ** 2 / (count * expected)[possible]).sum()
    assert float(statistic) < chi2.ppf(1 - 1e-4, int(possible.sum()) - 1)
