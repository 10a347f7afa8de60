"""The parts of the measurement, most important first: each is a separate process with its time
limit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import NamedTuple

import torch
from transformers.utils import logging as transformers_logging

from bench.batches import in_slots, together
from bench.common.command import CPU, ROOT
from bench.common.decoding import COMPARED, DRAFTERS, Differences
from bench.common.report import Figures, MeasuredFigure
from bench.cuda.coupled import prompts
from bench.cuda.speed import beside, speed, telemetry
from bench.cuda.trial import CudaTrial
from mars_core.decoder import ANY_SHAPE

# Warnings of other versions are not errors here; a file that cannot be imported does not stop the
# others.
COMMAND = (
    *("-m", "pytest", "-v", "-m", "cuda", "-p", "no:cacheprovider", "--tb=short"),
    *("-o", "filterwarnings=default", "--continue-on-collection-errors"),
)
_LINE = re.compile(r"^(tests/.*?) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
_UNREAD = re.compile(r"^ERROR (tests/\S+\.py)$", re.MULTILINE)


def tests(trial: CudaTrial) -> Figures:
    """Runs the tests marked cuda, without optional packages: counted line by line, so that tests
    count that ended before the time limit. The output of pytest goes to stderr. Raises SystemExit
    if pytest does not end with 0."""
    limit = max(1.0, trial.until - time.perf_counter())
    ended = subprocess.run(
        ["timeout", "--signal=KILL", str(limit), sys.executable, *COMMAND, *marked()],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    sys.stderr.write(ended.stdout)
    yield from outcomes(ended.stdout)
    if ended.returncode:
        raise SystemExit(f"The tests ended with {ended.returncode}.")


def marked() -> list[str]:
    """The files with such tests: collecting all others takes longer than running these."""
    files = sorted(ROOT.glob("tests/unit/mars_core/test_*.py"))
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    return [file for file, text in texts.items() if "pytest.mark.cuda" in text]


def outcomes(output: str) -> Figures:
    """``output``: of pytest."""
    names = defaultdict[str, list[str]](list)
    for name, outcome in _LINE.findall(output):
        names[outcome].append(name.rpartition("::")[2])
    failed, unread = names["FAILED"] + names["ERROR"], sorted({*_UNREAD.findall(output)})
    yield MeasuredFigure("tests failed", len(failed), note="; ".join(failed), most=0)
    yield MeasuredFigure("tests passed", len(names["PASSED"]), least=1)
    yield MeasuredFigure("tests skipped", len(names["SKIPPED"]))
    title, note = "files of tests that cannot be read", ", ".join(unread)
    yield MeasuredFigure(title, len(unread), note=note, most=0)


def texts(trial: CudaTrial) -> Figures:
    """How often strict's text differs from the target's, and a continued run's from the original's:
    with exact passes, where chains must never differ."""
    pair = trial.pair("qwen")
    for temperature, share in ((0.0, 0.5), (1.0, 1.0)):
        until, differences = trial.share(share), Differences()
        methods = {name: trial.ours(pair, name, temperature) for name in DRAFTERS}
        for seed, prompt in enumerate(prompts(trial.size.texts)):
            differences.add(methods, prompt, seed, continued=methods, repeated="n-grams")
            if time.perf_counter() > until:
                break
        where = f"T = {temperature:g}, {'exact' if pair.exact else 'free'} passes"
        for name, method in methods.items():
            most = 0.0 if pair.exact and method.drafter.tree is None else None
            counts = {
                "strict is not none": differences.strict[name],
                "continued is not the rest of the text": differences.continued[name],
            }
            for title, count in counts.items():
                if name != "none" or not title.startswith("strict"):
                    of = f"of {differences.texts} texts"
                    yield MeasuredFigure(f"{title}: {name}, {where}", count, of, most=most)


def many(trial: CudaTrial) -> Figures:
    """Batches of several sizes."""
    pair, size = trial.pair("qwen"), trial.size
    work = prompts(size.slots[-1])
    for at, name in enumerate(COMPARED):
        write = together(trial.ours(pair, name))
        until = trial.share(0.9 / (len(COMPARED) - at))  # a round under way ends later
        yield from in_slots(name, write, size.slots, work, size.rounds, {}, until)


class CudaPart(NamedTuple):
    measure: Callable[[CudaTrial], Iterator[MeasuredFigure]]
    limit_s: float
    title: str


def send(part: CudaPart, trial: CudaTrial, sender: Connection, log: str) -> None:
    """Sends every figure of a part when it is there; standard error goes to the file ``log``. Run
    in a process of its own, which cannot import a function of ``__main__``."""
    os.dup2(os.open(log, os.O_WRONLY), 2)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if trial.device == CPU:
        torch.set_num_threads(1)
    for figure in part.measure(trial):
        sender.send(figure)


_GRAPHS = partial(beside, figure="graphs / eager", graphs=False, least=1.5)
_EXACT = partial(beside, figure="exact / free passes", shapes=ANY_SHAPE, inexact="any shape")
PARTS: Mapping[str, CudaPart] = {
    "tests": CudaPart(tests, 150, "Tests marked cuda"),
    "qwen": CudaPart(partial(speed, key="qwen"), 75, "Shapes of Qwen3-0.6B → 4B"),
    "batches": CudaPart(many, 100, "Batches, 4B"),
    "graphs": CudaPart(_GRAPHS, 50, "Captured steps beside eager ones, 4B"),
    "texts": CudaPart(texts, 60, "Texts that are not the target's own, 4B"),
    "llama": CudaPart(partial(speed, key="llama"), 90, "Shapes of Llama-3.2-1B → 3.1-8B"),
    "exactness": CudaPart(_EXACT, 45, "What exact passes cost, 4B"),
    "meter": CudaPart(telemetry, 45, "What telemetry costs, 4B"),
}
