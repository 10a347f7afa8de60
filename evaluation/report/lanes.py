"""The lanes of one group at one temperature, measured: sums to numbers with intervals. Knows no store.

What each number is, and its source, stands in docs/statistics.md.
"""

from __future__ import annotations

import math

import numpy as np

from evaluation.report.cell import Cell, Columns, sums, totals
from evaluation.report.grid import Array, Mask
from evaluation.report.scores import score, score_numbers
from evaluation.report.values import Interval, Measured
from evaluation.statistics import over, percentile_intervals, quartiles, share_interval


def measured(cell: Cell, resamples: int, seed: int) -> tuple[Measured, ...]:
    """Every lane of the plan, in its order."""
    lanes = range(len(cell.grid.plan.lanes))
    sampled = totals(cell, [sums(cell, lane) for lane in lanes], resamples, seed)
    return tuple(_lane(cell, lane, sampled[lane]) for lane in lanes)


def numbers(total: Columns) -> Columns:
    """Ratios and differences from the sums of a lane, of whatever shape; nan for 0 / 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate, baseline_rate, none_rate = (
            total[f"{prefix}new_tokens"] / total[f"{prefix}wall_s"] for prefix in ("", "baseline_", "none_")
        )
        tau = total["new_tokens"] / total["steps"]
        likelihood = total["log_likelihood"] / total["likely_tokens"]
        found = {
            "tokens_per_s": rate,
            "speedup": rate / none_rate,
            "speedup_strict": rate / baseline_rate,
            "tau": tau,
            "tau_ratio": tau / (total["baseline_new_tokens"] / total["baseline_steps"]),
            "length_ratio": total["new_tokens"] / total["baseline_new_tokens"],
            "log_likelihood": likelihood,
            "log_likelihood_difference": likelihood
            - total["baseline_log_likelihood"] / total["baseline_likely_tokens"],
        }
        means = (name.removesuffix("_n") for name in total if name.endswith("_n"))
        return found | {name: total[name] / total[f"{name}_n"] for name in means}


def _lane(cell: Cell, lane: int, total: Columns) -> Measured:
    used = cell.used(lane)
    prompts = len(np.unique(cell.prompt[used]))
    found = numbers(total)
    for metric in cell.scores:
        found |= score_numbers(total, metric)
    spread = _intervals(found, prompts)
    plain = {name: spread[name] for name in PLAIN if name in spread}
    tokens = _sum(cell, "new_tokens", lane, used)
    return Measured(
        group=cell.group.name,
        temperature=cell.temperature,
        lane=lane,
        prompts=prompts,
        seeds=len({cell.grid.tasks[row].repeat for row in cell.rows[used]}),
        runs=int(used.sum()),
        failed=int((cell.grid.there & ~cell.grid.completed)[cell.rows, lane].sum()),
        acceptance_rate=over(
            _sum(cell, "accepted", lane, used) + _sum(cell, "relaxed", lane, used), _sum(cell, "drafted", lane, used)
        ),
        acceptance_by_position=_by_position(cell, lane, used),
        relaxed_share=over(_sum(cell, "relaxed", lane, used), tokens),
        unended=1 - over(_sum(cell, "ended", lane, used), float(used.sum())),
        same=_share(cell, "same", lane, used),
        same_as_none=_share(cell, "same_as_none", lane, used),
        divergence=_divergence(cell, lane, used),
        tv_token=over(_sum(cell, "tv_sum", lane, used), tokens),
        scores={metric: score(cell, lane, metric, spread) for metric in cell.scores},
        **plain | ({} if "speedup_mean" in plain else {"speedup_mean": Interval()}),
    )


PLAIN = (
    "tokens_per_s", "speedup", "speedup_mean", "speedup_strict", "speedup_strict_mean", "tau", "tau_ratio", "length_ratio", "bleu",
    "chrf", "rouge_l", "tv", "log_likelihood", "log_likelihood_difference",
)  # fmt: skip


def _intervals(found: Columns, prompts: int) -> dict[str, Interval]:
    """By name, from values [1 + B] whose first is that of all runs."""
    every = np.stack(list(found.values()))
    intervals = percentile_intervals(every[:, 0], every[:, 1:], prompts)
    return dict(zip(found, intervals, strict=True))


def _sum(cell: Cell, name: str, lane: int, used: Mask) -> float:
    return float(cell.number(name, lane)[used].sum())


def _share(cell: Cell, name: str, lane: int, used: Mask) -> Interval:
    """Of runs that know; Wilson."""
    values = cell.number(name, lane)
    known = used & np.isfinite(values)
    return share_interval(values[known], cell.prompt[known])


def _divergence(cell: Cell, lane: int, used: Mask) -> Interval:
    values: Array = cell.number("divergence", lane)[used]
    low, median, high = quartiles([float(value) for value in values if not math.isnan(value)])
    return Interval(median, low, high)


def _by_position(cell: Cell, lane: int, used: Mask) -> tuple[float, ...]:
    """Steps that kept a token at draft position i + 1 / steps that drafted one there."""
    rows = cell.rows[used]
    drafted, kept = (counts[rows, lane].sum(axis=0) for counts in (cell.grid.drafted_at, cell.grid.kept_at))
    return tuple(float(took / tried) for took, tried in zip(kept, drafted, strict=True) if tried)
