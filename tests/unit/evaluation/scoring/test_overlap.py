"""Overlap of two texts, in every script."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.scoring.overlap import Overlap, bleu, bleu_tokenizer, chrf, overlap, rouge_l, words

ENGLISH = "The quick brown fox jumps over the lazy dog, doesn't it?"
OTHER = "A quick brown fox jumped over that lazy old dog."
CHINESE, CHINESE_OTHER = "今天天气很好\uff0c我们去公园。", "今天天气不好\uff0c我们不去公园。"
JAPANESE, JAPANESE_OTHER = "今日はとても天気がいいです。", "今日は天気がよくないです。"
TEXTS = st.one_of(st.text(max_size=40), st.text("ab 今の.", max_size=40))


@settings(max_examples=50, deadline=None)
@given(TEXTS, TEXTS)
def test_every_share_is_between_none_and_all_and_equal_texts_are_all(text: str, reference: str) -> None:
    assert overlap(text, text) == Overlap(1.0, 1.0, 1.0)
    assert all(0 <= share <= 1 for share in overlap(text, reference))


def test_nothing_shares_nothing_with_something() -> None:
    assert overlap("", "") == Overlap(1.0, 1.0, 1.0)
    assert overlap("", ENGLISH) == overlap(ENGLISH, "") == Overlap(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "reference", "tokenizer"),
    [(OTHER, ENGLISH, "13a"), (CHINESE_OTHER, CHINESE, "zh"), (JAPANESE_OTHER, JAPANESE, "char")],
)
def test_bleu_and_chrf_are_sacrebleus(text: str, reference: str, tokenizer: str) -> None:
    sacrebleu = importlib.import_module("sacrebleu")
    expected = sacrebleu.sentence_bleu(text, [reference], tokenize=tokenizer, use_effective_order=True).score / 100
    assert bleu(text, [reference]) == pytest.approx(expected, abs=1e-12)
    assert chrf(text, [reference]) == pytest.approx(sacrebleu.sentence_chrf(text, [reference]).score / 100, abs=1e-12)


def test_rouge_is_rouge_scores_own_where_it_can_read_the_text() -> None:
    scorer = importlib.import_module("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    assert rouge_l(OTHER, [ENGLISH]) == pytest.approx(scorer.score(ENGLISH, OTHER)["rougeL"].fmeasure, abs=1e-12)
    tokenize = importlib.import_module("rouge_score.tokenize").tokenize
    assert words(ENGLISH + " a_b 3.5") == tokenize(ENGLISH + " a_b 3.5", None)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        (CHINESE_OTHER, CHINESE),
        (JAPANESE_OTHER, JAPANESE),
        ("Grüße aus Österreich", "Grüße an Österreich"),
        ("Привет мир", "Привет всем"),
    ],
)
def test_texts_of_every_script_overlap_in_part(text: str, reference: str) -> None:
    assert all(0.1 < share < 0.95 for share in overlap(text, reference))


def test_script_decides_how_bleu_cuts_words() -> None:
    texts = (ENGLISH, CHINESE, JAPANESE, "안녕하세요 세계", "", "Tokyo (東京) is large, and old too")
    assert [*map(bleu_tokenizer, texts)] == ["13a", "zh", "char", "13a", "13a", "13a"]


def test_nearest_of_several_references_counts() -> None:
    for score in (bleu, chrf, rouge_l):
        assert score(OTHER, [ENGLISH, OTHER]) == 1.0
        assert score(OTHER, ["Nothing of this.", ENGLISH]) >= score(OTHER, ["Nothing of this."])
