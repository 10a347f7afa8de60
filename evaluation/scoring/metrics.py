"""What an answer scores: the metrics of its item, each computed by the library that the field grades with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from evaluation.scoring import overlap
from evaluation.scoring.answer import contains, score
from evaluation.scoring.code import passes
from evaluation.scoring.graders import boxed, exact_match
from evaluation.scoring.libraries import library
from evaluation.scoring.names import (
    ANSWER,
    BLEU,
    BOXED,
    CHOICE,
    CHRF,
    CONTAINS,
    CONTAINS_ALL,
    FLEXIBLE,
    METRICS,
    PASS,
    ROUGE,
    STRICT,
    Metric,
)
from evaluation.scoring.sandbox import check_sandbox
from evaluation.suites.item import Item, Suite

__all__ = ["METRICS", "Metric", "check_libraries", "main_metric", "metrics_of", "scores"]
Scorer = Callable[[str, Sequence[str]], float]  # of a text and what it is held against


def metrics_of(suite: Suite, item: Item) -> tuple[str, ...]:
    """The names of the metrics of an item, the main one first: the suite's, or its own where the suite is mixed."""
    return item.metrics if _mixed(suite) else suite.metrics


def main_metric(suite: Suite, category: str | None = None) -> str | None:
    """The first metric of a suite, or of one category of it. None where nothing is scored."""
    if category is None or not _mixed(suite):
        return next(iter(suite.metrics), None)
    return next((item.metrics[0] for item in suite.items if item.category == category and item.metrics), None)


def _mixed(suite: Suite) -> bool:
    """Whether every item says its own metrics."""
    return any(item.metrics for item in suite.items)


def scores(suite: Suite, item: Item, texts: Sequence[str], *, execute_code: bool) -> dict[str, float]:
    """Metric → 0 to 1, the main one first; empty where there is nothing to hold the texts against.

    ``texts``: the answers, one a turn. Several turns with as many references: each turn has its own, and a binary metric wants
    all of them right; otherwise the last answer counts, and any of the references. Code runs only with ``execute_code``.
    Raises ValueError where a needed library is missing.
    """
    found: dict[str, float] = {}
    for name in metrics_of(suite, item):
        if name == PASS:
            passed = passes(item, texts[-1] if texts else "") if execute_code else None
            if passed is not None:
                found[name] = float(passed)
        elif pairs := _pairs(item, texts):
            values = [_SCORERS[name](text, references) for text, references in pairs]
            found[name] = min(values) if METRICS[name].binary else sum(values) / len(values)
    return found


def check_libraries(suites: Iterable[Suite], *, execute_code: bool = False) -> None:
    """Raises ValueError where a library is missing that a metric of the suites, or the likeness to strict, needs; or code cannot be run."""
    for needed in overlap.LIBRARIES:
        library(needed)
    used = {
        name for suite in suites for names in (suite.metrics, *(item.metrics for item in suite.items)) for name in names
    }
    for name in sorted(used):
        if name not in METRICS:
            raise ValueError(f"The metric is {name!r}; it must be one of {'; '.join(METRICS)}.")
        if METRICS[name].needs:
            library(METRICS[name].needs)
    if PASS in used and execute_code:
        check_sandbox()


def _pairs(item: Item, texts: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Each answer that is graded, with its references."""
    given = [*texts, *[""] * (len(item.turns) - len(texts))]
    held: list[tuple[str, tuple[str, ...]]]
    if len(item.turns) > 1 and len(item.references) == len(item.turns):
        held = [(text, (reference,)) for text, reference in zip(given, item.references, strict=True)]
    else:
        held = [(given[-1], tuple(filter(str.strip, item.references)))]
    return [(text, references) for text, references in held if any(map(str.strip, references))]


def _any(right: Callable[[str, str], bool]) -> Scorer:
    return lambda text, references: float(any(right(text, reference) for reference in references))


def _lm_eval(name: str) -> Scorer:
    return _any(lambda text, reference: exact_match(text, reference, name.partition(",")[2]))


_SCORERS: dict[str, Scorer] = {
    STRICT: _lm_eval(STRICT),
    FLEXIBLE: _lm_eval(FLEXIBLE),
    CHOICE: _lm_eval(CHOICE),
    BOXED: _any(boxed),
    CONTAINS: _any(contains),
    ANSWER: _any(score),
    CONTAINS_ALL: lambda text, references: float(all(contains(text, reference) for reference in references)),
    BLEU: overlap.bleu,
    CHRF: overlap.chrf,
    ROUGE: overlap.rouge_l,
}
