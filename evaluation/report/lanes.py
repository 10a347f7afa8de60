"""Measures the lanes of one group at one temperature; docs/evaluation.md defines each number.

Every number of a lane is a function of sums over its runs, so the same function computes the value
and its bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.recovery import paired, ratio_interval, verdict
from evaluation.report.grid import Array, Grid, Group, Mask, Places
from evaluation.report.values import Interval, Measured, Score
from evaluation.scoring.metrics import METRICS
from evaluation.statistics import (
    mcnemar,
    over,
    percentile_intervals,
    quartiles,
    resampled_totals,
    share_interval,
)

MAIN = "main"  # every item by its own main metric, if these differ
ITSELF = Interval(1.0, 1.0, 1.0)  # recovery of a baseline
PLAIN = (
    "tokens_per_s",
    "speedup",
    "speedup_mean",
    "speedup_strict",
    "speedup_strict_mean",
    "tau",
    "tau_ratio",
    "length_ratio",
    "bleu",
    "chrf",
    "rouge_l",
    "tv",
    "log_likelihood",
    "log_likelihood_difference",
)
TOTALS = ("new_tokens", "wall_s", "steps")
Columns = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Cell:
    """One group at one temperature: R done tasks of N prompts."""

    grid: Grid
    rows: Places  # of the grid, [R]
    prompt: Places  # of each row, 0 to N − 1 in the order of the plan, [R]
    prompts: int  # N
    scores: Mapping[str, Array]  # by metric, the main one first, [R, L]

    def number(self, name: str, lane: int) -> Array:
        """A field of ``Result`` or ``Relative``, [R]."""
        found: Array = self.grid.numbers[name][self.rows, lane]
        return found

    def used(self, lane: int) -> Mask:
        """Runs that were completed in the lane, its baseline and ``none``, [R]."""
        found: Mask = np.logical_and.reduce(
            self.grid.completed[self.rows][:, self.grid.compared(lane)], axis=1
        )
        return found

    def scored(self, metric: str, lane: int) -> Mask:
        """Used runs that have a score in these lanes, [R]."""
        known: Mask = np.logical_and.reduce(
            np.isfinite(self.scores[metric][:, self.grid.compared(lane)]), axis=1
        )
        return self.used(lane) & known

    def total(self, name: str, lane: int) -> float:
        """The sum of a field over the used runs."""
        return float(self.number(name, lane)[self.used(lane)].sum())


def measured(
    grid: Grid, group: Group, temperature: float, resamples: int, seed: int
) -> tuple[Measured, ...]:
    """Every lane of the plan, in its order."""
    rows = np.flatnonzero(group.items[grid.item] & (grid.temperature == temperature))
    items, prompt = np.unique(grid.item[rows], return_inverse=True)
    cell = Cell(grid, rows, prompt.astype(np.intp), len(items), _scores(grid, rows))
    sums = {
        (lane, name): column
        for lane in range(len(grid.plan.lanes))
        for name, column in _sums(cell, lane).items()
    }
    by_prompt = np.zeros((cell.prompts, len(sums)))
    np.add.at(by_prompt, cell.prompt, np.stack(list(sums.values()), axis=1))
    totals = np.vstack(
        [by_prompt.sum(axis=0), resampled_totals(by_prompt, resamples, seed)]
    )  # [1 + B, C]
    by_lane: list[Columns] = [{} for _ in grid.plan.lanes]
    for (lane, name), column in zip(sums, totals.T, strict=True):
        by_lane[lane][name] = column
    return tuple(_lane(cell, group, temperature, lane, total) for lane, total in enumerate(by_lane))


def _scores(grid: Grid, rows: Places) -> dict[str, Array]:
    names = [name for name in dict.fromkeys(grid.main[row] for row in rows) if name]
    found = {MAIN: grid.main_scores[rows]} if len(names) > 1 else {}
    others = (
        name
        for name in grid.scores
        if name not in names and np.isfinite(grid.scores[name][rows]).any()
    )
    return found | {name: grid.scores[name][rows] for name in (*names, *others)}


def _sums(cell: Cell, lane: int) -> Columns:
    """The values that are summed over the runs of a lane, [R]; 0 for unused runs. A mean is
    ``name`` / ``name_n``."""
    grid, used, found = cell.grid, cell.used(lane), Columns()
    baseline, none = grid.baseline(lane), grid.plan.none
    likely = used & np.isfinite(
        cell.number("log_likelihood", lane) + cell.number("log_likelihood", baseline)
    )
    for prefix, number in (("", lane), ("baseline_", baseline)):
        found |= {prefix + name: np.where(used, cell.number(name, number), 0.0) for name in TOTALS}
        found[f"{prefix}log_likelihood"] = np.where(
            likely, cell.number("log_likelihood", number), 0.0
        )
        found[f"{prefix}likely_tokens"] = np.where(likely, cell.number("new_tokens", number), 0.0)
    if none is not None:
        found |= {f"none_{name}": np.where(used, cell.number(name, none), 0.0) for name in TOTALS}
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = grid.numbers["new_tokens"][cell.rows] / grid.numbers["wall_s"][cell.rows]
        means = {name: cell.number(name, lane) for name in ("bleu", "chrf", "rouge_l")}
        means |= {
            "tv": cell.number("tv_sum", lane),
            "speedup_strict_mean": rates[:, lane] / rates[:, baseline],
        }
        means |= {} if none is None else {"speedup_mean": rates[:, lane] / rates[:, none]}
    for name, values in means.items():
        counted = used & np.isfinite(values)
        found |= {name: np.where(counted, values, 0.0), f"{name}_n": counted.astype(np.float64)}
    for metric, scores in cell.scores.items():
        scored = cell.scored(metric, lane)
        found[f"{metric}:n"] = scored.astype(np.float64)
        found[f"{metric}:rule"] = np.where(scored, scores[:, lane], 0.0)
        found[f"{metric}:baseline"] = np.where(scored, scores[:, baseline], 0.0)
    return found


def _numbers(total: Columns, metrics: Mapping[str, Array]) -> Columns:
    """Ratios and differences from the sums of a lane, of any shape; nan for 0 / 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate, tau = total["new_tokens"] / total["wall_s"], total["new_tokens"] / total["steps"]
        likelihood = total["log_likelihood"] / total["likely_tokens"]
        found = {
            "tokens_per_s": rate,
            "speedup_strict": rate / (total["baseline_new_tokens"] / total["baseline_wall_s"]),
            "tau": tau,
            "tau_ratio": tau / (total["baseline_new_tokens"] / total["baseline_steps"]),
            "length_ratio": total["new_tokens"] / total["baseline_new_tokens"],
            "log_likelihood": likelihood,
            "log_likelihood_difference": likelihood
            - total["baseline_log_likelihood"] / total["baseline_likely_tokens"],
        }
        if "none_wall_s" in total:
            found["speedup"] = rate / (total["none_new_tokens"] / total["none_wall_s"])
        found |= {
            name[:-2]: total[name[:-2]] / runs
            for name, runs in total.items()
            if name.endswith("_n")
        }
        for metric in metrics:
            rule, baseline, runs = (total[f"{metric}:{name}"] for name in ("rule", "baseline", "n"))
            found |= {f"{metric}:value": rule / runs, f"{metric}:baseline": baseline / runs}
            found |= {
                f"{metric}:recovery": rule / baseline,
                f"{metric}:difference": (rule - baseline) / runs,
            }
    return found


