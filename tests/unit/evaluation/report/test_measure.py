"""Every number of a report, computed once more from the single results by pandas, SciPy and plain
loops."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import bootstrap, norm

from evaluation.recovery import (
    paired,
    possible,
    ratio_interval,
    verdict,
)
from evaluation.report.files import results_table
from evaluation.report.measure import measure
from evaluation.report.measured import METRICS
from evaluation.report.metrics import Mean, Pooled, Quartiles, ShareOfRuns
from evaluation.report.values import ALL, Report
from evaluation.statistics import BOOTSTRAP, Interval, tail_level
from storage.export import csv_text
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.report.drawn import (
    HARM,
    MARS,
    NONE,
    NUMBERS,
    STORIES,
    STRICT,
    FakeStore,
    drawn_results,
    reported,
    row_of,
    study_plan,
)

PLAN = study_plan()


@pytest.fixture(scope="module")
def report() -> Report:
    return reported(PLAN, drawn_results(PLAN))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """One row a result: lane, prompt, temperature, and all fields."""
    rows = []
    for row in drawn_results(PLAN):
        task = PLAN.task(row.task)
        setting = {name: getattr(task, name) for name in ("suite", "item", "temperature")}
        setting |= {"task": row.task, "lane": row.lane}
        rows.append(setting | row.data | row.data["scores"] | (row.relative or {}))
    frame = pd.DataFrame(rows)
    kept, draft_steps = frame.accepted + frame.relaxed, frame.drafted_at.str[0].fillna(0)
    return frame.assign(
        kept=kept,
        cut=1 - frame.ended,
        draft_steps=draft_steps,
        verified=draft_steps + kept,
        answer_tokens=frame.new_tokens - frame.reasoning_tokens,
        right=frame[NUMBERS].fillna(frame[STORIES]),
        unanswered=1 - frame.answered,
    )


def lanes_of(
    frame: pd.DataFrame, *lanes: int, suite: int = 0, temperature: float = 1.0
) -> list[pd.DataFrame]:
    part = frame[(frame.suite == suite) & (frame.temperature == temperature)]
    return [part[part.lane == lane].set_index("task", drop=False) for lane in lanes]


def found(average: Mean | Pooled | ShareOfRuns | Quartiles, lanes: dict[str, pd.DataFrame]) -> Any:
    """The value of a metric, as it is declared."""
    if isinstance(average, ShareOfRuns):
        return lanes[""][average.field].mean()
    if isinstance(average, Quartiles):
        return lanes[""][average.field].astype(float).median()

    def of(lane: pd.DataFrame) -> Any:
        top, bottom = (lane[name] if name else lane.task * 0 + 1 for name in average[:2])
        return top.sum() / bottom.sum() if isinstance(average, Pooled) else top / bottom

    value = of(lanes[""])
    if average.over:
        other = of(lanes[average.over])
        minus = isinstance(average, Pooled) and average.minus
        value = value - other if minus else value / other
    return value if isinstance(average, Pooled) else value.mean()


@pytest.mark.parametrize("lane", [NONE, MARS, HARM])
def test_values_are_what_pandas_finds(report: Report, frame: pd.DataFrame, lane: int) -> None:
    """Declared formulas are those of the documentation: tests/unit/test_docs.py."""
    row, lanes = row_of(report, lane), lanes_of(frame, lane, STRICT, NONE)
    every = dict(zip(("", "strict", "none"), lanes, strict=True))
    with np.errstate(invalid="ignore"):
        expected = {name: found(metric.average, every) for name, metric in METRICS.items()}
    assert {name: getattr(row, name).value for name in METRICS} == pytest.approx(
        expected, nan_ok=True
    )
    mine = lanes[0]
    quartiles = mine.divergence.astype(float).quantile([0.5, 0.25, 0.75])
    assert row.divergence == pytest.approx(tuple(quartiles), nan_ok=True)
    if lane != NONE:
        kept, drafted = (np.array(each.to_list()) for each in (mine.kept_at, mine.drafted_at))
        rates = kept.sum(axis=0) / drafted.sum(axis=0)
        assert row.acceptance_by_position == pytest.approx(tuple(rates))


@pytest.mark.parametrize(("lane", "suite"), [(MARS, 0), (HARM, 1)])
def test_intervals_are_scipys_bootstrap_of_prompts(
    report: Report, frame: pd.DataFrame, lane: int, suite: int
) -> None:
    """With SciPy's paired bootstrap and the same generator, to the last digit."""
    metric, group = ((NUMBERS, "sums"), (STORIES, "stories"))[suite]
    fields = ["new_tokens", "wall_s", "steps", metric]
    tables = [
        part.groupby("item")[fields].sum()
        for part in lanes_of(frame, lane, STRICT, NONE, suite=suite)
    ]
    samples = tuple(table[name].to_numpy(float) for table in tables for name in fields)

    def statistic(*columns: Any, axis: int) -> Any:
        sums = np.array([column.sum(axis) for column in columns])
        (tokens, wall, steps, score), strict, none = (sums[4 * at : 4 * at + 4] for at in range(3))
        return np.stack(
            [
                (tokens / wall) / (none[0] / none[1]),
                (tokens / steps) / (strict[0] / strict[2]),
                tokens / strict[0],
                (score - strict[3]) / (3 * len(tables[0])),
            ]
        )

    level = 1 - 2 * tail_level(len(tables[0]))
    interval = bootstrap(
        samples,
        statistic,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=BOOTSTRAP,
        confidence_level=level,
        rng=np.random.default_rng(0),
    ).confidence_interval
    row = row_of(report, lane, group)
    mine = [row.speedup, row.tau_ratio, row.length_ratio, row.scores[metric].difference]
    assert [one.low for one in mine] == pytest.approx(interval.low, rel=1e-9)
    assert [one.high for one in mine] == pytest.approx(interval.high, rel=1e-9)


