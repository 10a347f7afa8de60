"""Overlap of two texts, 0 to 1: BLEU and chrF by sacrebleu, ROUGE-L by rouge-score."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any, NamedTuple

from evaluation.scoring.graders import library

LIBRARIES = ("sacrebleu", "rouge_score")
MAX_TEXT = 100_000  # characters of a text that BLEU and chrF compare
# of a text that ROUGE-L compares: its time grows with the product of both, to about 2 s here
MAX_WORDS = 2000
# Han; kana; Thai, Lao, Myanmar and Khmer. Hangul is written with spaces between words.
_HAN = r"\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = r"\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_SOUTHEAST = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_HAN}{_KANA}{_SOUTHEAST}]|[^\W_{_HAN}{_KANA}{_SOUTHEAST}]+")


Scorer = Callable[[str, Sequence[str]], float]  # text, references → 0 to 1


class Overlap(NamedTuple):
    """Scores of a text and its reference, each 0 to 1."""

    bleu: float
    chrf: float
    rouge_l: float


def overlap(text: str, reference: str) -> Overlap:
    """Compute all scores; exactly 1 for equal texts, including empty ones. nan where sacrebleu or
    rouge-score is not installed."""
    if not _installed():
        return Overlap(math.nan, math.nan, math.nan)
    return Overlap(bleu(text, [reference]), chrf(text, [reference]), rouge_l(text, [reference]))


@cache
def _installed() -> bool:
    with suppress(ValueError):
        return all(map(library, LIBRARIES))
    return False


def _scorer(compute: Scorer) -> Scorer:
    """``compute`` for two different texts: exactly 1 for equal ones, 0 where one is empty. Sums of
    logarithms may exceed 1 by rounding."""

    @wraps(compute)
    def scored(text: str, references: Sequence[str]) -> float:
        if text in references:
            return 1.0
        empty = not text.strip() or not any(map(str.strip, references))
        return 0.0 if empty else min(compute(text, references), 1.0)

    return scored


@_scorer
def bleu(text: str, references: Sequence[str]) -> float:
    """Sentence BLEU: effective order, exponential smoothing, tokenizer by the first reference's
    script (WMT's 13a, zh, letters)."""
    return _sentence(_bleu(bleu_tokenizer(references[0][:MAX_TEXT])), text, references)


@_scorer
def chrf(text: str, references: Sequence[str]) -> float:
    """Sentence chrF (chrF2: character 6-grams, β = 2) against the best matching reference."""
    return _sentence(_chrf(), text, references)


def _sentence(scorer: Any, text: str, references: Sequence[str]) -> float:
    """Score by a metric of sacrebleu."""
    cut = [each[:MAX_TEXT] for each in references]
    return float(scorer.sentence_score(text[:MAX_TEXT], cut).score) / 100


@_scorer
def rouge_l(text: str, references: Sequence[str]) -> float:
    """Return F1 of the longest common subsequence of words, the best of the references. Words of
    every script, not only ASCII."""
    return float(_rouge().score_multi(list(references), text)["rougeL"].fmeasure)


def words(text: str) -> list[str]:
    """Return lower-case words; each letter of a script without spaces is a word. On ASCII the same
    as rouge-score's tokenizer."""
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def bleu_tokenizer(text: str) -> str:
    """Return sacrebleu's tokenizer for the script of ``text``: letters for Japanese and Southeast
    Asian scripts, ``zh`` for Chinese.

    A script is used if it has a tenth of the letters. Korean has spaces and uses 13a as all others;
    the tokenizers for Japanese and Korean words need dictionaries, and scores must not depend on
    whether these are installed.
    """
    letters = sum(map(str.isalpha, text)) or 1
    if len(re.findall(f"[{_KANA}{_SOUTHEAST}]", text)) >= letters / 10:
        return "char"
    return "zh" if len(re.findall(f"[{_HAN}]", text)) >= letters / 10 else "13a"


_bleu = cache(
    lambda tokenizer: library("sacrebleu.metrics").BLEU(tokenize=tokenizer, effective_order=True)
)
_chrf = cache(lambda: library("sacrebleu.metrics").CHRF())
_words = SimpleNamespace(
    tokenize=lambda text: words(text)[:MAX_WORDS]
)  # the interface of rouge-score's tokenizers
_rouge = cache(
    lambda: library("rouge_score.rouge_scorer").RougeScorer(["rougeL"], tokenizer=_words)
)
