"""The command line of a measurement, and the description of the machine in a result."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import torch
import transformers

from bench.common.report import Report, save

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
STARTED = datetime.now(UTC)
CPU = torch.device("cpu")


class Command(argparse.ArgumentParser):
    """``counts``: options for numbers of at least 1, with their defaults; or (default, minimum)."""

    def __init__(self, module: str, description: str | None, **counts: int | tuple[int, int]) -> None:
        super().__init__(prog=f"python -m {module}", description=description)
        for name, count in counts.items():
            default, least = count if isinstance(count, tuple) else (count, 1)
            kind = partial(at_least, least)
            self.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=f"default: {default}")
        self.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        self.line = " ".join([self.prog, *(sys.argv[1:] if arguments is None else arguments)])
        self.options = self.parse_args(arguments)
        return self.options

    def path(self, name: str, device: torch.device = CPU) -> Path:
        """The path of a result without its ending."""
        folder: Path = self.options.out
        return folder / f"{STARTED:%Y-%m-%d}-{name}-{device.type}"

    def save(self, report: Report, name: str, device: torch.device = CPU) -> str:
        """Writes the result as JSON and Markdown. Returns the Markdown."""
        facts = {"command": f"`{self.line}`", **machine(device), **report.facts}
        return save(replace(report, facts=facts), self.path(name, device))

    def publish(self, report: Report, name: str, device: torch.device = CPU) -> int:
        """Writes the result, also to standard output. Returns the exit status 0."""
        sys.stdout.write(self.save(report, name, device))
        return 0


def at_least(least: int, text: str) -> int:
    if int(text) < least:
        raise argparse.ArgumentTypeError(f"{text}; it must be {least} or more")
    return int(text)


@cache
def machine(device: torch.device) -> dict[str, str]:
    """Date, commit, hardware and versions."""
    name, cuda = _processor(), ""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        name, cuda = f"{found.name}, {found.total_memory / 2**30:.0f} GiB", f", CUDA {torch.version.cuda}"
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
    command = ["git", "-C", str(ROOT), *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout if shutil.which("git") else ""
    return found.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
