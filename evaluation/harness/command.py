"""lm-eval's own command with the model ``mars``, the tasks folder, and telemetry beside the results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.harness import MISSING, MODEL, TASKS, register


def main(arguments: Sequence[str]) -> int:
    """Runs ``lm_eval`` with these arguments. Exit status 2 for invalid options, with one sentence on standard error.

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

    sys.argv = ["lm_eval", *arguments]
    setup_logging()
    parser = HarnessCLI()
    options = parser.parse_args()
    try:
        _complete(options)
        parser.execute(options)
    except (OptionError, ModelError, StorageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    finally:
        _close_processes()
    return 0


def _complete(options: argparse.Namespace) -> None:
    """Adds the tasks folder to the user's own; for the model mars a name for the folder of its results, and telemetry into that folder."""
    if not hasattr(options, "include_path"):
        return
    file = _file(options)
    given = options.include_path or file.get("include_path")
    options.include_path = [str(TASKS), *([given] if isinstance(given, str) else given or ())]
    if (getattr(options, "model", None) or file.get("model")) == MODEL:
        options.model_args = _named(dict(options.model_args or file.get("model_args") or {}), options, file)
        options.device = options.model_args.get("device") or options.device or file.get("device") or _device()


def _file(options: argparse.Namespace) -> dict[str, Any]:
    """The contents of ``--config``; command-line arguments override them."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

    path = getattr(options, "config", None)
    return dict(EvaluatorConfig.load_yaml_config(path)) if path else {}


def _named(given: dict[str, Any], options: argparse.Namespace, file: dict[str, Any]) -> dict[str, Any]:
    """The model's arguments, checked before lm-eval looks for its tasks.

    lm-eval names the results folder after ``model``, and invents a name if it is missing.
    """
    from lm_eval.utils import sanitize_model_name

    from evaluation.harness.options import read_options

    read_options(given)
    target = given.get("target") or given.get("pretrained") or given.get("pair", "bundled")
    given.setdefault("model", f"{target}_{given.get('rule', MODEL)}")
    output = options.output_path or file.get("output_path")
    if output and "telemetry" not in given:
        path, name = Path(output), sanitize_model_name(str(given["model"]))
        given["telemetry"] = str(path.parent if path.suffix == ".json" else path / name)
    return given


def _device() -> str:
    """lm-eval's default is cuda:0 on every machine, and it is written into the results."""
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


def _close_processes() -> None:
    """Destroys the process group, if there is one."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
