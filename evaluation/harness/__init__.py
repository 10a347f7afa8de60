"""lm-eval with this engine: the model ``mars``, and the tasks of the bundled pair. ``register``
registers both with lm-eval.

Importing this package imports no lm-eval; ``register``, ``command`` and ``model`` need it (the
extra eval).
"""

from __future__ import annotations

from pathlib import Path

MODEL = "mars"
TASKS = Path(__file__).parent.parent / "tasks"  # lm-eval's --include_path
MISSING = "This command needs lm-eval: install the extra eval (make eval in a checkout)"


def register() -> None:
    """Make ``lm_eval.simple_evaluate(model="mars", …)`` work in this process; the model itself is
    imported when lm-eval needs it.

    Raises ValueError where lm-eval is not installed.
    """
    try:
        import lm_eval.models  # noqa: F401  (lm-eval registers its models only where there is none)
        from lm_eval.api.registry import model_registry
    except ModuleNotFoundError:
        raise ValueError(MISSING) from None
    if MODEL not in model_registry:
        model_registry.register(MODEL, target="evaluation.harness.model:MarsLM")
