"""A report computed again from results.csv alone, as docs/evaluation.md says it, without this program's statistics."""

from __future__ import annotations

import io
import math

import pandas as pd
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from evaluation.report.files import csv_text, results_table
from evaluation.report.measure import measure
from evaluation.report.values import Measured, Outcome
from tests.unit.evaluation.report.drawn import HARM, MARS, NUMBERS, FakeStore, drawn_results, study_plan

PLAN = study_plan(items=60, repeats=2, temperatures=(0.0,))
STORE = FakeStore(PLAN, drawn_results(PLAN))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    found = pd.read_csv(io.StringIO(csv_text(results_table(STORE, "study"))))  # type: ignore[arg-type]
    return found[found.suite == "sums"]


@pytest.fixture(scope="module")
def rows() -> dict[int, Measured]:
    report = measure(STORE, "study")  # type: ignore[arg-type]
    return {row.lane: row for row in report.measured if row.group == "sums"}


def scores(table: pd.DataFrame, lane: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rule and strict: prompts × seeds."""
    by = table.pivot(index=["lane", "item"], columns="repeat", values=f"score:{NUMBERS}")
    return by.loc[lane], by.loc[1]


@pytest.mark.parametrize("lane", [MARS, HARM])
def test_recovery_is_the_documented_formula_with_the_likelihood_maximised_numerically(
    table: pd.DataFrame, rows: dict[int, Measured], lane: int
) -> None:
    rule, strict = scores(table, lane)
    gained, lost = (int(((rule - strict) == sign).to_numpy().sum()) for sign in (1, -1))
    both, n = int((rule * strict).to_numpy().sum()), len(rule)
    r, b = rule.sum(axis=1), strict.sum(axis=1)
    seen = r.sum() / b.sum()
    effect = (((r - seen * b) ** 2).sum() + (b**2).sum() / n) / (seen * (gained + lost) + b.sum() / n)

    def deviation(ratio: float) -> float:
        def loss(more: float) -> float:
            cells = (ratio - (1 + ratio) * more, more, 1 - ratio + ratio * more)
            return -sum(c * math.log(max(cell, 1e-300)) for c, cell in zip((both, gained, lost), cells, strict=True))

        ends = (max(0.0, 1 - 1 / ratio), ratio / (1 + ratio))
        more = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
        return math.sqrt(max(1, effect) * (both + gained + lost) * ratio * (more + 1 - ratio + ratio * more))

    def excess(ratio: float) -> float:
        return abs(r.sum() - ratio * b.sum()) / deviation(ratio) - norm.ppf(0.975)

    found = rows[lane].scores[NUMBERS]
    expected = (seen, brentq(excess, 0.2, seen - 1e-9), brentq(excess, seen + 1e-9, 3))
    assert found.recovery == pytest.approx(expected, rel=1e-4)
    assert found.verdict
    assert found.verdict.outcome is (
        Outcome.SUPPORTED if expected[1] >= 0.98 else Outcome.NOT_SUPPORTED if expected[2] < 0.98 else Outcome.TOO_FEW
    )
