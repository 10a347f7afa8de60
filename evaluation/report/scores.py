"""One metric of one lane: means, recovery, difference, tests and the verdict. Knows no store."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evaluation.recovery import paired, ratio_interval, verdict
from evaluation.report.cell import Cell, Columns
from evaluation.report.grid import Array, Places
from evaluation.report.values import Interval, Score
from evaluation.scoring.names import METRICS
from evaluation.statistics import mcnemar, share_interval

ITSELF = Interval(1.0, 1.0, 1.0)  # recovery of a lane beside itself


def score_numbers(total: Columns, metric: str) -> Columns:
    """Means, recovery and difference from the sums of a lane, of whatever shape; nan for 0 / 0."""
    rule, baseline, runs = (total[f"{metric}:{name}"] for name in ("rule", "baseline", "n"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            f"{metric}:value": rule / runs,
            f"{metric}:baseline": baseline / runs,
            f"{metric}:recovery": rule / baseline,
            f"{metric}:difference": (rule - baseline) / runs,
        }


def score(cell: Cell, lane: int, metric: str, spread: Mapping[str, Interval]) -> Score:
    """``spread``: the numbers of ``score_numbers`` with bootstrap intervals."""
    plan, baseline = cell.grid.plan, cell.grid.baseline(lane)
    scored = cell.scored(metric, lane)
    values, prompt = cell.scores[metric][scored], cell.prompt[scored]
    binary = is_binary(metric, cell.scores[metric])
    pairs = paired(values[:, lane], values[:, baseline], prompt, binary=binary)
    recovery = ITSELF if lane == baseline else ratio_interval(pairs)
    tested = binary and lane != baseline
    difference = (values[:, lane] - values[:, baseline]).round().astype(np.int64) if tested else None
    return Score(
        metric=metric,
        binary=binary,
        runs=int(scored.sum()),
        value=share_interval(values[:, lane], prompt) if binary else spread[f"{metric}:value"],
        baseline=share_interval(values[:, baseline], prompt) if binary else spread[f"{metric}:baseline"],
        recovery=recovery,
        recovery_none=_over_none(plan.none, lane, values, prompt, binary),
        recovery_bootstrap=spread[f"{metric}:recovery"],
        difference=spread[f"{metric}:difference"],
        mcnemar=None if difference is None else mcnemar(difference, prompt),
        verdict=None if lane in (baseline, plan.none) else verdict(recovery, pairs, plan.margin),
    )


def is_binary(metric: str, scores: Array) -> bool:
    """Whether a metric says right or wrong; ``main`` and unknown ones do where all scores are 0 or 1."""
    if metric in METRICS:
        return METRICS[metric].binary
    found = scores[np.isfinite(scores)]
    return bool(np.isin(found, (0.0, 1.0)).all())


def _over_none(none: int | None, lane: int, values: Array, prompt: Places, binary: bool) -> Interval:
    if none is None:
        return Interval()
    if lane == none:
        return ITSELF
    return ratio_interval(paired(values[:, lane], values[:, none], prompt, binary=binary))
