"""Penalties, repeated n-grams, biases and banned words: as in transformers, for every drafter, at
every node of a draft."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TopKLogitsWarper,
    TypicalLogitsWarper,
)

from mars_core.models import Pair
from mars_core.processors import word_ids
from mars_core.sampling import draw, noise
from mars_core.session import Session
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    Outcome,
    Processors,
    Sampling,
)
from tests.live_pairs import DRAFTS, config_for, generated, ready_pair, traced
from tests.unit.mars_core.test_verification import keys

PROMPT = "once upon a time upon a once"
INF = float("inf")
BANNED = tuple((word, -INF) for word in ("[40, 40]", "on", "[44]"))
EACH = {
    "repetition": Processors(repetition_penalty=1.4),
    "n-grams": Processors(no_repeat_ngram_size=3, logit_bias=(("[40]", 9.0),)),
    "single tokens": Processors(no_repeat_ngram_size=1, repetition_penalty=0.8),
    "words": Processors(logit_bias=(("[40]", 3.0), ("[41, 42]", 30.0), ("[43]", -9.0), *BANNED)),
    "all": Processors(
        repetition_penalty=1.2,
        no_repeat_ngram_size=3,
        logit_bias=(("[40]", 2.5), ("[40, 40]", -4.0), ("[45]", -INF)),
    ),
}
WARM = Processors(0.05, 0.9, 1.2, 0.3, 0.2, 3, (("[40]", 2.0), ("on", -1.0), ("[41]", -INF)))


@pytest.fixture(scope="module")
def pair() -> Pair:
    return ready_pair()


written = partial(traced, prompt=PROMPT)


def generate_options(pair: Pair, chosen: Processors) -> dict[str, object]:
    """As ``generate`` takes them."""
    words = {tuple(word_ids(pair.tokenizer, word)): value for word, value in chosen.logit_bias}
    bias = {ids: value for ids, value in words.items() if value > -INF}
    banned = [list(ids) for ids, value in words.items() if value == -INF]
    numbers = {
        name: getattr(chosen, name) or None
        for name in ("repetition_penalty", "no_repeat_ngram_size")
    }
    return {
        **numbers,
        **({"sequence_bias": bias} if bias else {}),
        **({"bad_words_ids": banned} if banned else {}),
    }


def processed(
    pair: Pair, chosen: Processors, text: Sequence[int], prompt: int, logits: Tensor
) -> Tensor:
    """The logits [V] after ``text`` by transformers' processors; the presence and frequency
    penalties by their formula."""
    scores, ids, options = logits[None], torch.tensor([text]), generate_options(pair, chosen)
    if "sequence_bias" in options:
        scores = SequenceBiasLogitsProcessor(options["sequence_bias"])(ids, scores)
    if chosen.repetition_penalty != 1:
        scores = RepetitionPenaltyLogitsProcessor(chosen.repetition_penalty)(ids, scores)
    for token, count in Counter(text[prompt:]).items():
        scores[0, token] -= chosen.presence_penalty + chosen.frequency_penalty * count
    if chosen.no_repeat_ngram_size:
        scores = NoRepeatNGramLogitsProcessor(chosen.no_repeat_ngram_size)(ids, scores)
    if "bad_words_ids" in options:
        scores = NoBadWordsLogitsProcessor(options["bad_words_ids"])(ids, scores)
    return scores[0]


@pytest.mark.parametrize("name", EACH)
def test_strict_is_the_target_alone_is_generate(pair: Pair, name: str) -> None:
    """Token for token at temperature 0; and the target alone at temperature 1: every drafter at one
    of them, at the other with the next processors."""
    ids, options = pair.tokenizer(PROMPT)["input_ids"], generate_options(pair, EACH[name])
    expected = generated(pair, ids, 24, eos_token_id=None, **options)
    plain = written(pair, DrafterConfig("none"), Sampling())
    sampling = Sampling(processors=EACH[name])
    alone = written(pair, DrafterConfig("none"), sampling)
    assert alone.token_ids == expected != plain.token_ids
    warm = replace(sampling, temperature=1.0)
    drawn = written(pair, DrafterConfig("none"), warm).token_ids
    for at, drafter in enumerate(DRAFTS.values()):
        if drafter.mode is DraftMode.SAMPLED or (at + [*EACH].index(name)) % 2:
            assert written(pair, drafter, sampling).token_ids == expected, drafter
        else:
            assert written(pair, drafter, warm).token_ids == drawn, drafter


@pytest.mark.parametrize("name", DRAFTS)
def test_every_token_has_the_probability_of_transformers_after_the_text_before_it(
    pair: Pair, name: str
) -> None:
    """Kept or rejected, at temperature 1, with all processors; and a coupled or greedy draft does
    not change the text."""
    sampling = Sampling(1.0, 30, processors=WARM)
    rule = "mars-gap" if name == "tree" else "strict"
    trace = written(pair, DRAFTS[name], sampling, rule=rule)
    text, prompt = [*trace.prompt_ids], len(trace.prompt_ids)
    warpers = LogitsProcessorList(
        [TopKLogitsWarper(30), MinPLogitsWarper(0.05), TypicalLogitsWarper(0.9)]
    )
    drawn = []
    for token in trace.tokens:
        raw = pair.target(torch.tensor([text])).logits[0, -1].float()
        z = processed(pair, WARM, text, prompt, raw)
        p = warpers(None, z[None]).softmax(-1)
        assert token.p == pytest.approx(float(p[0, token.id]), abs=1e-5)
        assert (token.z1, token.z2) == pytest.approx(z.topk(2).values.tolist(), abs=1e-4)
        assert (token.raw_z1, token.raw_z2) == pytest.approx(
            raw[[token.id1, token.id2]].tolist(), abs=1e-4
        )
        assert token.logprob == pytest.approx(float(raw.log_softmax(-1)[token.id]), abs=1e-4)
        exponential = noise(keys(0, token.position, 1), p.shape[-1])
        choice = draw(p, exponential)
        drawn.append(token.own == int(choice.ids))
        assert token.edge == pytest.approx(float(choice.gap()), abs=1e-3)
        if token.outcome is not Outcome.REJECTED:
            text.append(token.id)
    assert all(drawn)
    if name != "sampled chain" and name != "tree":
        assert trace.token_ids == written(pair, DrafterConfig("none"), sampling).token_ids
    assert trace.summary.tv_sum == pytest.approx(0, abs=1e-9) or name == "tree"


def test_what_cannot_be_processed_is_named(pair: Pair) -> None:
    sampling = Sampling(processors=Processors(logit_bias=(("[99999]", -INF),)))
    message = r"^The ids of the word '\[99999\]' are \[99999\]; there must be some, each 0 to 98"
    with pytest.raises(ValueError, match=message):
        Session(pair).check(config_for(pair, DRAFTS["coupled chain"], sampling))
