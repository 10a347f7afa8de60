"""``python -m bench``: our decoding beside transformers' on the bundled pair; prints a table and writes it to bench/results/."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import logging as transformers_logging

from bench.measure import Samples, interleaved, ratio, same_outputs, timings
from bench.methods import Setting, methods
from mars_core.demo.corpus import held_out, held_out_requests
from mars_core.models import CATALOG, ModelPool
from mars_core.types import PromptConfig

RESULTS = Path(__file__).parent / "results"
GOALS = (("none", "generate", 1.0), ("strict", "assisted", 1.3), ("strict", "none", 1.6))  # at temperature 0
TAU_GOALS = (("eagle3 tree", "strict", 1.25),)  # emitted tokens per target pass, at temperature 0
METER_GOAL = 0.03  # of the wall time, for all that is measured of every token
METERED = ("strict", "mars", "eagle3 tree")  # each beside itself with the meter off
EQUAL = (
    ("none", "generate"), ("assisted", "generate"), ("strict", "none"), ("eagle3 chain", "none"), ("eagle3 tree", "none"),
)  # must give the same tokens  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--prompts", type=int, default=12, help="half of them problems, half stories")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    transformers_logging.set_verbosity_error()
    pair = ModelPool().get(next(spec for spec in CATALOG if spec.key == "bundled"))
    prompts = _prompts(options.prompts)
    tables = {
        temperature: interleaved(
            methods(pair, Setting(temperature, options.k, options.max_new_tokens)), prompts, options.rounds
        )
        for temperature in (0.0, 1.0)
    }
    text = _report(tables, options, str(pair.device))
    sys.stdout.write(text)
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / f"{datetime.now(UTC):%Y-%m-%d}-bundled-{pair.device.type}"
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps(_document(tables, options), indent=1), encoding="utf-8")
    return 0 if all(same == count for *_, same, count in _equalities(tables[0.0])) else 1


def _prompts(count: int) -> list[PromptConfig]:
    problems = [item.question for item in held_out()[: count - count // 2]]
    return [PromptConfig(text) for text in (*problems, *held_out_requests(count // 2))]


def _report(tables: dict[float, Samples], options: argparse.Namespace, device: str) -> str:
    lines = [
        "# Bundled pair, side by side",
        "",
        f"- command: `python -m bench --prompts {options.prompts} --rounds {options.rounds} --k {options.k}"
        f" --max-new-tokens {options.max_new_tokens}`",
        *(f"- {name}: {value}" for name, value in _machine(device).items()),
        "",
    ]
    for temperature, samples in tables.items():
        baseline = next(iter(samples))
        lines += [
            f"## Temperature {temperature:g}, greedy drafts, K = {options.k}",
            "",
            f"| method | tokens/s (median) | × {baseline} (median, quartiles) | τ | tokens |",
            "|---|---:|---:|---:|---:|",
            *(
                f"| {row.name} | {row.tokens_per_s:.0f} | {row.ratio:.2f}× ({row.ratio_low:.2f}–{row.ratio_high:.2f}) "
                f"| {row.tau:.2f} | {row.tokens} |".replace("nan", "–")
                for row in timings(samples, baseline)
            ),
            "",
        ]
    first = tables[0.0]
    lines += ["## Goals at temperature 0", "", "| ratio | measured | goal | reached |", "|---|---:|---:|---|"]
    for method, baseline, goal in GOALS:
        measured = ratio(first, method, baseline)
        lines.append(
            f"| {method} / {baseline} | {measured:.2f}× | {goal:.2f}× | {'yes' if measured >= goal else 'no'} |"
        )
    taus = {row.name: row.tau for row in timings(first, "none")}
    for method, baseline, goal in TAU_GOALS:
        measured = taus[method] / taus[baseline]
        lines.append(
            f"| τ of {method} / τ of {baseline} | {measured:.2f}× | {goal:.2f}× | {'yes' if measured >= goal else 'no'} |"
        )
    lines += ["", f"## What measuring costs (goal: at most {METER_GOAL:.0%} of the wall time)", ""]
    lines += ["| method | temperature | share of the wall time |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {temperature:g} | {1 - ratio(samples, name, f'{name}, meter off'):.1%} |"
        for temperature, samples in tables.items()
        for name in METERED
    ]
    lines += ["", "## Same tokens", ""]
    lines += [f"- {method} = {baseline}: {same} of {count}" for method, baseline, same, count in _equalities(first)]
    return "\n".join(lines) + "\n"


def _equalities(samples: Samples) -> list[tuple[str, str, int, int]]:
    return [(method, baseline, *same_outputs(samples, method, baseline)) for method, baseline in EQUAL]


def _machine(device: str) -> dict[str, str]:
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "hardware": f"{_processor()}, {torch.get_num_threads()} threads, device {device}",
        "versions": f"python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}",
    }


def _commit() -> str:
    git = ["git", "-C", str(RESULTS.parent)]
    commit = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return (commit or "unknown") + (" with changes" if changed else "")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _document(tables: dict[float, Samples], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "machine": _machine("cpu"),
        "options": {name: str(value) for name, value in vars(options).items()},
        "tables": {
            str(temperature): [
                asdict(row) | {"tau": row.tau if row.tau == row.tau else None}
                for row in timings(samples, next(iter(samples)))
            ]
            for temperature, samples in tables.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
