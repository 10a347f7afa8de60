"""How closely placebos imitate their rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evaluation.report.measuring.grid import Grid, groups
from evaluation.report.values import Measured, PlaceboRow
from evaluation.statistics import Array


def placebo_rows(grid: Grid, measured: Sequence[Measured]) -> Iterator[PlaceboRow]:
    """Yield rows by group, temperature, rule and placebo, in the order of the measured rows."""
    plan, items = grid.plan, {group.name: group.items for group in groups(grid.plan)}
    for row in measured:
        here = items[row.group][grid.item] & (grid.temperature == row.temperature)
        for ranked in (False, True):
            for placebo in plan.placebos(row.lane, ranked=ranked):
                both = here & grid.completed[:, placebo] & grid.completed[:, row.lane]
                if not both.any():
                    continue

                def mean(name: str, lane: int, rows: Array = both) -> float:
                    return float(grid.numbers[name][rows, lane].mean())

                relaxed, score = mean("relaxed", placebo), row.main_score
                yield PlaceboRow(
                    group=row.group,
                    temperature=row.temperature,
                    lane=row.lane,
                    placebo=placebo,
                    runs=int(both.sum()),
                    rule_relaxed=mean("relaxed", row.lane),
                    relaxed=relaxed,
                    shortfall=mean("due", placebo) - relaxed,
                    rule_same=mean("same", row.lane),
                    same=mean("same", placebo),
                    test=None if score is None else score.ranked if ranked else score.placebo,
                )