@pytest.mark.parametrize("lane", [MARS, HARM])
def test_recovery_is_the_documented_formula_with_the_likelihood_maximised_numerically(
    lane: int,
) -> None:
    """From results.csv alone, as docs/reference/statistics.md says it."""
    store: Any = FakeStore(
        plan := study_plan(items=60, repeats=2, temperatures=(0.0,)), drawn_results(plan)
    )
    table = pd.read_csv(io.StringIO(csv_text(results_table(store, "study"))))
    by = table[table.suite == "sums"].pivot(
        index=["lane", "item"], columns="repeat", values=f"score:{NUMBERS}"
    )
    rule, strict = by.loc[lane], by.loc[STRICT]
    gained, lost = (int(((rule - strict) == sign).to_numpy().sum()) for sign in (1, -1))
    both, n = int((rule * strict).to_numpy().sum()), len(rule)
    r, b = rule.sum(axis=1), strict.sum(axis=1)
    observed = r.sum() / b.sum()
    effect = (((r - observed * b) ** 2).sum() + (b**2).sum() / n) / (
        observed * (gained + lost) + b.sum() / n
    )

    def deviation(ratio: float) -> float:
        def loss(more: float) -> float:
            cells = (ratio - (1 + ratio) * more, more, 1 - ratio + ratio * more)
            return -sum(
                c * math.log(max(cell, 1e-300))
                for c, cell in zip((both, gained, lost), cells, strict=True)
            )

        ends = (max(0.0, 1 - 1 / ratio), ratio / (1 + ratio))
        more = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
        return math.sqrt(
            max(1, effect) * (both + gained + lost) * ratio * (more + 1 - ratio + ratio * more)
        )

    def excess(ratio: float) -> float:
        return abs(r.sum() - ratio * b.sum()) / deviation(ratio) - norm.ppf(0.975)

    actual = row_of(measure(store, "study"), lane, temperature=0.0).scores[NUMBERS]
    expected = (observed, brentq(excess, 0.2, observed - 1e-9), brentq(excess, observed + 1e-9, 3))
    assert actual.recovery == pytest.approx(expected, rel=1e-4)
    assert actual.verdict is verdict(Interval(*expected), n, plan.margin)


