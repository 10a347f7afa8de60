"""What references and prompts look like: a number, LaTeX, a phrase, a translation. Pure functions of texts; standard library only."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable

from evaluation.scoring.answer import MARK, reference_number
from evaluation.scoring.script import words

_NUMBER = re.compile(r"-?\$?[0-9][0-9,]*(?:\.[0-9]+)?")
_BOX = re.compile(r"\\(?:boxed|fbox)\b")
_LATEX = re.compile(r"\\[A-Za-z]{2,}|[\w)}\]]\^[\w({\\]|^\$[^$]+\$$")
_CHOICE = re.compile(r"\(?[A-J]\)?\.?")
_TRANSLATE = re.compile(
    r"\btranslat(?:e|ion)\b|\bübersetz|\btradui[st]|\btraduce|\btraduz|\btraduci|перевед|翻译|翻譯|翻訳|번역",
    re.IGNORECASE,
)
_SUMMARISE = re.compile(r"\bsummar(?:y|i[sz]e)\b|\btl;?dr\b", re.IGNORECASE)
_ENDS = ".!?。\uff01\uff1f"
LONGEST_FORMULA = 200  # characters
LONGEST_PHRASE = 16  # words


def mostly(test: Callable[[str], bool], texts: Iterable[str], share: float = 0.5) -> bool:
    """Whether at least ``share`` of the texts pass; of no text none does."""
    passed = [test(text) for text in texts]
    return bool(passed) and sum(passed) >= share * len(passed)


def is_number(text: str) -> bool:
    """As lm-eval's filters spell one: digits, commas and a point; not 45 %, which is a phrase."""
    return _NUMBER.fullmatch(text.strip()) is not None


def is_worked_number(text: str) -> bool:
    """GSM8K's way: the number follows ####."""
    return MARK in text and reference_number(text) is not None


def is_boxed(text: str) -> bool:
    return _BOX.search(text) is not None


def is_formula(text: str) -> bool:
    """Short, one line, with something of LaTeX in it."""
    bare = text.strip()
    return len(bare) <= LONGEST_FORMULA and "\n" not in bare and _LATEX.search(bare) is not None


def is_choice(text: str) -> bool:
    """The letter of one of several answers."""
    return _CHOICE.fullmatch(text.strip()) is not None


def is_phrase(text: str) -> bool:
    """A few words on one line that are no sentence: a name, a date, yes."""
    bare = text.strip()
    count = len(words(bare))
    return "\n" not in bare and count <= (4 if bare[-1:] in _ENDS else LONGEST_PHRASE)


def asks_for_box(prompt: str) -> bool:
    return is_boxed(prompt)


def asks_for_mark(prompt: str) -> bool:
    return MARK in prompt


def asks_for_translation(prompt: str) -> bool:
    """At either end of the prompt; what stands between may be any text."""
    return _TRANSLATE.search(_ends(prompt)) is not None


def asks_for_summary(prompt: str) -> bool:
    return _SUMMARISE.search(_ends(prompt)) is not None


def script(text: str) -> str:
    """The script of most letters: LATIN, CYRILLIC, CJK, HIRAGANA …; empty without letters."""
    names = Counter(
        unicodedata.name(letter, "").partition(" ")[0]
        for letter in text[:2000]
        if unicodedata.category(letter)[0] == "L"
    )
    return names.most_common(1)[0][0] if names else ""


def _ends(prompt: str) -> str:
    return prompt if len(prompt) <= 400 else f"{prompt[:200]}\n{prompt[-200:]}"
