"""The field's libraries that grade: imported when they are needed, and missed with one sentence."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

INSTALL = "pip install -r requirements-eval.txt"
_PACKAGES = {"lm_eval": "lm-eval", "rouge_score": "rouge-score"}  # where the name differs from the module's


def library(module: str) -> Any:
    """The module of that name. Raises ValueError where its package, or one that it needs, is not installed."""
    package = module.partition(".")[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of their own code, at import
            return importlib.import_module(module)
    except ImportError as error:
        name = _PACKAGES.get(package, package)
        why = "" if error.name == package else f" ({error})"
        raise ValueError(f"Scoring these suites needs {name}{why}: {INSTALL}") from None