def test_prompts_of_one_template_are_one_prompt_in_an_interval_beside_the_other() -> None:
    (suite, *_) = study_plan().suites
    named = tuple(replace(item, template=item.category) for item in suite.items)
    plan = study_plan(suites=(replace(suite, items=named),), repeats=1, temperatures=(0.0,))
    results = drawn_results(plan)
    score = row_of(reported(plan, results), HARM, temperature=0.0).scores[NUMBERS]
    rule, strict = (
        np.array([row.data["scores"][NUMBERS] for row in results if row.lane == lane])
        for lane in (HARM, STRICT)
    )
    pairs = paired(rule, strict, np.arange(40) % 2, binary=True)
    by_template = possible(ratio_interval(pairs), strict)
    assert score.recovery_template == by_template
    assert by_template.low < score.recovery.low
    alone = replace(plan, suites=(suite,))
    (blank,) = row_of(reported(alone, results), HARM, temperature=0.0).scores.values()
    assert np.isnan(blank.recovery_template).all() and blank.recovery == score.recovery


def test_recovery_is_unknown_where_strict_scores_nothing() -> None:
    scoreless = [
        replace(each, data=each.data | {"scores": dict.fromkeys(each.data["scores"], 0.0)})
        for each in drawn_results(PLAN)
    ]
    for row in reported(PLAN, scoreless).measured:
        for score in row.scores.values():
            assert np.isnan([*score.recovery, *score.recovery_none]).all()


def test_all_suites_together_score_every_item_by_its_metric(
    report: Report, frame: pd.DataFrame
) -> None:
    scores = row_of(report, MARS, ALL).scores
    assert list(scores) == ["main", NUMBERS, STORIES]
    mine = frame[(frame.lane == MARS) & (frame.temperature == 1)]
    assert scores["main"].value.value == pytest.approx(mine[NUMBERS].fillna(mine[STORIES]).mean())
    assert scores["main"].mcnemar is None


def test_holm_corrects_suites_main_metrics_only(report: Report) -> None:
    tests = {
        (row.group, row.temperature, row.lane): score.mcnemar
        for row in report.measured
        for score in row.scores.values()
        if score.mcnemar
    }
    family = [("sums", temperature, lane) for temperature in (0.0, 1.0) for lane in (MARS, HARM)]
    assert {key for key, test in tests.items() if not math.isnan(test.p_holm)} == set(family)
    smallest = min(family, key=lambda key: tests[key].p_by_prompt)
    assert tests[smallest].p_holm == pytest.approx(4 * tests[smallest].p_by_prompt)


def test_prompts_come_worst_first_and_name_their_worst_run(
    report: Report, frame: pd.DataFrame
) -> None:
    assert len(report.prompts) == 3 * 60 * 2
    assert [row.lost for row in report.prompts] == sorted(
        (row.lost for row in report.prompts), reverse=True
    )
    worst = report.prompts[0]
    suite = [suite.name for suite in PLAN.suites].index(worst.suite)
    item = [item.id for item in PLAN.suites[suite].items].index(worst.item)
    parts = lanes_of(frame, worst.lane, STRICT, suite=suite, temperature=worst.temperature)
    mine, strict = (part[part.item == item] for part in parts)
    change = mine[NUMBERS] - strict[NUMBERS]
    expect(worst, lost=-change.clip(upper=0).sum(), gained=change.clip(lower=0).sum())
    expect(worst, runs=3, differ=(~mine.same.astype(bool)).sum(), divergence=mine.divergence.min())
    assert worst.length_ratio == pytest.approx(mine.new_tokens.sum() / strict.new_tokens.sum())
    baseline, rule = (int(run[:16], 16) for run in worst.worst)
    assert baseline == rule and change[rule] == change.min()


def test_a_run_is_not_compared_where_its_baseline_has_no_time() -> None:
    """As in a batch, of which some tasks run alone."""
    task, results = PLAN.task(0), drawn_results(PLAN)
    suite = PLAN.suites[task.suite].name

    def speedup(*untimed: int) -> Interval:
        known = [
            replace(row, data=row.data | {"wall_s": "nan"})
            if row.task == 0 and row.lane in untimed
            else row
            for row in results
        ]
        report = reported(PLAN, known)
        return row_of(report, MARS, suite, task.temperature).speedup_strict

    assert np.isfinite(speedup(STRICT)).all() and speedup(STRICT) == speedup(STRICT, MARS)
