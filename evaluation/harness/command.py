"""lm-eval's command with the model ``mars``, the tasks folder, and telemetry beside the
results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.harness import MISSING, MODEL, TASKS, register


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``lm_eval`` with these arguments. Exit status 2 for invalid options, with one sentence
    on standard error.

    lm-eval's parser reads and changes ``sys.argv``, so it is set here.
    """
    try:
        register()
        from lm_eval._cli import HarnessCLI
        from lm_eval.utils import setup_logging
    except (ValueError, ModuleNotFoundError):
        sys.stderr.write(f"{MISSING}\n")
        return 2
    from evaluation.harness.options import OptionError
    from mars_core.models import ModelError
    from storage import StorageError

    sys.argv = ["lm_eval", *(sys.argv[1:] if arguments is None else arguments)]
    setup_logging()
    parser = HarnessCLI()
    options = parser.parse_args()
    try:
        _complete(options)
        parser.execute(options)
    except (OptionError, ModelError, StorageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _complete(options: argparse.Namespace) -> None:
    """Adds the tasks folder to the user's own; for the model mars a name for the folder of its
    results, and telemetry into that folder.

    ``--config`` names a file; arguments override it.
    """
    if not hasattr(options, "include_path"):
        return
    import torch
    from lm_eval.config.evaluate_config import EvaluatorConfig
    from lm_eval.utils import sanitize_model_name

    from evaluation.harness.options import OptionError, read_options, refused

    path = getattr(options, "config", None)
    file: dict[str, Any] = dict(EvaluatorConfig.load_yaml_config(path)) if path else {}

    def given(name: str) -> Any:
        value = getattr(options, name, None)
        return file.get(name) if value is None else value

    folders = given("include_path") or ()
    options.include_path = [str(TASKS), *([folders] if isinstance(folders, str) else folders)]
    if given("model") != MODEL:
        return
    for name, allowed in (("limit", "more than 0"), ("num_fewshot", "0 or more")):
        value = given(name)
        fits = isinstance(value, int | float) and (value > 0 or (value == 0 and name != "limit"))
        if value is not None and not fits:
            raise OptionError(f"{name} is {value}; it must be a number, {allowed}.")
    arguments: dict[str, Any] = dict(given("model_args") or {})
    read = read_options(arguments)  # checked before lm-eval looks for its tasks
    with refused():
        target = arguments.get("target") or arguments.get("pretrained") or read.settings.spec().key
    # lm-eval names the results folder after ``model``, and invents a name if it is missing.
    arguments.setdefault("model", f"{target}_{arguments.get('rule', MODEL)}")
    if (output := given("output_path")) and "telemetry" not in arguments:
        folder, name = Path(output), sanitize_model_name(str(arguments["model"]))
        arguments["telemetry"] = str(folder.parent if folder.suffix == ".json" else folder / name)
    options.model_args = arguments
    # lm-eval's default is cuda:0 on every machine, and it is written into the results.
    here = "cuda:0" if torch.cuda.is_available() else "cpu"
    options.device = arguments.get("device") or given("device") or here
