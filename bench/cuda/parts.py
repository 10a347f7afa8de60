"""The parts of the measurement, most important first: each is a separate process with its time
limit."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, product
from typing import NamedTuple

import psutil
import torch

from bench.batches import batches
from bench.common.command import ROOT
from bench.common.decoding import Differences, any_shape, complete, config_of
from bench.common.report import MeasuredFigure
from bench.coupled import prompts
from bench.cuda.speed import exactness, graphs, speed, telemetry
from bench.cuda.trial import CudaTrial
from mars_core.models import Pair
from mars_core.types import PromptConfig

RUNS, SETTLED = (
    50,
    20,
)  # runs, and warm-up runs (every prompt with every drafter) after which memory must not grow
# Warnings of other versions are not errors here; a file that cannot be imported does not stop the
# others.
COMMAND = (
    "-m",
    "pytest",
    "-v",
    "-m",
    "cuda",
    "-p",
    "no:cacheprovider",
    "-o",
    "filterwarnings=default",
    "--continue-on-collection-errors",
    "--tb=short",
)
_LINE = re.compile(r"^(tests/.*?) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
_UNREAD = re.compile(r"^ERROR (tests/\S+\.py)$", re.MULTILINE)


def tests(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    """Runs the tests marked cuda, without optional packages: counted line by line, so that tests
    count that ended before the time limit. The output of pytest goes to stderr. Raises SystemExit
    if pytest does not end with 0."""
    process = subprocess.Popen(
        [sys.executable, *COMMAND, *marked()],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=max(1.0, trial.until - time.perf_counter()))
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        yield MeasuredFigure("the tests' time is up", 1, "", most=0)
    sys.stderr.write(output)
    yield from outcomes(output)
    if process.returncode:
        raise SystemExit(1)


def marked() -> list[str]:
    """The files with such tests: collecting all others takes longer than running these."""
    files = sorted((ROOT / "tests" / "unit" / "mars_core").glob("test_*.py"))
    return [
        str(file.relative_to(ROOT))
        for file in files
        if "pytest.mark.cuda" in file.read_text(encoding="utf-8")
    ]


def outcomes(output: str) -> Iterator[MeasuredFigure]:
    """``output``: of pytest."""
    counts = Counter(outcome for _, outcome in _LINE.findall(output))
    failed = [name for name, outcome in _LINE.findall(output) if outcome in ("FAILED", "ERROR")]
    names = "; ".join(name.rpartition("::")[2] for name in failed[:5]) + (
        "; …" if len(failed) > 5 else ""
    )
    yield MeasuredFigure("tests failed", counts["FAILED"] + counts["ERROR"], "", names, most=0)
    yield MeasuredFigure("tests passed", counts["PASSED"], "", least=1)
    yield MeasuredFigure("tests skipped", counts["SKIPPED"])
    unread = sorted(set(_UNREAD.findall(output)))
    yield MeasuredFigure(
        "files of tests that cannot be read", len(unread), "", ", ".join(unread), most=0
    )


def texts(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    """How often strict's text differs from the target's, and a continued run's from the original's:
    with exact passes, where chains must never differ, then with passes of any shape."""
    pair, cases = trial.pair("qwen"), list(product((True, False), (0.0, 1.0)))
    for at, (exact, temperature) in enumerate(cases):
        share = trial.share(1 / (len(cases) - at))
        yield from _counted(trial, pair if exact else any_shape(pair), temperature, share)


def _counted(
    trial: CudaTrial, pair: Pair, temperature: float, until: float
) -> Iterator[MeasuredFigure]:
    methods, differences = (
        {name: trial.ours(pair, name, temperature) for name in trial.drafters},
        Differences(),
    )
    for seed, prompt in enumerate(prompts(trial.size.texts)):
        differences.add(methods, prompt, seed, continued=methods, repeated="n-grams")
        if time.perf_counter() > until:
            break
    where, count = (
        f"T = {temperature:g}, {'exact' if pair.exact else 'free'} passes",
        f"of {differences.texts} texts",
    )
    for name, drafter in trial.drafters.items():
        most = 0.0 if pair.exact and drafter.tree is None else None
        if name != "none":
            yield MeasuredFigure(
                f"strict is not none: {name}, {where}", differences.strict[name], count, most=most
            )
        yield MeasuredFigure(
            f"continued is not the rest of the text: {name}, {where}",
            differences.continued[name],
            count,
            most=most,
        )


def memory(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    """Growth after the first runs, with alternating drafters and prompts, after a garbage
    collection; what is on a device is 0 without CUDA."""
    pair, readings = trial.pair("qwen"), dict[int, tuple[int, ...]]()
    counters: Mapping[str, Callable[[], int]] = {
        "growth of what is allocated on the device": torch.cuda.memory_allocated,
        "growth of what is reserved on the device": torch.cuda.memory_reserved,
        "growth of the resident set": lambda: int(psutil.Process().memory_info().rss),
    }
    turns = zip(range(1, RUNS + 1), cycle(pair.spec.prompts), cycle(trial.drafters.values()))
    for run, text, drafter in turns:
        config = config_of(pair, PromptConfig(text), drafter, 1.0, trial.size.tokens, run)
        complete(pair, config)
        gc.collect()
        readings[run] = tuple(bytes_of() for bytes_of in counters.values())
    for name, before, after in zip(counters, readings[SETTLED], readings[RUNS], strict=True):
        note = f"{before / 1e6:.1f} MB after {SETTLED} runs, {after / 1e6:.1f} MB after {RUNS}"
        most = 0.0 if name.endswith("device") else None
        yield MeasuredFigure(name, (after - before) / 1e6, "MB", note, most=most)


def many(trial: CudaTrial) -> Iterator[MeasuredFigure]:
    """Batches of several sizes."""
    pair, slots = trial.pair("qwen"), (1, 2) if trial.tiny else (1, 4, 16)
    methods = {
        name: trial.ours(pair, name)
        for name in ("none", "draft model", "EAGLE-3 chain", "EAGLE-3 tree")
    }
    texts = prompts(slots[-1])
    yield from batches(methods, slots, texts, trial.size.rounds, until=trial.until - 5)


class CudaPart(NamedTuple):
    measure: Callable[[CudaTrial], Iterator[MeasuredFigure]]
    limit_s: float
    title: str


PARTS: Mapping[str, CudaPart] = {
    "tests": CudaPart(tests, 150, "Tests marked cuda"),
    "qwen": CudaPart(partial(speed, key="qwen"), 75, "Shapes of Qwen3-0.6B → 4B"),
    "batches": CudaPart(many, 100, "Batches, 4B"),
    "graphs": CudaPart(graphs, 50, "Captured steps beside eager ones, 4B"),
    "texts": CudaPart(texts, 60, "Texts that are not the target's own, 4B"),
    "llama": CudaPart(partial(speed, key="llama"), 90, "Shapes of Llama-3.2-1B → 3.1-8B"),
    "memory": CudaPart(memory, 45, "Memory after 50 runs, 4B"),
    "exactness": CudaPart(exactness, 45, "What exact passes cost, 4B"),
    "meter": CudaPart(telemetry, 45, "What telemetry costs, 4B"),
}
