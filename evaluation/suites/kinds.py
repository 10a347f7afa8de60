"""What scores a suite that says nothing about it: by its name, by its categories, else by what its references and prompts look like.

Decided once, when a file is read, and kept with the suite, so that a study that is stored says how it was scored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation.scoring.code import has_tests
from evaluation.scoring.names import BLEU, BOXED, CHOICE, CHRF, CONTAINS, FLEXIBLE, PASS, ROUGE, STRICT
from evaluation.suites import looks
from evaluation.suites.item import Item, Suite
from evaluation.suites.looks import mostly

Metrics = tuple[str, ...]
WORKED, NUMBERS, LETTERS = (STRICT, FLEXIBLE), (FLEXIBLE,), (CHOICE, CONTAINS)
FORMULAS, IN_BOX = (BOXED,), (BOXED, FLEXIBLE)
PHRASES, TRANSLATION, SUMMARY, GENERIC, CODE = (CONTAINS,), (BLEU, CHRF), (ROUGE,), (ROUGE, BLEU, CHRF), (PASS,)
_NAMED: dict[str, Metrics] = {  # file names of the field, letters and digits only
    "gsm8k": WORKED,
    "humaneval": CODE,
    "mbpp": CODE,
    "mtbench": (),
    "alpaca": GENERIC,
    "qa": PHRASES,
    "sum": SUMMARY,
    "cnndm": SUMMARY,
    "math": FORMULAS,
    "math500": FORMULAS,
    "hendrycksmath": FORMULAS,
}
_MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
_LANGUAGE = (
    "(?:ar|bg|bn|cs|da|de|el|en|es|et|fa|fi|fr|gu|he|hi|hr|hu|id|is|it|ja|kk|ko|lt|lv|nl|no|pl|pt|ro|ru|sk|sl|sr|sv|sw|th|tr|uk|ur|vi|zh"
    "|ara|ces|deu|ell|eng|fin|fra|heb|hin|hun|ind|ita|jpn|kor|nld|pol|por|ron|rus|spa|swe|tha|tur|ukr|vie|zho)(?:_[a-z]{4})?"
)
_TRANSLATION = re.compile(
    rf"translat|(?<![a-z])(?:wmt|iwslt|flores|opus)|(?<![a-z]){_LANGUAGE}(?:[-_>→2]|->|[-_]to[-_]){_LANGUAGE}(?![a-z])"
)
_SUMMARY = re.compile(r"summ|(?<![a-z])(?:sum|cnn|xsum)(?![a-z])")
_CODE = re.compile(r"(?<![a-z])(?:code|coding|humaneval|mbpp|python|programming)(?![a-z])")
_MATHS = re.compile(
    r"math|algebra|geometry|calculus|number theory|counting|probability|(?<![a-z])(?:aime|amc)(?![a-z])|olympiad"
)


@dataclass(frozen=True, slots=True)
class _Group:
    """The items of one category. ``called``: category and, of a file with one category, the suite's name; lower case."""

    called: str
    items: Sequence[Item]

    @property
    def references(self) -> list[str]:
        return [reference for item in self.items for reference in item.references if reference.strip()]

    @property
    def prompts(self) -> list[str]:
        return [item.turns[-1] for item in self.items]


def graded(suite: Suite) -> Suite:
    """The suite with its metrics, and with solutions that the file keeps line by line put together."""
    items = tuple(_joined(item) for item in suite.items)
    named = _NAMED.get(re.sub("[^a-z0-9]", "", suite.name.lower()))
    kinds = _kinds(suite.name, items, named)
    metrics = tuple(dict.fromkeys(name for kind in kinds.values() for name in kind))
    if len(set(kinds.values())) > 1:
        items = tuple(replace(item, metrics=kinds[item.category]) for item in items)
    return replace(suite, items=items, metrics=metrics)


def union(items: Iterable[Item]) -> Metrics:
    """The items' own metrics, each once, in the order in which they come."""
    return tuple(dict.fromkeys(name for item in items for name in item.metrics))


