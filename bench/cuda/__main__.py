"""``python -m bench.cuda``: all parts in turn, each in a separate process; the result is written
after each.

Exit status 2 without a CUDA device. ``--tiny`` rehearses it with tiny models on the CPU.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import torch

from bench.common.command import CPU, Options, Reports, measurement
from bench.common.report import (
    BenchReport,
    MeasuredFigure,
    ResultTable,
    figure_table,
    figure_values,
)
from bench.cuda.parts import PARTS, CudaPart, send
from bench.cuda.trial import FULL, TINY, CudaTrial

TOTAL = 500.0  # seconds of all parts; a part with less than MIN_SECONDS left is not started
MIN_SECONDS = 15.0
PATIENCE = 4  # times the limits in a rehearsal, whose machine is slower and shared
GRACE = 5.0  # seconds for a part to send its last figures after its time limit
LOG = 20_000  # characters of the end of a part's log


class PartOutcome(NamedTuple):
    """The result of one part. ``status``: done, or what went wrong; ``log``: the end of its
    standard error."""

    name: str
    title: str
    status: str
    seconds: float
    figures: Sequence[MeasuredFigure] = ()
    log: str = ""


@measurement("bench.cuda", __doc__, only=[*PARTS], tiny=False)
def main(options: Options) -> Reports:
    tiny, outcomes = options.tiny, list[PartOutcome]()
    if not tiny and not torch.cuda.is_available():
        sys.stderr.write(
            "No CUDA device was found; --tiny (make cuda TINY=1) rehearses this measurement on the "
            "CPU.\n"
        )
        raise SystemExit(2)
    patience, started = PATIENCE if tiny else 1, time.perf_counter()
    device = CPU if tiny else torch.device("cuda", torch.cuda.current_device())
    for name in options.only:
        part, now = PARTS[name], time.perf_counter()
        seconds = min(part.limit_s * patience, started + TOTAL * patience - now)
        outcome = PartOutcome(name, part.title, "not begun: no time was left", 0.0)
        if seconds >= MIN_SECONDS:
            trial = CudaTrial(device, TINY if tiny else FULL, now + seconds - GRACE)
            outcome = attempted(name, part, trial, seconds)
        outcomes.append(outcome)
        sys.stdout.write(f"{outcome.title}: {outcome.status}, {outcome.seconds:.0f} s\n")
        sys.stdout.flush()
        yield report(tiny, outcomes)._replace(device=device)


def attempted(name: str, part: CudaPart, trial: CudaTrial, seconds: float) -> PartOutcome:
    """The outcome of a part in a process of its own, which is killed after ``seconds``."""
    started, figures = time.perf_counter(), list[MeasuredFigure]()
    spawning = multiprocessing.get_context("spawn")
    receiver, sender = spawning.Pipe(duplex=False)

    def left() -> float:
        return max(0.0, started + seconds - time.perf_counter())

    with NamedTemporaryFile() as log:
        process = spawning.Process(target=send, args=(part, trial, sender, log.name))
        process.start()
        sender.close()
        with suppress(EOFError):
            while receiver.poll(left()):
                figures.append(receiver.recv())
        process.join(left())
        status = "done" if process.exitcode == 0 else f"failed: it ended with {process.exitcode}"
        if process.exitcode is None:
            process.kill()
            process.join()
            status = f"stopped after {seconds:.0f} s"
        written = Path(log.name).read_text(encoding="utf-8", errors="replace")[-LOG:]
    took = time.perf_counter() - started
    return PartOutcome(name, part.title, status, took, figures, written)


def report(tiny: bool, outcomes: Sequence[PartOutcome]) -> BenchReport:
    """The goals, then every part, with the log of failed ones."""
    where = "a CPU: tiny shapes, no number means anything" if tiny else "a GPU"
    goals = [
        one._replace(name=f"{each.title}: {one.name}")
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
    parts = [each._asdict() | {"figures": figure_values(each.figures)} for each in outcomes]
    return BenchReport(
        f"Random models on {where}",
        notes,
        goals,
        [ResultTable(("part", "took, s", "status"), rows, "Parts"), *map(_part, outcomes)],
        {"tiny": tiny, "parts": parts},
        failed=any(each.status != "done" for each in outcomes),
        name=f"cuda{'-tiny' * tiny}",
    )


def _part(outcome: PartOutcome) -> ResultTable:
    text = [] if outcome.figures else ["Nothing was measured."]
    if outcome.status != "done" and outcome.log:
        text += ["", "```", *outcome.log.replace("```", "'''").splitlines()[-30:], "```"]
    return figure_table(outcome.figures, outcome.title, text)


if __name__ == "__main__":
    raise SystemExit(main())
