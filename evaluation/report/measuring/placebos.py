"""How closely placebos imitate their rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evaluation.report.measured import BLANK, PLACEBOS, Measured
from evaluation.report.measuring.grid import Grid, groups
from evaluation.report.rows import TWO_BEST, PlaceboRow
from evaluation.statistics import Array


def placebo_rows(grid: Grid, measured: Sequence[Measured]) -> Iterator[PlaceboRow]:
    """Yield rows by group, temperature, rule and placebo, in the order of the measured rows."""
    plan, items = grid.plan, {group.name: group.items for group in groups(grid.plan)}
    for row in measured:
        here = items[row.group][grid.item] & (grid.temperature == row.temperature)
        for kind, ranked in PLACEBOS.items():
            test = row.main_score and row.main_score.placebos.get(kind)
            for placebo in plan.placebos(row.lane, ranked=ranked):
                both = here & grid.completed[:, placebo] & grid.completed[:, row.lane]
                if not both.any():
                    continue

                def mean(name: str, lane: int, rows: Array = both) -> float:
                    return float(grid.numbers[name][rows, lane].mean())

                relaxed, due = mean("relaxed", placebo), mean("due", placebo)
                exact = "all, one probability" if math.isnan(due) else "all"
                yield PlaceboRow(
                    group=row.group,
                    temperature=row.temperature,
                    lane=row.lane,
                    among=TWO_BEST if plan.lanes[placebo].best else exact,
                    draws=plan.placebo_seeds,
                    runs=int(both.sum()),
                    rule_relaxed=mean("relaxed", row.lane),
                    relaxed=relaxed,
                    shortfall=due - relaxed,
                    rule_same=mean("same", row.lane),
                    same=mean("same", placebo),
                    ratio=test.ratio if test else BLANK,
                    outcome=test.outcome.value if test else "",
                    p_differ=test.p_differ if test else math.nan,
                    p_region=test.p_region if test else math.nan,
                    possible=test.possible if test else math.nan,
                )
