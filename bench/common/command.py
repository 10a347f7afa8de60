"""The command line of a measurement, and the description of the machine in a result."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from bench.common.report import BenchReport, save

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
STARTED = datetime.now(UTC)
CPU = torch.device("cpu")


class Command(argparse.ArgumentParser):
    """``options``: by name, with the defaults of ``taking``."""

    def __init__(self, module: str, description: str | None, **options: Any) -> None:
        super().__init__(prog=f"python -m {module}", description=description)
        for name, default in options.items():
            self.add_argument(
                f"--{name.replace('_', '-')}", help="default: %(default)s", **taking(default)
            )
        out = Path(os.environ.get("OUT") or RESULTS)
        self.add_argument("--out", type=Path, default=out, help="folder of the result")

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        self.line = " ".join([self.prog, *(sys.argv[1:] if arguments is None else arguments)])
        self.options = self.parse_args(arguments)
        return self.options

    def save(self, report: BenchReport, name: str) -> str:
        """Writes the result as JSON and Markdown. Returns the Markdown."""
        device = torch.device(str(report.device))
        facts = {"command": f"`{self.line}`", **machine(device), **report.facts}
        path = self.options.out / f"{STARTED:%Y-%m-%d}-{name}-{device.type}"
        return save(replace(report, facts=facts), path)

    def finish(self, report: BenchReport, name: str) -> int:
        """Writes the result and prints it. The exit status: 1 for a report that failed."""
        sys.stdout.write(self.save(report, name))
        return int(report.failed)


def taking(default: Any) -> dict[str, Any]:
    """What an option takes: an integer of at least 1; one of the words of a tuple, the first by
    default; some of a list, all by default; else what has the type of the default."""
    match default:
        case int():
            return {"type": positive, "default": default}
        case tuple():
            return {"choices": default, "default": default[0]}
        case list():
            return {"choices": default, "default": default, "nargs": "+"}
    return {"type": type(default), "default": default}


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}; it must be 1 or more")
    return int(text)


@cache
def machine(device: torch.device) -> dict[str, str]:
    """Date, commit, hardware and versions."""
    name, cuda = _processor(), ""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
        cuda = f", CUDA {torch.version.cuda}"
    return {
        "date": f"{STARTED:%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "hardware": f"{name}, {torch.get_num_threads()} threads, device {device}",
        "versions": f"python {platform.python_version()}, torch {torch.__version__}{cuda}, transformers {transformers.__version__}",
    }


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    return (commit or "unknown") + (" with changes" if _git("status", "--porcelain") else "")


def _git(*arguments: str) -> str:
    if not shutil.which("git"):
        return ""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
