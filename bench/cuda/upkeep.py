"""What stays in memory after many runs, and what it takes to load a pair from disk, its trial included."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.common.report import Figure
from bench.common.shapes import Trio
from bench.coupled import save_models
from bench.cuda.trial import NOISE, Trial
from bench.memory import usage_by_run
from mars_core.models import ModelPool

RUNS, SETTLED = 50, 20  # runs, and those after which memory must not grow: every prompt with every drafter


def memory(trial: Trial) -> Iterator[Figure]:
    """Growth after the first runs, the drafters taking turns."""
    found = usage_by_run(trial.pair("qwen"), RUNS, trial.tokens, trial.drafters)
    first, last = found[SETTLED - 1], found[-1]
    for name in ("device", "reserved"):
        before, after = getattr(first, name), getattr(last, name)
        note = f"{before / 1e6:.1f} MB after {SETTLED} runs, {after / 1e6:.1f} MB after {RUNS}"
        kind = {"device": "allocated", "reserved": "reserved"}[name]
        yield Figure(f"growth of what is {kind} on the device", (after - before) / 1e6, "MB", note, most=0.0)
    grown = (last.resident - first.resident) / 1e6
    yield Figure("growth of the resident set", grown, "MB", f"{last.resident / 1e6:.0f} MB after {RUNS} runs")


def loading(trial: Trial) -> Iterator[Figure]:
    """A small pair: what is tried of it is what is tried of a large one."""
    small = trial.trio("qwen").draft
    with TemporaryDirectory() as folder:
        spec = save_models(Trio(small, replace(small, layers=8)), Path(folder), NOISE, trial.device, trial.dtype)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.safetensors"))
        pool = ModelPool(device=str(trial.device), dtype=str(trial.dtype).removeprefix("torch."), exact="on")
        started = time.perf_counter()
        pair = pool.get(spec)
        seconds = time.perf_counter() - started
    yield Figure("loading a pair", seconds, "s", f"{size / 1e9:.2f} GB, tried and prepared")
    note = "1: passes of one shape compute what the model computed before it was prepared"
    yield Figure("exact passes after loading", float(pair.exact), "", note, least=1.0)
