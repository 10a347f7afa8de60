"""The metrics by name, as lm-eval spells them: ``metric,filter``. ``evaluation.scoring.metrics``
computes them."""

from __future__ import annotations

STRICT, FLEXIBLE, CHOICE = (
    "exact_match,strict-match",
    "exact_match,flexible-extract",
    "exact_match,custom-extract",
)
BOXED = "exact_match,boxed"
CONTAINS, CONTAINS_ALL = "contains,none", "contains,all"
ANSWER, FOLLOWS = "answer,none", "follows,none"
BLEU, CHRF, ROUGE = "bleu,none", "chrf,none", "rougeL,none"
PASS = "pass@1,none"
JSON, CALLS, EXPECTED = "json,none", "calls,none", "expected,none"
