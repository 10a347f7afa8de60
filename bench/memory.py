"""``python -m bench.memory``: memory growth over many runs, and the peak of a single run for
``bench.growth``."""

from __future__ import annotations

import gc
import re
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median

import psutil
import torch

from bench.common.command import measurement
from bench.common.decoding import DRAFTERS, bundled, complete, config_of
from bench.common.report import Figure, Report, Table
from mars_core.models import Pair
from mars_core.types import DrafterConfig, PromptConfig

FIRST, LAST = (
    slice(20, 40),
    slice(-20, None),
)  # runs that are compared: every drafter as often in both
MIN_RUNS = 60  # runs: so many that the two slices do not overlap
MAX_DRIFT = 2.0  # per cent, either way
LOOK_S = 0.005  # between two looks at the resident set


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of the process after a run and a garbage collection, in bytes; on a device allocated
    and reserved, 0 without CUDA."""

    resident: int
    device: int = 0
    reserved: int = 0


def peak_above(device: torch.device, run: Callable[[], object]) -> int:
    """Peak bytes of ``run`` above those before it: allocated on CUDA, elsewhere resident (Linux
    only)."""
    gc.collect()
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        return int(torch.cuda.max_memory_allocated(device)) - before
    Path("/proc/self/clear_refs").write_text(
        "5", encoding="ascii"
    )  # resets the kernel's high-water mark
    before = _high_water()
    run()
    return _high_water() - before


def _high_water() -> int:
    """The largest resident set of this process, in bytes; ru_maxrss would start with that of the
    parent process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return 1024 * int(found.group(1))


def halves(run: Callable[[], object]) -> tuple[float, float]:
    """Median bytes resident in the first and in the second half of ``run``: what allocators keep
    comes and goes, a peak is a matter of chance."""
    process, samples, ended = psutil.Process(), list[int](), threading.Event()

    def look() -> None:
        samples.append(process.memory_info().rss)

    def watch() -> None:
        while not ended.wait(LOOK_S):
            look()

    look()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        ended.set()
        watcher.join()
    look()
    half = len(samples) // 2
    return median(samples[:half]), median(samples[half:])


def drift(samples: Sequence[float]) -> float:
    """How much larger the median of the last 20 is than that of the runs 20 to 40, as a share;
    needs at least ``MIN_RUNS`` samples."""
    first, last = median(samples[FIRST]), median(samples[LAST])
    return last / first - 1 if first else 0.0


def usage_by_run(
    pair: Pair, runs: int, tokens: int, drafters: Mapping[str, DrafterConfig] = DRAFTERS
) -> list[Usage]:
    """Memory after each of consecutive runs, with alternating drafters and prompts; runs are not
    stored."""
    found, device = [], pair.device
    for number, text, drafter in zip(
        range(runs), cycle(pair.spec.prompts), cycle(drafters.values()), strict=False
    ):
        complete(pair, config_of(pair, PromptConfig(text), drafter, 1.0, tokens, number))
        gc.collect()
        counters = (
            (torch.cuda.memory_allocated, torch.cuda.memory_reserved)
            if device.type == "cuda"
            else ()
        )
        found.append(
            Usage(
                int(psutil.Process().memory_info().rss),
                *(bytes_of(device) for bytes_of in counters),
            )
        )
    return found


def report(found: Sequence[Usage], device: object = "cpu") -> Report:
    """The drift, and the memory after every tenth run."""
    kinds = {"resident set": [each.resident for each in found]}
    if any(each.device for each in found):
        kinds["CUDA memory allocated"] = [each.device for each in found]
    figures = []
    for name, values in kinds.items():
        note = f"runs 20–40: {median(values[FIRST]) / 1e6:.1f} MB, last 20: {median(values[LAST]) / 1e6:.1f} MB"
        figures.append(
            Figure(
                f"drift of the {name}, either way",
                100 * abs(drift(values)),
                "%",
                note,
                most=MAX_DRIFT,
            )
        )
    places = sorted({0, *range(9, len(found), 10), len(found) - 1})
    rows = [
        (str(at + 1), *(f"{values[at] / 1e6:.1f}" for values in kinds.values())) for at in places
    ]
    notes = [
        f"{', '.join(DRAFTERS)} in turn, one process; sampled after every run and a garbage collection"
    ]
    table = Table(("after run", *(f"{name}, MB" for name in kinds)), rows, "Memory by run")
    return Report(
        f"Memory over {len(found)} runs", notes, figures, [table], data=kinds, device=device
    )


@measurement("memory", runs=(200, MIN_RUNS), max_new_tokens=32)
def main(options: Namespace) -> Report:
    pair = bundled()
    return report(usage_by_run(pair, options.runs, options.max_new_tokens), pair.device)
