"""The command line of a measurement, and the facts about the machine that a result contains."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch
import transformers

from bench.common.report import Report, markdown, save

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"


class Command(argparse.ArgumentParser):
    """``counts``: options that take a number of at least 1, with their defaults."""

    def __init__(self, module: str, description: str | None, **counts: int) -> None:
        super().__init__(prog=f"python -m {module}", description=description)
        for name, default in counts.items():
            self.add_argument(f"--{name.replace('_', '-')}", type=positive, default=default, help=f"default: {default}")
        self.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
        self._given: Sequence[str] = ()

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        self._given = sys.argv[1:] if arguments is None else arguments
        return self.parse_args(arguments)

    @property
    def line(self) -> str:
        """The command as it was given."""
        return " ".join([self.prog, *self._given])

    def facts(self, device: torch.device) -> dict[str, str]:
        return {"command": f"`{self.line}`", **machine(device)}


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}; it must be 1 or more")
    return int(text)


def machine(device: torch.device) -> dict[str, str]:
    """Date, commit, hardware and versions."""
    name, cuda = _processor(), ""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        name, cuda = f"{found.name}, {found.total_memory / 2**30:.0f} GiB", f", CUDA {torch.version.cuda}"
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "hardware": f"{name}, {torch.get_num_threads()} threads, device {device}",
        "versions": f"python {platform.python_version()}, torch {torch.__version__}{cuda}, transformers {transformers.__version__}",
    }


def stem(folder: Path, name: str, device: str) -> Path:
    """The path of a result without its ending."""
    return folder / f"{datetime.now(UTC):%Y-%m-%d}-{name}-{device}"


def publish(report: Report, path: Path) -> int:
    """Writes the result beside ``path`` and to standard output. Returns the exit status 0."""
    save(report, path)
    sys.stdout.write(markdown(report))
    return 0


def _commit() -> str:
    git = ["git", "-C", str(ROOT)]
    commit = _output([*git, "rev-parse", "--short", "HEAD"])
    return (commit or "unknown") + (" with changes" if _output([*git, "status", "--porcelain"]) else "")


def _output(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
