"""Grades answers with lm-eval's tasks: filters, comparisons and LaTeX rules of the installed
package.

A task's YAML names the filters and the options of ``exact_match``; lm-eval's code runs both.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

_INSTALL = "install the extra eval (make eval in a checkout)"
_OF_THE_METRIC = ("metric", "aggregation", "higher_is_better")  # not arguments of exact_match
_PACKAGES = {
    "lm_eval": "lm-eval",
    "rouge_score": "rouge-score",
}  # package names that differ from the module's
_TASKS = {  # filter → the YAML that defines it
    "strict-match": "gsm8k/gsm8k.yaml",
    "flexible-extract": "gsm8k/gsm8k.yaml",
    "custom-extract": "mmlu_pro/_default_template_yaml",
}


def library(module: str) -> Any:
    """Import the module of that name. Raises ValueError where its package, or one that it needs, is
    not installed."""
    package = module.partition(".")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of the libraries at import
            return importlib.import_module(module)
    except ImportError as error:
        name = _PACKAGES.get(package, package)
        why = "" if error.name == package else f" ({error})"
        raise ValueError(f"Scoring these suites needs {name}{why}: {_INSTALL}") from None


def exact_match(text: str, reference: str, filter_name: str) -> bool:
    """Return lm-eval's ``exact_match,<filter_name>`` of one answer; the filter is one of _TASKS."""
    filters, options = _grader(filter_name)
    instance = library("lm_eval.api.instance").Instance("generate_until", {}, (), 0, resps=[text])
    filters.apply([instance])
    compare = library("lm_eval.api.metrics").exact_match_fn
    filtered = instance.filtered_resps[filter_name]
    return bool(compare(predictions=[filtered], references=[reference], **options)["exact_match"])


def boxed(text: str, reference: str) -> bool:
    """Return lm-eval's hendrycks_math: the last boxed answer of either side, compared as LaTeX; a
    reference without a box is the answer itself.

    An answer without a box is graded by the task's process_results.
    """
    math = library("lm_eval.tasks.hendrycks_math.utils")
    bare = reference.strip()
    is_formula = len(bare) > 2 and bare[0] == bare[-1] == "$"  # as a whole
    wanted = _in_box(math, reference) or (bare.strip("$").strip() if is_formula else bare)
    actual = _in_box(math, text)
    if actual is not None:
        return bool(math.is_equiv(actual, wanted))
    solution = f"\\boxed{{{wanted}}}"
    if math.last_boxed_only_string(solution) != solution:  # unbalanced braces
        return bool(math.is_equiv(text, wanted))
    return bool(math.process_results({"solution": solution}, [text])["exact_match"])


def _in_box(math: Any, text: str) -> str | None:
    """Return the content of the last box; None without a closed box."""
    try:
        boxed = math.last_boxed_only_string(text)
        return None if boxed is None else str(math.remove_boxed(boxed))
    except AssertionError:  # lm-eval handles one \fbox only
        return None


@cache
def _grader(filter_name: str) -> tuple[Any, dict[str, Any]]:
    """Return an ensemble of filters and the keyword arguments of exact_match, from the installed
    package; only the first ``exact_match`` of the task is used."""
    folder = Path(library("lm_eval.tasks").__file__).parent
    task = library("lm_eval.tasks._yaml_loader").load_yaml(
        folder / _TASKS[filter_name], resolve_func=False
    )
    steps = next(entry["filter"] for entry in task["filter_list"] if entry["name"] == filter_name)
    parts = [
        (step["function"], {name: value for name, value in step.items() if name != "function"})
        for step in steps
    ]
    match = next(entry for entry in task["metric_list"] if entry["metric"] == "exact_match")
    options = {name: value for name, value in match.items() if name not in _OF_THE_METRIC}
    return library("lm_eval.filters").build_filter_ensemble(filter_name, parts), options
