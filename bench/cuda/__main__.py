"""``python -m bench.cuda``: all parts one after the other, each in a process of its own; what is known is written after each.

Ends with 2 where there is no CUDA device. ``--tiny`` rehearses all of it on the CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from bench.cuda.parts import PARTS
from bench.cuda.rehearsal import without_graphs
from bench.cuda.report import LOG, Document, Outcome, dump, markdown
from bench.cuda.suite import ROOT
from bench.cuda.trial import Figure, Trial
from bench.machine import RESULTS, machine, stem

TOTAL = 500.0  # seconds of all parts; a part that could not have LEAST of them is not begun
LEAST = 15.0
PATIENCE = 4  # times longer may all take in a rehearsal, whose machine has other things to do
GRACE = 5.0  # seconds that a part may take to write after it was to end


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if not options.tiny and not torch.cuda.is_available():
        sys.stderr.write("No CUDA device was found; --tiny (make cuda TINY=1) rehearses this measurement on the CPU.\n")
        return 2
    if options.part:
        _measure(options)
        return 0
    device = torch.device("cpu" if options.tiny else "cuda")
    path = stem(options.out, f"cuda{'-tiny' * options.tiny}", device.type)
    said = " ".join(["python -m bench.cuda", *(sys.argv[1:] if arguments is None else arguments)])
    about, outcomes = machine(device), list[Outcome]()
    for outcome in measured(options):
        outcomes.append(outcome)
        sys.stdout.write(f"{outcome.title}: {outcome.status}, {outcome.seconds:.0f} s\n")
        sys.stdout.flush()
        document = Document(said, options.tiny, about, outcomes)
        path.with_suffix(".json").write_text(dump(document), encoding="utf-8")
        path.with_suffix(".md").write_text(markdown(document), encoding="utf-8")
    sys.stdout.write("\n" + path.with_suffix(".md").read_text(encoding="utf-8"))
    return 0 if all(outcome.status == "done" for outcome in outcomes) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cuda", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="tiny shapes on the CPU: a rehearsal")
    parser.add_argument("--only", nargs="*", choices=tuple(PARTS), default=tuple(PARTS), help="these parts alone")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or RESULTS))
    parser.add_argument("--part", choices=tuple(PARTS), help="measure this part here: a line of JSON for each figure")
    parser.add_argument("--until", type=float, default=math.inf, help="when that is to be over, in seconds since 1970")
    return parser.parse_args(arguments)


def measured(options: argparse.Namespace) -> Iterator[Outcome]:
    """Every part in turn."""
    patience = PATIENCE if options.tiny else 1
    end = time.perf_counter() + TOTAL * patience
    for name in options.only:
        seconds = min(PARTS[name].limit_s * patience, end - time.perf_counter())
        if seconds < LEAST:
            yield Outcome(name, PARTS[name].title, "not begun: no time was left", 0.0)
            continue
        until = f"{time.time() + seconds - GRACE:.1f}"
        command = [sys.executable, "-m", "bench.cuda", "--part", name, "--until", until]
        yield attempted(name, PARTS[name].title, [*command, *(["--tiny"] if options.tiny else [])], seconds)


def attempted(name: str, title: str, command: Sequence[str], seconds: float) -> Outcome:
    """What ``command`` answers in its own group of processes, which is killed when its time is up."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=answer, stderr=log, start_new_session=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        try:
            code = process.wait(seconds)
            status = "done" if code == 0 else f"failed: it ended with {code}"
        except subprocess.TimeoutExpired:
            status = f"stopped after {seconds:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        answer.seek(0)
        log.seek(0)
        figures = tuple(_figures(answer.read()))
        return Outcome(name, title, status, time.perf_counter() - started, figures, log.read()[-LOG:])


def _figures(answer: str) -> Iterator[Figure]:
    """Of whole lines: the last one of a process that was killed may not be."""
    for line in answer.split("\n")[:-1]:
        with suppress(ValueError, TypeError):
            yield Figure(**json.loads(line))


def _measure(options: argparse.Namespace) -> None:
    """One part, in this process."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if options.tiny:
        torch.set_num_threads(1)
        without_graphs()
    device = torch.device("cpu") if options.tiny else torch.device("cuda", torch.cuda.current_device())
    trial = Trial(device, options.tiny, time.perf_counter() + options.until - time.time())
    for figure in PARTS[options.part].measure(trial):
        sys.stdout.write(json.dumps(asdict(figure)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
