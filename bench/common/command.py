"""The command line of a measurement, and the description of the machine in a result."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import transformers

from bench.common.report import Report, save

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
STARTED = datetime.now(UTC)
CPU = torch.device("cpu")
Measure = Callable[[argparse.Namespace], Report | Iterable[Report]]


class Command(argparse.ArgumentParser):
    """``options``: by name, with the defaults of ``taking``."""

    def __init__(self, module: str, description: str | None, **options: Any) -> None:
        super().__init__(prog=f"python -m {module}", description=description)
        for name, default in options.items():
            self.add_argument(
                f"--{name.replace('_', '-')}", help="default: %(default)s", **taking(default)
            )
        self.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        self.line = " ".join([self.prog, *(sys.argv[1:] if arguments is None else arguments)])
        self.options = self.parse_args(arguments)
        return self.options

    def save(self, report: Report, name: str) -> str:
        """Writes the result as JSON and Markdown. Returns the Markdown."""
        device = torch.device(str(report.device))
        facts = {"command": f"`{self.line}`", **machine(device), **report.facts}
        path = self.options.out / f"{STARTED:%Y-%m-%d}-{name}-{device.type}"
        return save(replace(report, facts=facts), path)


def taking(default: Any) -> dict[str, Any]:
    """What an option takes: a whole number of at least 1, or (default, minimum); one of the words
    of a tuple, the first by default; some of a list, all by default; else what has the type of the
    default."""
    match default:
        case (int(first), int(least)):
            return {"type": partial(at_least, least), "default": first}
        case int():
            return {"type": partial(at_least, 1), "default": default}
        case tuple():
            return {"choices": default, "default": default[0]}
        case list():
            return {"choices": default, "default": default, "nargs": "+"}
    return {"type": type(default), "default": default}


def measurement(name: str, **options: Any) -> Callable[[Measure], Callable[..., int]]:
    """Makes a function of the ``options`` the ``main`` of its module, and calls that where the
    module is run. What the function gives is written, each of several reports in the place of the
    one before, and the last one printed. ``name``: of the files, with names of options in braces.
    The exit status is 1 for a report that failed."""

    def decorated(measure: Measure) -> Callable[..., int]:
        module = measure.__globals__

        def main(arguments: Sequence[str] | None = None) -> int:
            command = Command(
                module["__spec__"].name.removesuffix(".__main__"), module["__doc__"], **options
            )
            found = measure(command.read(arguments))
            for report in [found] if isinstance(found, Report) else found:
                text = command.save(report, name.format(**vars(command.options)))
            sys.stdout.write(text)
            return int(report.failed)

        if measure.__module__ == "__main__":
            sys.exit(main())
        return main

    return decorated


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
        name, cuda = (
            f"{found.name}, {found.total_memory / 2**30:.0f} GiB",
            f", CUDA {torch.version.cuda}",
        )
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
    found = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if shutil.which("git")
        else ""
    )
    return found.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
