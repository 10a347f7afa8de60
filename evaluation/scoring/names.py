"""The metrics by name, as lm-eval spells them: ``metric,filter``. ``evaluation.scoring.metrics`` computes them."""

from __future__ import annotations

from typing import NamedTuple

STRICT, FLEXIBLE, CHOICE = "exact_match,strict-match", "exact_match,flexible-extract", "exact_match,custom-extract"
BOXED = "exact_match,boxed"
CONTAINS, CONTAINS_ALL = "contains,none", "contains,all"
ANSWER = "answer,none"
BLEU, CHRF, ROUGE = "bleu,none", "chrf,none", "rougeL,none"
PASS = "pass@1,none"


class Metric(NamedTuple):
    """A score of one answer, 0 to 1. ``binary``: only 0 or 1. ``needs``: the module of the library that computes it, or empty."""

    name: str
    binary: bool
    about: str
    needs: str = ""


METRICS = {
    metric.name: metric
    for metric in (
        Metric(STRICT, True, "the number after #### is the reference's; filter and comparison of lm-eval's gsm8k", "lm_eval"),
        Metric(FLEXIBLE, True, "the last number is the reference's; filter and comparison of lm-eval's gsm8k", "lm_eval"),
        Metric(CHOICE, True, "the letter in “answer is (X)” is the reference's; filter and comparison of lm-eval's mmlu_pro", "lm_eval"),
        Metric(
            BOXED,
            True,
            "the last \\boxed answer is the reference's, as lm-eval's hendrycks_math compares LaTeX; without a box what it takes: "
            "the text between the first and the last $, or all",
            "lm_eval",
        ),
        Metric(CONTAINS, True, "a reference stands in the answer as whole words, or is its final number; case, width, punctuation aside"),
        Metric(CONTAINS_ALL, True, "every reference stands in the answer as whole words; case, width and punctuation aside"),
        Metric(ANSWER, True, "the last number, or what follows the last ####, is the reference's; words stand in it as whole words"),
        Metric(BLEU, False, "sacrebleu's sentence BLEU; a mean of it is not the BLEU of a corpus", "sacrebleu"),
        Metric(CHRF, False, "sacrebleu's sentence chrF; a mean of it is not the chrF of a corpus", "sacrebleu"),
        Metric(ROUGE, False, "rouge-score's ROUGE-L, F1; the best of several references", "rouge_score"),
        Metric(PASS, True, "the code passes the item's tests, else the examples in the prompt's docstring; run in a sandbox, once"),
    )
}  # fmt: skip