def _kinds(name: str, items: Sequence[Item], named: Metrics | None) -> dict[str, Metrics]:
    """Category → metrics."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.category, []).append(item)
    only = name if len(groups) == 1 else ""
    found = {
        category: _kind(_Group(f"{category} {only}".lower(), members), named) for category, members in groups.items()
    }
    if FORMULAS in found.values():  # one grader for a file of mathematics, part of whose answers are plain numbers
        found = {category: FORMULAS if kind in (NUMBERS, IN_BOX) else kind for category, kind in found.items()}
    return found


def _kind(group: _Group, named: Metrics | None) -> Metrics:
    if mostly(bool, (item.tests for item in group.items)) or (
        CODE in (named, _by_name(group)) and _any_has_tests(group)
    ):
        return CODE
    if not group.references or named == ():
        return ()
    found = _by_name(group) if named is None else named
    if found is None or found == CODE:
        found = _by_looks(group)
    return WORKED[::-1] if found == WORKED and not mostly(looks.asks_for_mark, group.prompts) else found


def _any_has_tests(group: _Group) -> bool:
    return any(map(has_tests, group.items))


def _by_name(group: _Group) -> Metrics | None:
    """None where the name decides nothing."""
    if (
        group.called.split()[:1]
        and group.called.split()[0] in _MT_BENCH
        and all(len(i.turns) == 2 for i in group.items)
    ):
        return ()
    rules = ((_CODE, CODE), (_TRANSLATION, TRANSLATION), (_SUMMARY, SUMMARY))
    return next((metrics for rule, metrics in rules if rule.search(group.called)), None)


def _by_looks(group: _Group) -> Metrics:
    given, prompts = group.references, group.prompts
    if mostly(looks.is_worked_number, given):
        return WORKED
    if _latex(group):
        return FORMULAS
    if mostly(looks.is_number, given, 0.9):
        return IN_BOX if mostly(looks.asks_for_box, prompts) else NUMBERS
    if mostly(looks.is_choice, given, 0.9):
        return LETTERS if mostly(lambda prompt: "answer is" in prompt, prompts) else LETTERS[::-1]
    if mostly(looks.asks_for_translation, prompts) or _other_script(group):
        return TRANSLATION
    if mostly(looks.is_phrase, given, 0.8):
        return PHRASES
    return SUMMARY if mostly(looks.asks_for_summary, prompts) else GENERIC


def _latex(group: _Group) -> bool:
    """Boxed solutions; or short answers of which some are formulas, more so where the category or the prompts speak of mathematics."""
    given = group.references
    if mostly(looks.is_boxed, given):
        return True
    if not mostly(lambda text: len(text) <= looks.LONGEST_FORMULA, given, 0.9):
        return False
    expected = _MATHS.search(group.called) is not None or mostly(looks.asks_for_box, group.prompts)
    return any(map(looks.is_formula, given)) if expected else mostly(looks.is_formula, given, 0.2)


def _other_script(group: _Group) -> bool:
    """Whether sentences are answered in another script than they are asked in."""
    pairs = [(item.turns[-1], item.references[0]) for item in group.items if item.references]
    other = [
        looks.script(asked) != looks.script(given) and not looks.is_number(given) and len(given) > 8
        for asked, given in pairs
    ]
    return sum(other) >= 0.8 * len(pairs) > 0


def _joined(item: Item) -> Item:
    """Lines of one solution, as EAGLE's files keep them, made one reference; several answers stay several."""
    given = item.references
    own = len(item.turns) > 1 and len(given) == len(item.turns)
    if len(given) < 2 or own or not _lines(given):
        return item if own else replace(item, references=tuple(filter(str.strip, given)))
    return replace(item, references=("\n".join(given),))


def _lines(given: Sequence[str]) -> bool:
    """GSM8K's lines end in one with ####; of LaTeX lines not all have a box; code is indented."""
    marked, boxed = ([test(line) for line in given] for test in (looks.asks_for_mark, looks.is_boxed))
    return (
        (marked[-1] and not all(marked))
        or (any(boxed) and not all(boxed))
        or any(line.startswith(("    ", "\t")) for line in given)
    )
