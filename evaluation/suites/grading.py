"""Selects the metrics of a suite: by its name, by its categories, else by the form of its
references and prompts.

Selected once, when a file is read, and stored with the suite.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from evaluation.item import Item, Suite
from evaluation.scoring.answer import MARK, reference_number
from evaluation.scoring.code import has_tests
from evaluation.scoring.extraction import json_in
from evaluation.scoring.instructions import is_instruction
from evaluation.scoring.names import (
    BLEU,
    BOXED,
    CHOICE,
    CHRF,
    CONTAINS,
    EXPECTED,
    FLEXIBLE,
    FOLLOWS,
    PASS,
    ROUGE,
    STRICT,
)
from evaluation.scoring.overlap import words

Metrics = tuple[str, ...]
_WORKED, _NUMBERS, _LETTERS = (STRICT, FLEXIBLE), (FLEXIBLE,), (CHOICE, CONTAINS)
_FORMULAS, _IN_BOX = (BOXED,), (BOXED, FLEXIBLE)
_PHRASES, _TRANSLATION, _SUMMARY, _GENERIC, _CODE = (
    (CONTAINS,),
    (BLEU, CHRF),
    (ROUGE,),
    (ROUGE, BLEU, CHRF),
    (PASS,),
)
_NAMED: dict[str, Metrics] = {  # file names of known data sets, letters and digits only
    "gsm8k": _WORKED,
    "humaneval": _CODE,
    "mbpp": _CODE,
    "mtbench": (),
    "alpaca": _GENERIC,
    "qa": _PHRASES,
    "sum": _SUMMARY,
    "cnndm": _SUMMARY,
    "math": _FORMULAS,
    "math500": _FORMULAS,
    "hendrycksmath": _FORMULAS,
}
_MT_BENCH = (
    "writing",
    "roleplay",
    "reasoning",
    "math",
    "coding",
    "extraction",
    "stem",
    "humanities",
)
_LANGUAGE = (
    "(?:ar|bg|bn|cs|da|de|el|en|es|et|fa|fi|fr|gu|he|hi|hr|hu|id|is|it|ja|kk|ko|lt|lv|nl|no|pl|pt|ro|ru|sk|sl|sr|sv|sw|th|tr|uk|ur|vi|zh"
    "|ara|ces|deu|ell|eng|fin|fra|heb|hin|hun|ind|ita|jpn|kor|nld|pol|por|ron|rus|spa|swe|tha|tur|ukr|vie|zho)(?:_[a-z]{4})?"
)
_IN_NAMES = {  # pattern in a category or file name → metrics
    _CODE: re.compile(r"(?<![a-z])(?:code|coding|humaneval|mbpp|python|programming)(?![a-z])"),
    _TRANSLATION: re.compile(
        rf"translat|(?<![a-z])(?:wmt|iwslt|flores|opus)|(?<![a-z]){_LANGUAGE}(?:[-_>→2]|->|[-_]to[-_]){_LANGUAGE}(?![a-z])"
    ),
    _SUMMARY: re.compile(r"summ|(?<![a-z])(?:sum|cnn|xsum)(?![a-z])"),
}
_MATHS = re.compile(
    r"math|algebra|geometry|calculus|number theory|counting|probability|(?<![a-z])(?:aime|amc)(?![a-z])|olympiad"
)
_IN_PROMPTS = {
    _TRANSLATION: re.compile(
        r"\btranslat(?:e|ion)\b|\bübersetz|\btradui[st]|\btraduce|\btraduz|\btraduci|перевед|翻译|翻譯|翻訳|번역",
        re.IGNORECASE,
    ),
    _SUMMARY: re.compile(r"\bsummar(?:y|i[sz]e)\b|\btl;?dr\b", re.IGNORECASE),
}
_NUMBER = re.compile(r"-?\$?[0-9][0-9,]*(?:\.[0-9]+)?")  # as in lm-eval's filters; 45 % is a phrase
_BOX = re.compile(r"\\(?:boxed|fbox)\b")
_LATEX = re.compile(r"\\[A-Za-z]{2,}|[\w)}\]]\^[\w({\\]|^\$[^$]+\$$")
_LETTER = re.compile(r"\(?[A-J]\)?\.?")
_MAX_FORMULA = 200  # characters
_MAX_PHRASE = 16  # words


class _Group:
    """The items of one category. ``name``: category and, of a file with one category, the suite's
    name; lower case."""

    def __init__(self, name: str, items: Sequence[Item]) -> None:
        self.name, self.items = name, items
        self.references = [
            reference for item in items for reference in item.references if reference.strip()
        ]
        self.prompts = [item.turns[-1] for item in items]


def with_metrics(suite: Suite) -> Suite:
    """Return the suite with its metrics, and with solutions that are split into lines joined."""
    items = tuple(_joined(item) for item in suite.items)
    metrics = _by_category(suite.name, items)
    if len(set(metrics.values())) > 1:
        items = tuple(replace(item, metrics=metrics[item.category]) for item in items)
    return replace(
        suite,
        items=items,
        metrics=tuple(dict.fromkeys(name for names in metrics.values() for name in names)),
    )


def union(items: Iterable[Item]) -> Metrics:
    """Return the items' metrics, without duplicates, in order of appearance."""
    return tuple(dict.fromkeys(name for item in items for name in item.metrics))


