"""The metrics of answers, each computed by the standard library of the field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evaluation.item import Item, Suite
from evaluation.scoring import names, overlap
from evaluation.scoring.answer import after_reasoning, contains, score
from evaluation.scoring.calls import calls_fit, calls_of, is_expected
from evaluation.scoring.code import passes
from evaluation.scoring.extraction import json_in
from evaluation.scoring.graders import boxed, exact_match, library
from evaluation.scoring.instructions import follows
from evaluation.scoring.overlap import Scorer
from evaluation.scoring.sandbox import check_sandbox
from evaluation.scoring.schema import fits


class Metric(NamedTuple):
    """A score of one answer, 0 to 1. ``binary``: only 0 or 1. ``scorer``: None runs code.
    ``needs``: module of the library, or empty."""

    binary: bool
    scorer: Scorer | None
    needs: str = ""


def metrics_of(suite: Suite, item: Item) -> tuple[str, ...]:
    """Return the names of the metrics of an item, the main one first: the suite's, or those of the
    item in a mixed suite."""
    return item.metrics if any(each.metrics for each in suite.items) else suite.metrics


def scores(
    suite: Suite, item: Item, texts: Sequence[str], *, execute_code: bool
) -> dict[str, float]:
    """Metric → 0 to 1, the main one first; empty where there are no references.

    ``texts``: the answers, one per turn. Several turns with as many references: each turn has its
    own, and a binary metric requires all to be right; otherwise the last answer is compared with
    any of the references. The formats that a prompt requests are the last metrics. Code runs only
    with ``execute_code``. Raises ValueError where a needed library is missing.
    """
    by_metric: dict[str, float] = {}
    for name in metrics_of(suite, item):
        binary, scorer, _ = METRICS[name]
        if scorer is None:
            passed = passes(item, texts[-1] if texts else "") if execute_code else None
            if passed is not None:
                by_metric[name] = float(passed)
        elif pairs := _pairs(item, texts):
            values = [scorer(text, references) for text, references in pairs]
            by_metric[name] = min(values) if binary else sum(values) / len(values)
    for name, has_format in formats(item).items():
        by_metric[name] = float(has_format(texts[-1] if texts else ""))
    return by_metric


def formats(item: Item) -> dict[str, Callable[[str], bool]]:
    """Metric → whether a text has the format that the last turn requests."""
    wanted: dict[str, Callable[[str], bool]] = {}
    if item.schema:
        wanted[names.JSON] = lambda text: _fits(text, item.schema)
    elif re.search(r"\bJSON\b", item.turns[-1], re.IGNORECASE):
        wanted[names.JSON] = lambda text: json_in(text) is not None
    if item.tools:
        wanted[names.CALLS] = lambda text: calls_fit(text, item.tools)
    return wanted


def _fits(text: str, schema: str) -> bool:
    value = json_in(after_reasoning(text))
    return value is not None and fits(value, json.loads(schema))


def check_libraries(suites: Iterable[Suite], *, execute_code: bool = False) -> None:
    """Raises ValueError where a library is missing that a metric of the suites needs, or code
    cannot be run."""
    by_suite = [
        metrics
        for suite in suites
        for metrics in (suite.metrics, *(item.metrics for item in suite.items))
    ]
    used = {name for metrics in by_suite for name in metrics}
    for name in sorted(used):
        if name not in METRICS:
            raise ValueError(f"The metric is {name!r}; it must be one of {'; '.join(METRICS)}.")
        if METRICS[name].needs:
            library(METRICS[name].needs)
    if names.PASS in used and execute_code:
        check_sandbox()


def _pairs(item: Item, texts: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each answer that is graded, with its references."""
    answers = [*texts, *[""] * (len(item.turns) - len(texts))]
    pairs: list[tuple[str, tuple[str, ...]]]
    if len(item.turns) > 1 and len(item.references) == len(item.turns):
        pairs = [
            (text, (reference,)) for text, reference in zip(answers, item.references, strict=True)
        ]
    else:
        pairs = [(answers[-1], tuple(filter(str.strip, item.references)))]
    return [(text, references) for text, references in pairs if any(map(str.strip, references))]


def _any(right: Callable[[str, str], bool]) -> Scorer:
    return lambda text, references: float(any(right(text, reference) for reference in references))


def _all(right: Callable[[str, str], bool]) -> Scorer:
    return lambda text, references: float(all(right(text, reference) for reference in references))


def _lm_eval(name: str) -> Scorer:
    return _any(lambda text, reference: exact_match(text, reference, name.partition(",")[2]))


METRICS = {
    # The number after ####, or the last number, equals the reference's: filters and comparison of
    # lm-eval's gsm8k.
    names.STRICT: Metric(True, _lm_eval(names.STRICT), "lm_eval"),
    names.FLEXIBLE: Metric(True, _lm_eval(names.FLEXIBLE), "lm_eval"),
    # The letter in “answer is (X)” equals the reference's: filter and comparison of lm-eval's
    # mmlu_pro.
    names.CHOICE: Metric(True, _lm_eval(names.CHOICE), "lm_eval"),
    # The last \boxed answer is the reference's, as lm-eval's hendrycks_math compares LaTeX; without
    # a box the text between the first and the last $, or the full answer.
    names.BOXED: Metric(True, _any(boxed), "lm_eval"),
    # A reference, or every reference, occurs in the answer as whole words, or is its final number;
    # case, width, punctuation ignored.
    names.CONTAINS: Metric(True, _any(contains)),
    names.CONTAINS_ALL: Metric(True, _all(contains)),
    # The last number, or the text after the last ####, equals the reference's; words occur in it as
    # whole words.
    names.ANSWER: Metric(True, _any(score)),
    # Every instruction is followed.
    names.FOLLOWS: Metric(True, _all(follows)),
    # Sentence scores: their mean is not the corpus score. ROUGE-L is F1, the best of several
    # references.
    names.BLEU: Metric(False, overlap.bleu, "sacrebleu"),
    names.CHRF: Metric(False, overlap.chrf, "sacrebleu"),
    names.ROUGE: Metric(False, overlap.rouge_l, "rouge_score"),
    # The code passes the item's tests, else the examples in the prompt's docstring; run in a
    # sandbox, once.
    names.PASS: Metric(True, None),
    # The answer, or its first fenced block, is a JSON object or list; of every prompt that requests
    # JSON. Of one with a schema, it also fits that.
    names.JSON: Metric(True, lambda text, _: float(json_in(text) is not None)),
    # The answer is or has well-formed tool calls; of every prompt with tools, they also fit these.
    names.CALLS: Metric(True, lambda text, _: float(calls_of(text) is not None)),
    # The calls, or the JSON, are the reference's.
    names.EXPECTED: Metric(True, _any(is_expected)),
}