def _lane(cell: Cell, group: Group, temperature: float, lane: int, total: Columns) -> Measured:
    grid, used = cell.grid, cell.used(lane)
    prompts = len(np.unique(cell.prompt[used]))
    numbers = _numbers(total, cell.scores)
    every = np.stack(list(numbers.values()))  # [Q, 1 + B], first of all runs
    intervals = percentile_intervals(every[:, 0], every[:, 1:], prompts)
    spread = dict(zip(numbers, intervals, strict=True))
    divergence = cell.number("divergence", lane)[used]
    low, median, high = quartiles(divergence[~np.isnan(divergence)].tolist())
    tokens, accepted, relaxed = (
        cell.total(name, lane) for name in ("new_tokens", "accepted", "relaxed")
    )
    drafted_at, kept_at = (
        counts[cell.rows[used], lane].sum(axis=0) for counts in (grid.drafted_at, grid.kept_at)
    )
    return Measured(
        group=group.name,
        temperature=temperature,
        lane=lane,
        prompts=prompts,
        seeds=len({grid.tasks[row].repeat for row in cell.rows[used]}),
        runs=int(used.sum()),
        failed=int(grid.failed[cell.rows, lane].sum()),
        acceptance_rate=over(
            float(kept_at.sum()) if np.isnan(relaxed) else accepted + relaxed,
            cell.total("drafted", lane),
        ),
        acceptance_by_position=tuple(
            float(kept / tried) for kept, tried in zip(kept_at, drafted_at, strict=True) if tried
        ),
        relaxed_share=over(relaxed, tokens),
        unended=1 - over(cell.total("ended", lane), float(used.sum())),
        same=_share(cell, "same", lane, used),
        same_as_none=_share(cell, "same_as_none", lane, used),
        divergence=Interval(median, low, high),
        tv_token=over(cell.total("tv_sum", lane), tokens),
        scores={metric: _score(cell, lane, metric, spread) for metric in cell.scores},
        **{name: spread.get(name, Interval()) for name in PLAIN},
    )


