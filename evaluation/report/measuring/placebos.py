"""How closely placebos imitate their rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evaluation.report.measured import BLANK, PLACEBOS, Measured
from evaluation.report.measuring.grid import Part
from evaluation.report.rows import TWO_BEST, PlaceboRow


def placebo_rows(parts: Sequence[Part], measured: Sequence[Measured]) -> Iterator[PlaceboRow]:
    """Yield rows by group, temperature, rule and placebo, in the order of the measured rows."""
    grids = {(group, temperature): grid for group, temperature, grid in parts}
    for row in measured:
        grid = grids[row.group, row.temperature]
        plan = grid.plan
        for kind, ranked in PLACEBOS.items():
            test = row.main_score and row.main_score.placebos.get(kind)
            for placebo in plan.placebos(row.lane, ranked=ranked):
                both = grid.part(grid.completed[:, placebo] & grid.completed[:, row.lane])
                if not len(both.item):
                    continue
                relaxed, due, same = (
                    both.numbers[name].mean(axis=0).tolist() for name in ("relaxed", "due", "same")
                )
                exact = "all, one probability" if math.isnan(due[placebo]) else "all"
                yield PlaceboRow(
                    group=row.group,
                    temperature=row.temperature,
                    lane=row.lane,
                    among=TWO_BEST if plan.lanes[placebo].best else exact,
                    draws=plan.placebo_seeds,
                    runs=len(both.item),
                    rule_relaxed=relaxed[row.lane],
                    relaxed=relaxed[placebo],
                    shortfall=due[placebo] - relaxed[placebo],
                    rule_same=same[row.lane],
                    same=same[placebo],
                    ratio=test.ratio if test else BLANK,
                    outcome=test.outcome.value if test else "",
                    p_differ=test.p_differ if test else math.nan,
                    p_region=test.p_region if test else math.nan,
                    possible=test.possible if test else math.nan,
                )