def _by_category(name: str, items: Sequence[Item]) -> dict[str, Metrics]:
    named = _NAMED.get(re.sub("[^a-z0-9]", "", name.lower()))
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.category, []).append(item)
    only = name if len(groups) == 1 else ""
    metrics = {
        each: _of_group(_Group(f"{each} {only}".lower(), members), named)
        for each, members in groups.items()
    }
    if (
        _FORMULAS in metrics.values()
    ):  # one grader for a file of mathematics in which some answers are plain numbers
        metrics = {
            each: _FORMULAS if names in (_NUMBERS, _IN_BOX) else names
            for each, names in metrics.items()
        }
    return metrics


def _of_group(group: _Group, named: Metrics | None) -> Metrics:
    metrics = _by_name(group) if named is None else named
    tested = _CODE in (named, _by_name(group)) and any(map(has_tests, group.items))
    if tested or _mostly(bool, (item.tests for item in group.items)):
        return _CODE
    if not group.references or named == ():
        return ()
    if metrics is None or metrics == _CODE:
        metrics = _by_references(group)
    return (
        _WORKED[::-1] if metrics == _WORKED and not _mostly(_has_mark, group.prompts) else metrics
    )


def _by_name(group: _Group) -> Metrics | None:
    """Return the metrics of a named suite; None if the name is not known."""
    if (group.name.split() or [""])[0] in _MT_BENCH and all(
        len(item.turns) == 2 for item in group.items
    ):
        return ()
    return next(
        (metrics for metrics, pattern in _IN_NAMES.items() if pattern.search(group.name)), None
    )


def _by_references(group: _Group) -> Metrics:
    references, prompts = group.references, group.prompts
    if any(item.structure for item in group.items) and _mostly(
        lambda text: json_in(text) is not None, references, 1.0
    ):
        return (EXPECTED,)
    if _mostly(is_instruction, references, 1.0):
        return (FOLLOWS,)
    if _mostly(
        lambda text: _has_mark(text) and reference_number(text) is not None, references
    ):  # as in GSM8K
        return _WORKED
    if _is_latex(group):
        return _FORMULAS
    if _mostly(_is_number, references, 0.9):
        return _IN_BOX if _mostly(_BOX.search, prompts) else _NUMBERS
    if _mostly(lambda text: _LETTER.fullmatch(text.strip()), references, 0.9):
        return (
            _LETTERS if _mostly(lambda prompt: "answer is" in prompt, prompts) else _LETTERS[::-1]
        )
    if _mostly(lambda prompt: _IN_PROMPTS[_TRANSLATION].search(_ends(prompt)), prompts):
        return _TRANSLATION
    if _mostly(_is_phrase, references, 0.8):
        return _PHRASES
    return (
        _SUMMARY
        if _mostly(lambda prompt: _IN_PROMPTS[_SUMMARY].search(_ends(prompt)), prompts)
        else _GENERIC
    )


def _mostly(test: Callable[[str], object], texts: Iterable[str], share: float = 0.5) -> bool:
    """Return whether at least ``share`` of the texts pass; False without texts."""
    passed = [bool(test(text)) for text in texts]
    return bool(passed) and sum(passed) >= share * len(passed)


def _has_mark(text: str) -> bool:
    return MARK in text


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text.strip()) is not None


def _is_phrase(text: str) -> bool:
    """Return whether it is a few words on one line and no sentence: a name, a date, yes."""
    bare = text.strip()
    return "\n" not in bare and len(words(bare)) <= (
        4 if bare[-1:] in ".!?。\uff01\uff1f" else _MAX_PHRASE
    )


def _is_formula(text: str) -> bool:
    """Short, one line, with LaTeX."""
    bare = text.strip()
    return len(bare) <= _MAX_FORMULA and "\n" not in bare and _LATEX.search(bare) is not None


def _is_latex(group: _Group) -> bool:
    """Boxed solutions; or short answers with some formulas; fewer are needed if the category or the
    prompts mention mathematics."""
    references = group.references
    if _mostly(_BOX.search, references):
        return True
    if not _mostly(lambda text: len(text) <= _MAX_FORMULA, references, 0.9):
        return False
    expected = _MATHS.search(group.name) is not None or _mostly(_BOX.search, group.prompts)
    return any(map(_is_formula, references)) if expected else _mostly(_is_formula, references, 0.2)


def _ends(prompt: str) -> str:
    """Return the beginning and the end of a prompt, which contain the request."""
    return prompt if len(prompt) <= 400 else f"{prompt[:200]}\n{prompt[-200:]}"


def _joined(item: Item) -> Item:
    """Joins the lines of one solution, as in EAGLE's files, to one reference; several answers stay
    separate."""
    references = item.references
    if len(item.turns) > 1 and len(references) == len(item.turns):  # one per turn
        return item
    if len(references) > 1 and _are_lines(references):
        return replace(item, references=("\n".join(references),))
    return replace(item, references=tuple(filter(str.strip, references)))


def _are_lines(references: Sequence[str]) -> bool:
    """Return whether the references are lines of one solution: GSM8K's end in one with ####; not
    all LaTeX lines have a box; code is indented."""
    marked, boxed = list(map(_has_mark, references)), list(map(_BOX.search, references))
    indented = any(line.startswith(("    ", "\t")) for line in references)
    return (marked[-1] and not all(marked)) or (any(boxed) and not all(boxed)) or indented
