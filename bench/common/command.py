"""The command line of a measurement, and the description of the machine in a result."""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from bench.common.report import BenchReport, ResultTable, save

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
STARTED = datetime.now(UTC)
CPU = torch.device("cpu")

Options = argparse.Namespace
Reports = Iterator[BenchReport]
Measure = Callable[[Options], Reports]
Main = Callable[..., int]  # of the arguments, by default those of the process


def measurement(module: str, description: str | None, **options: Any) -> Callable[[Measure], Main]:
    """Makes a function that yields reports the command of ``module``. Each is written as Markdown
    and JSON when it is there, the last one printed; the exit status is 1 if that one failed.
    ``options``: by name, with the defaults of ``taking``."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, help="default: %(default)s", **taking(default))
    out = Path(os.environ.get("OUT") or RESULTS)
    parser.add_argument("--out", type=Path, default=out, help="folder of the result")

    def command(measure: Measure) -> Main:
        def main(arguments: Sequence[str] | None = None) -> int:
            given = sys.argv[1:] if arguments is None else arguments
            chosen, text, failed = parser.parse_args(given), "", False
            line = " ".join([parser.prog, *given])
            for report in measure(chosen):
                device = torch.device(str(report.device))
                facts = {"command": f"`{line}`", **machine(device), **report.facts}
                name = report.name or module.rpartition(".")[2]
                path = chosen.out / f"{STARTED:%Y-%m-%d}-{name}-{device.type}"
                text, failed = save(report._replace(facts=facts), path), report.failed
            sys.stdout.write(text)
            return int(failed)

        return main

    return command


def taking(default: Any) -> dict[str, Any]:
    """Return what an option takes: nothing, for one that is off; an integer of at least 1; one of
    the words of a tuple, the first by default; some of a list, all by default; else what has the
    type of the default."""
    match default:
        case bool():
            return {"action": "store_true"}
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


def collected(
    variable: str, command: str, title: str, facts: Callable[[], dict[str, str]]
) -> Iterator[list[ResultTable]]:
    """Yield a list for tables, which are written as JSON and Markdown at the end where the
    environment names a file."""
    tables: list[ResultTable] = []
    yield tables
    if path := os.environ.get(variable):
        about = {"command": command, **machine(CPU), **facts()}
        data = {
            table.title: [dict(zip(table.heads, row, strict=True)) for row in table.rows]
            for table in tables
        }
        save(BenchReport(title, tables=tables, data=data, facts=about), Path(path))


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
    command = ["git", "describe", "--always", "--exclude=*", "--dirty= with changes"]
    try:
        return subprocess.check_output(
            command, cwd=ROOT, stderr=subprocess.DEVNULL, text=True
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8") if info.exists() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", lines, re.MULTILINE)
    return named[1] if named else platform.machine()
