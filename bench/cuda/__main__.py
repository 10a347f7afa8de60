"""``python -m bench.cuda``: all parts in turn, each in a separate process; the result is written
after each.

Exit status 2 without a CUDA device. ``--tiny`` rehearses it on the CPU.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import torch
from transformers.utils import logging as transformers_logging

from bench.common.command import ROOT, Command
from bench.common.report import (
    BenchReport,
    MeasuredFigure,
    ResultTable,
    figure_table,
    figure_values,
)
from bench.cuda.parts import PARTS
from bench.cuda.trial import CudaTrial, without_graphs

TOTAL = 500.0  # seconds of all parts; a part with less than MIN_SECONDS left is not started
MIN_SECONDS = 15.0
PATIENCE = 4  # times the limits in a rehearsal, whose machine is slower and shared
GRACE = 5.0  # seconds for a part to write its result after its time limit
LOG = 20_000  # characters of the end of a part's log


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """The result of one part. ``status``: done, or what went wrong; ``log``: the end of its
    standard error."""

    name: str
    title: str
    status: str
    seconds: float
    figures: Sequence[MeasuredFigure] = ()
    log: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    command = Command("bench.cuda", __doc__, only=[*PARTS], until=math.inf)
    command.add_argument("--tiny", action="store_true", help="tiny shapes on the CPU: a rehearsal")
    command.add_argument(
        "--part",
        choices=tuple(PARTS),
        help="measure this part here: a line of JSON for each figure",
    )
    options = command.read(arguments)
    if not options.tiny and not torch.cuda.is_available():
        sys.stderr.write(
            "No CUDA device was found; --tiny (make cuda TINY=1) rehearses this measurement on the "
            "CPU.\n"
        )
        return 2
    device = (
        torch.device("cpu") if options.tiny else torch.device("cuda", torch.cuda.current_device())
    )
    if options.part:
        return _measure(
            options.part,
            CudaTrial(device, options.tiny, time.perf_counter() + options.until - time.time()),
        )
    outcomes, text = list[PartOutcome](), ""
    for outcome in measured(options.only, options.tiny):
        outcomes.append(outcome)
        sys.stdout.write(f"{outcome.title}: {outcome.status}, {outcome.seconds:.0f} s\n")
        sys.stdout.flush()
        text = command.save(
            replace(report(options.tiny, outcomes), device=device), f"cuda{'-tiny' * options.tiny}"
        )
    sys.stdout.write(f"\n{text}")
    return 0 if all(outcome.status == "done" for outcome in outcomes) else 1


def measured(names: Sequence[str], tiny: bool) -> Iterator[PartOutcome]:
    """Every part in turn."""
    patience = PATIENCE if tiny else 1
    end = time.perf_counter() + TOTAL * patience
    for name in names:
        seconds = min(PARTS[name].limit_s * patience, end - time.perf_counter())
        if seconds < MIN_SECONDS:
            yield PartOutcome(name, PARTS[name].title, "not begun: no time was left", 0.0)
            continue
        until = f"{time.time() + seconds - GRACE:.1f}"
        command = [sys.executable, "-m", "bench.cuda", "--part", name, "--until", until]
        yield attempted(name, PARTS[name].title, [*command, *["--tiny"] * tiny], seconds)


def attempted(name: str, title: str, command: Sequence[str], seconds: float) -> PartOutcome:
    """The outcome of ``command`` in a process group of its own, which is killed after the time limit."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        answer, log = process.communicate(timeout=seconds)
        status = (
            "done" if process.returncode == 0 else f"failed: it ended with {process.returncode}"
        )
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        answer, log = process.communicate()
        status = f"stopped after {seconds:.0f} s"
    return PartOutcome(
        name, title, status, time.perf_counter() - started, tuple(_figures(answer)), log[-LOG:]
    )


def _figures(answer: str) -> Iterator[MeasuredFigure]:
    """Figures of complete lines: the last line of a killed process may be incomplete."""
    for line in answer.split("\n")[:-1]:
        with suppress(ValueError, TypeError, AttributeError):
            read = json.loads(line)
            yield MeasuredFigure(**read | {"samples": tuple(read.get("samples", ()))})


def _measure(name: str, trial: CudaTrial) -> int:
    """Runs one part in this process."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if trial.tiny:
        torch.set_num_threads(1)
        without_graphs()
    for figure in PARTS[name].measure(trial):
        sys.stdout.write(json.dumps(asdict(figure)) + "\n")
        sys.stdout.flush()
    return 0


def report(tiny: bool, outcomes: Sequence[PartOutcome]) -> BenchReport:
    """The goals, then every part, with the log of failed ones."""
    where = "a CPU: tiny shapes, no number means anything" if tiny else "a GPU"
    goals = [
        replace(one, name=f"{each.title}: {one.name}")
        for each in outcomes
        for one in each.figures
        if one.goal
    ]
    notes = [
        "bfloat16; captured steps and exact passes, where not stated otherwise; a lower bound is "
        "the weights' bytes over the bandwidth",
        f"{sum(bool(one.reached) for one in goals)} of {len(goals)} goals reached",
    ]
    rows = [(each.title, f"{each.seconds:.0f}", each.status) for each in outcomes]
    parts = [asdict(each) | {"figures": figure_values(each.figures)} for each in outcomes]
    tables = [ResultTable(("part", "took, s", "status"), rows, "Parts"), *map(_part, outcomes)]
    return BenchReport(
        f"Random models on {where}", notes, goals, tables, {"tiny": tiny, "parts": parts}
    )


def _part(outcome: PartOutcome) -> ResultTable:
    text = [] if outcome.figures else ["Nothing was measured."]
    if outcome.status != "done" and outcome.log:
        text += ["", "```", *outcome.log.replace("```", "'''").splitlines()[-30:], "```"]
    return figure_table(outcome.figures, outcome.title, text)


if __name__ == "__main__":
    sys.exit(main())
