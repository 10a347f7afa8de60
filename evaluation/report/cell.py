"""One group at one temperature: the sums of every lane, as they are and resampled. Knows no report.

Every number of a lane is a function of sums over runs, so that the function is written once and serves value and interval alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.report.grid import Array, Grid, Mask, Places
from evaluation.report.groups import Group
from evaluation.statistics import resampled_totals

MAIN = "main"  # every item by its own main metric, where these differ
Columns = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Cell:
    """``rows``: its done tasks, [R]; ``prompt``: the prompt of each, 0 to ``prompts`` − 1 in the order of the plan, [R]."""

    grid: Grid
    group: Group
    temperature: float
    rows: Places
    prompt: Places
    prompts: int
    scores: Mapping[str, Array]  # by metric, the main one first, [R, L]

    def number(self, name: str, lane: int) -> Array:
        """A field of ``Result`` or ``Relative``, [R]."""
        found: Array = self.grid.numbers[name][self.rows, lane]
        return found

    def used(self, lane: int) -> Mask:
        """Runs that were completed in the lane, its baseline and ``none``, [R]."""
        return self.grid.used(lane)[self.rows]

    def scored(self, metric: str, lane: int) -> Mask:
        """Used runs that have a score in these lanes, [R]."""
        lanes = {lane, self.grid.baseline(lane), lane if self.grid.plan.none is None else self.grid.plan.none}
        known: Mask = np.logical_and.reduce(np.isfinite(self.scores[metric][:, sorted(lanes)]), axis=1)
        return self.used(lane) & known


def cell(grid: Grid, group: Group, temperature: float) -> Cell:
    rows = np.flatnonzero(group.items[grid.item] & (grid.temperature == temperature))
    items, prompt = np.unique(grid.item[rows], return_inverse=True)
    return Cell(grid, group, temperature, rows, prompt.astype(np.intp), len(items), _scores(grid, rows))


def _scores(grid: Grid, rows: Places) -> dict[str, Array]:
    names = [name for name in dict.fromkeys(grid.main[row] for row in rows) if name]
    found = {MAIN: grid.main_scores[rows]} if len(names) > 1 else {}
    others = (name for name in grid.scores if name not in names and np.isfinite(grid.scores[name][rows]).any())
    return found | {name: grid.scores[name][rows] for name in (*names, *others)}


def sums(cell: Cell, lane: int) -> Columns:
    """What is summed over the runs of a lane, [R]; runs that are not used are 0. ``name`` and ``name_n`` make a mean."""
    baseline, none, used = cell.grid.baseline(lane), cell.grid.plan.none, cell.used(lane)
    found: Columns = {"runs": used.astype(np.float64)}
    for prefix, number in (("", lane), ("baseline_", baseline), ("none_", none)):
        for name in ("new_tokens", "wall_s", "steps"):
            values = np.zeros(len(used)) if number is None else cell.number(name, number)
            found[prefix + name] = np.where(used, values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = cell.grid.numbers["new_tokens"][cell.rows] / cell.grid.numbers["wall_s"][cell.rows]
        found |= _mean("speedup_strict_mean", rates[:, lane] / rates[:, baseline], used)
        if none is not None:
            found |= _mean("speedup_mean", rates[:, lane] / rates[:, none], used)
    for name in ("bleu", "chrf", "rouge_l"):
        found |= _mean(name, cell.number(name, lane), used)
    found |= _mean("tv", cell.number("tv_sum", lane), used)
    return found | _likelihoods(cell, lane, baseline, used) | _score_sums(cell, lane, baseline, none)


def _mean(name: str, values: Array, used: Mask) -> Columns:
    counted = used & np.isfinite(values)
    return {name: np.where(counted, values, 0.0), f"{name}_n": counted.astype(np.float64)}


def _likelihoods(cell: Cell, lane: int, baseline: int, used: Mask) -> Columns:
    """Log-likelihoods and the tokens that they belong to, where lane and baseline have one."""
    found: Columns = {}
    counted = used & np.isfinite(cell.number("log_likelihood", lane) + cell.number("log_likelihood", baseline))
    for prefix, number in (("", lane), ("baseline_", baseline)):
        for name in ("log_likelihood", "new_tokens"):
            key = f"{prefix}{name}" if name == "log_likelihood" else f"{prefix}likely_tokens"
            found[key] = np.where(counted, cell.number(name, number), 0.0)
    return found


def _score_sums(cell: Cell, lane: int, baseline: int, none: int | None) -> Columns:
    found: Columns = {}
    for metric, scores in cell.scores.items():
        scored = cell.scored(metric, lane)
        found[f"{metric}:n"] = scored.astype(np.float64)
        for role, number in (("rule", lane), ("baseline", baseline), ("none", none)):
            values = np.zeros(len(scored)) if number is None else scores[:, number]
            found[f"{metric}:{role}"] = np.where(scored, values, 0.0)
    return found


def totals(cell: Cell, columns: list[Columns], resamples: int, seed: int) -> list[Columns]:
    """The sums of every lane over all runs, then over each resample: [1 + B] by name."""
    names = [list(each) for each in columns]
    runs = np.stack([each[name] for each in columns for name in each], axis=1)  # [R, C]
    by_prompt = np.zeros((cell.prompts, runs.shape[1]))
    np.add.at(by_prompt, cell.prompt, runs)
    every = np.vstack([by_prompt.sum(axis=0), resampled_totals(by_prompt, resamples, seed)])
    parts = np.split(every, np.cumsum([len(each) for each in names])[:-1], axis=1)
    return [dict(zip(each, part.T, strict=True)) for each, part in zip(names, parts, strict=True)]
