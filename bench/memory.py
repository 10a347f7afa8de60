"""``python -m bench.memory``: does memory stay flat over many runs? Also the peak of a single one, for ``bench.growth``."""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import torch

from bench.machine import RESULTS, machine, stem
from bench.methods import DRAFTERS, lossless
from mars_core.models import CATALOG, ModelPool, Pair
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, Sampling

FIRST, LAST = slice(20, 40), slice(-20, None)  # runs that are compared: every drafter as often in both
GOAL = 0.02


@dataclass(frozen=True, slots=True)
class Held:
    """What the process holds after a run and a garbage collection, in bytes; on a device allocated and reserved, 0 without CUDA."""

    resident: int
    device: int
    reserved: int = 0


def peak_above(device: torch.device, run: Callable[[], object]) -> int:
    """Bytes that ``run`` needs at most above what there was before it: on CUDA allocated, elsewhere resident (Linux only)."""
    gc.collect()
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        return int(torch.cuda.max_memory_allocated(device)) - before
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the kernel's high-water mark starts anew
    before = _high_water()
    run()
    return _high_water() - before


def _high_water() -> int:
    """The largest resident set of this process, in bytes; ru_maxrss would begin with that of the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return 1024 * int(found.group(1))


def drift(samples: Sequence[float]) -> float:
    """How much larger the median of the last 20 is than that of the runs 20 to 40, as a share. Raises ValueError for fewer than 60."""
    if len(samples) < 60:
        raise ValueError(f"There are {len(samples)} samples; the drift needs at least 60.")
    first, last = median(samples[FIRST]), median(samples[LAST])
    return last / first - 1 if first else 0.0


def hold(pair: Pair, runs: int, tokens: int, drafters: Mapping[str, DrafterConfig] = DRAFTERS) -> list[Held]:
    """Consecutive runs, the drafters and prompts taking turns; nothing of a run is kept."""
    found = []
    prompts, each = pair.spec.prompts, list(drafters.values())
    for number in range(runs):
        drafter = each[number % len(each)]
        config = run_config(
            pair, prompt=PromptConfig(prompts[number % len(prompts)]), rule=lossless(drafter),
            drafter=drafter, sampling=Sampling(1.0), max_new_tokens=tokens, seed=number,
        )  # fmt: skip
        run = Session(pair).start(config)
        for _ in run:
            pass
        run.trace()
        del run
        found.append(held(pair.device))
    return found


def held(device: torch.device) -> Held:
    gc.collect()
    resident = int(psutil.Process().memory_info().rss)
    if device.type != "cuda":
        return Held(resident, 0)
    return Held(resident, torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    pair = ModelPool().get(next(spec for spec in CATALOG if spec.key == "bundled"))
    found = hold(pair, options.runs, options.max_new_tokens)
    command = f"`python -m bench.memory --runs {options.runs} --max-new-tokens {options.max_new_tokens}`"
    facts = {"command": command, **machine(pair.device)}
    text = report(found, facts)
    sys.stdout.write(text)
    path = stem(options.out, "memory", pair.device.type)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    samples = {"resident": [each.resident for each in found], "device": [each.device for each in found]}
    path.with_suffix(".json").write_text(json.dumps({"machine": facts, **samples}, indent=1), encoding="utf-8")
    return 0


def report(found: Sequence[Held], facts: Mapping[str, str]) -> str:
    """Markdown: the drift, and what was held after every tenth run."""
    kinds = {"resident set": [each.resident for each in found]}
    if any(each.device for each in found):
        kinds["CUDA memory allocated"] = [each.device for each in found]
    lines = [
        f"# Memory over {len(found)} runs",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        f"- bundled pair, {', '.join(DRAFTERS)} in turn, one process; sampled after every run and a garbage collection",
        "",
        f"| memory | runs 20–40, MB | last 20, MB | drift | flat within {GOAL:.0%} |",
        "|---|---:|---:|---:|---|",
    ]
    for name, values in kinds.items():
        change = drift(values)
        first, last = median(values[FIRST]) / 1e6, median(values[LAST]) / 1e6
        lines.append(
            f"| {name} | {first:.1f} | {last:.1f} | {change:+.2%} | {'yes' if abs(change) <= GOAL else 'no'} |"
        )
    lines += [
        "",
        "| after run | " + " | ".join(f"{name}, MB" for name in kinds) + " |",
        "|---:|" + "---:|" * len(kinds),
    ]
    for at in sorted({0, *range(9, len(found), 10), len(found) - 1}):
        lines.append(f"| {at + 1} | " + " | ".join(f"{values[at] / 1e6:.1f}" for values in kinds.values()) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