def _share(cell: Cell, name: str, lane: int, used: Mask) -> Interval:
    """Share of runs with a value; Wilson interval."""
    values = cell.number(name, lane)
    known = used & np.isfinite(values)
    return share_interval(values[known], cell.prompt[known])


def _score(cell: Cell, lane: int, metric: str, spread: Mapping[str, Interval]) -> Score:
    """One metric of one lane: means, recovery, difference, tests and the verdict. ``spread``:
    numbers with bootstrap intervals."""
    plan, baseline, scored = cell.grid.plan, cell.grid.baseline(lane), cell.scored(metric, lane)
    values, prompt = cell.scores[metric][scored], cell.prompt[scored]
    # "main" is binary where all its scores are, and so are metrics of a later version
    every = cell.scores[metric][np.isfinite(cell.scores[metric])]
    binary = METRICS[metric].binary if metric in METRICS else bool(np.isin(every, (0.0, 1.0)).all())
    pairs = paired(values[:, lane], values[:, baseline], prompt, binary=binary)
    recovery = ITSELF if lane == baseline else ratio_interval(pairs)
    recovery_none = Interval() if plan.none is None else ITSELF
    if plan.none not in (None, lane):
        recovery_none = ratio_interval(
            paired(values[:, lane], values[:, plan.none], prompt, binary=binary)
        )
    tested = binary and lane != baseline
    change = (values[:, lane] - values[:, baseline]).round().astype(np.int64) if tested else None
    return Score(
        metric=metric,
        binary=binary,
        runs=int(scored.sum()),
        value=share_interval(values[:, lane], prompt) if binary else spread[f"{metric}:value"],
        baseline=share_interval(values[:, baseline], prompt)
        if binary
        else spread[f"{metric}:baseline"],
        recovery=recovery,
        recovery_none=recovery_none,
        recovery_bootstrap=spread[f"{metric}:recovery"],
        difference=spread[f"{metric}:difference"],
        mcnemar=None if change is None else mcnemar(change, prompt),
        verdict=None if lane in (baseline, plan.none) else verdict(recovery, pairs, plan.margin),
    )
