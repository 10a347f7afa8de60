"""Sweeps without a browser: over a small real pair; their form, table, chart, list and CSV, from
results made by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest
from starlette.testclient import TestClient

from evaluation.study.pairs import Paired, Sweep, load_sweep
from evaluation.study.plan import Models, Plan
from evaluation.study.points import LEAST_PAIRS, PAIR_HEADS, POINT_HEADS, Cost, optimal, points
from evaluation.study.sweep import Case, Grid, cells, sweep_plan, values_of
from mars_core.models import PairSpec
from mars_core.rules import RULES
from mars_core.types import ModelRef, Status
from storage import RunStore, Search, Source, StorageError
from tests.unit.storage.exports import parsed
from tests.unit.ui.places import client_of, lose_device, place_of, said
from ui.figures.plot import Plot
from ui.figures.tradeoff import LABELLED, PUBLISHED, tradeoff_plot
from ui.jobs.services import Services
from ui.tabs.study import downloads
from ui.tabs.study.lists import estimated, numbers
from ui.tabs.study.studies import sweeps_html
from ui.tabs.sweep.form import (
    SweepForm,
    examples,
    other_parameters,
    read_cases,
    suggestion,
    write_cases,
)
from ui.tabs.sweep.panels import pairs_html, settings_html
from ui.tabs.sweep.run import SweepFrame, closing_strip, run
from ui.tabs.sweep.tab import chart_json

FORM = SweepForm(
    prompts="Once upon a time => the\n2 + 2 =",
    pair="bundled",
    rule="mars",
    parameter="theta",
    values="0.1, 0.9",
    temperatures="1",
    ks="3",
    max_new_tokens=16,
    seed=3,
)


def reopened(services: Services, sweep_id: str) -> SweepFrame:
    sweep = load_sweep(services.store, sweep_id)
    return SweepFrame(closing_strip(sweep), sweep)


def swept(frames: list[SweepFrame]) -> Sweep:
    return next(frame.shown for frame in reversed(frames) if frame.shown)


@pytest.fixture(scope="module")
def frames(lasting: Services) -> list[SweepFrame]:
    """Of the sweep of FORM."""
    return list(run(lasting, FORM, "visitor"))


def test_a_sweep_is_a_study_of_every_setting_on_every_prompt(
    lasting: Services, frames: list[SweepFrame]
) -> None:
    state, words = said(frames[-1])
    assert state == "done", words
    sweep = swept(frames)
    assert words.startswith("All 4 comparisons ran. With fewer than 5 pairs a setting no fastest")
    assert len(sweep.pairs) == 4
    found = points(sweep.plan, sweep.pairs)
    assert [point.n for point in found] == [2, 2] and [point.scored for point in found] == [1, 1]
    assert len({pair.comparison for pair in sweep.pairs}) == 2  # one a prompt, with all lanes
    for pair in sweep.pairs:
        stored = lasting.store.load(pair.comparison)
        assert (stored.source, len(stored.runs)) == (Source.SWEEP, 3)
        strict, mars = (
            next(run for run in stored.runs if run.id == run_id).trace for run_id in pair.runs
        )
        assert (strict.config.rule.name, mars.config.rule.name) == ("strict", "mars")
        assert mars.config.rule.parameters == {"theta": pair.value}
        assert strict.config.seed == mars.config.seed == 3 + pair.case
        assert (pair.strict_tokens, pair.tokens) == (len(strict.tokens), len(mars.tokens))
        assert pair.tokens_per_s == pytest.approx(mars.summary.tokens_per_s)
    assert lasting.store.find(Search(source=Source.SWEEP)).total == 2
    (study,) = lasting.store.studies(sweeps=True)
    assert (study.id, study.tasks, study.done, lasting.store.studies()) == (sweep.id, 2, 2, ())
    assert reopened(lasting, sweep.id) == frames[-1]


def test_the_page_shows_every_pair_that_ended(frames: list[SweepFrame]) -> None:
    seen = [len(frame.shown.pairs) for frame in frames if frame.shown]
    assert (
        seen[0] == 0 and sorted(seen) == seen and {0, 2, 4} <= set(seen)
    )  # strict may be the last of a prompt
    progress = [frame.strip.progress for frame in frames if said(frame)[0] == "running"]
    assert progress == sorted(progress) and progress[-1] <= 1
    assert any(frame.strip.side.endswith("to go") for frame in frames)


@pytest.mark.parametrize("end", ["stop", "close", "kill"])
def test_a_stop_a_closed_tab_or_a_killed_process_leaves_the_pairs_that_ended(
    services: Services, end: str
) -> None:
    frames = run(services, replace(FORM, max_new_tokens=120), "visitor")
    shown = next(frame.shown for frame in frames if frame.shown and len(frame.shown.pairs) == 2)
    if end == "stop":
        services.stops.request("visitor")
        last = list(frames)[-1]
        assert said(last)[1].startswith("Stopped after 2 of 4 comparisons; what ended is stored")
        assert said(reopened(services, shown.id)) == said(last)
        sweep = load_sweep(services.store, shown.id)
        assert (sweep.status, len(sweep.pairs)) == (Status.CANCELLED, 2)
    else:
        next(frames)
    if end == "close":
        frames.close()  # type: ignore[attr-defined]
    assert end == "kill" or not services.store.claims(shown.id)
    state, words = said(reopened(services, shown.id))
    assert state == "cancelled" and words.startswith("Stopped after 2 of 4 comparisons")
    statuses = [status for row in services.store.comparisons()["status"] for status in row]
    assert set(statuses) == {Status.COMPLETED}  # not the run under way
    for unknown in ("", "0" * 32, "<img onerror>"):
        with pytest.raises((ValueError, StorageError)):
            reopened(services, unknown)


def test_a_run_that_breaks_ends_the_sweep_with_its_reason(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_device(monkeypatch, 30)
    frames = list(run(services, FORM, "visitor"))
    state, words = said(frames[-1])
    assert state == "failed" and "The device is gone; " in words and "stack" not in words
    assert said(reopened(services, swept(frames).id)) == (state, words)


def test_a_tree_has_no_k_and_a_rule_without_parameters_no_values(
    services: Services, head: PairSpec
) -> None:
    form = replace(
        FORM,
        prompts="Once",
        pair="eagle",
        drafter="eagle3",
        tree_tokens=6,
        tree_depth=3,
        tree_top_k=2,
        ks="no matter",
        mode="greedy",
    )
    place = replace(services, catalog=(head,))
    frames = list(run(place, form, "visitor"))
    assert said(frames[-1])[0] == "done", said(frames[-1])
    shown = swept(frames)
    assert [cell.k for cell in cells(shown.plan)] == [None, None]
    assert reopened(services, shown.id) == frames[-1]
    assert "<td>tree of 6</td>" in settings_html(shown, Cost.TV)
    chain = list(
        run(place, replace(form, shape="chain", ks="3", rule="block", values=""), "visitor")
    )
    assert said(chain[-1])[0] == "done" and "Block verification" in settings_html(
        swept(chain), Cost.TV
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompts": " \n"}, "There is no prompt"),
        ({"prompts": "2 + 2 = =>"}, "nothing after =>"),
        ({"values": "0.9, x"}, "'x' among the θ is not a number"),
        ({"values": "0.9:0.8:0.1"}, "The range 0.9:0.8:0.1 of θ"),
        ({"values": "0:1:0.0001"}, "The range 0:1:0.0001 of θ"),
        ({"values": "2"}, "theta is 2; rule mars takes 0 to 1."),
        ({"values": ""}, "The list of values of theta is empty"),
        ({"ks": "2.5"}, "K is 2.5; it must be a whole number."),
        ({"ks": "100"}, "K is 100"),
        ({"ks": "nan"}, "'nan' among the K"),
        ({"temperatures": "-1"}, "temperature is -1"),
        ({"rule": "vars"}, "The rule is 'vars'"),
        ({"rule": "strict"}, "is the baseline"),
        ({"parameter": "gap"}, "The parameter of rule mars is 'gap'"),
        ({"others": "theta"}, "'theta' is not a parameter"),
        ({"others": "beta = 1"}, "no parameter beta"),
        ({"repeats": None}, "repeats is empty"),
        ({"repeats": 100, "ks": "1,2,3,4,5"}, "The sweep has 3,000 runs; it must be at most 2,000"),
        ({"max_new_tokens": 4096}, "Prompt 1 has"),
        ({"top_p": 0}, "top_p is 0"),
        ({"drafter": "none"}, "The drafter is none"),
        ({"drafter": "eagle3"}, "has no EAGLE-3 head"),
        (
            {"drafter": "ngram", "rule": "ensemble", "parameter": "weight"},
            "needs the drafter's probabilities",
        ),
        ({"pair": "custom", "own_target": "/nowhere"}, "/nowhere"),
    ],
)
def test_a_bad_value_gets_one_sentence_and_saves_nothing(
    services: Services, change: dict[str, Any], words: str
) -> None:
    state, sentence = said(list(run(services, replace(FORM, **change), "visitor"))[-1])
    assert (
        state == "failed" and words in sentence and sentence.endswith(".") and "\n" not in sentence
    )
    assert services.store.count() == 0 and services.store.studies(sweeps=True) == ()


def test_prompts_are_lines_or_blocks_with_answers() -> None:
    assert read_cases("a\n\n b => 2 \nc => d => 3") == (
        Case("a"),
        Case("b", "2"),
        Case("c => d", "3"),
    )
    assert read_cases("a\nb\n---\nc\n => 4\n---\n\n") == (Case("a\nb"), Case("c", "4"))
    for cases in ((Case("a"), Case("b", "2")), (Case("a\nb"), Case("c", "4"))):
        assert read_cases(write_cases(cases)) == cases
    first, second = examples(0), examples(1)
    assert (
        len(set(first + second)) == 16
        and all(case.reference.isdecimal() for case in first)
        and examples(10**6)
    )
    assert read_cases(write_cases(first)) == first


def test_suggested_values_are_the_rules_own_and_the_estimate_counts_what_is_run(
    services: Services,
) -> None:
    assert (
        numbers("0.8:0.9:0.05, 1; 2", "θ") == (0.8, 0.85, 0.9, 1.0, 2.0) and numbers("", "θ") == ()
    )
    assert estimated(services, replace(FORM, ks="3 5", repeats=2)) == (
        "2 prompts × 2 repeats × 2 K × 2 values = 16 comparisons with strict, 24 runs, at most 384 new tokens."
    )
    for rule, parameter in [
        (name, each) for name, found in RULES.items() for each in found.parameters
    ]:
        others = other_parameters(rule, parameter.name)
        form = replace(
            FORM, rule=rule, parameter=parameter.name, values=suggestion(parameter), others=others
        )
        plan = form.plan(services.catalog[0])
        assert len(values_of(plan)) >= 2 and parameter.default in values_of(plan)


def test_the_table_has_every_setting_and_its_pairs_lead_to_history(
    frames: list[SweepFrame],
) -> None:
    sweep = swept(frames)
    head, *rows = re.findall("<tr.*?</tr>", settings_html(sweep, Cost.DIFFER), re.DOTALL)
    assert [re.search(r"<button[^>]*>([\d.]+)<", row)[1] for row in rows] == ["0.1", "0.9"]  # type: ignore[index]
    assert {len(re.findall("<t[dh]", row)) for row in rows} == {head.count("<th")}
    assert not any('class="best"' in row for row in rows)  # two pairs a setting are too few
    for pair in sweep.pairs:
        shown = pairs_html(sweep, cells(sweep.plan).index(pair.cell))
        assert (
            f'{{"comparison": "{pair.comparison}", "runs": ["{pair.runs[0]}", "{pair.runs[1]}"]}}'
            in shown
        )


HOSTILE = "<img onerror=alert(1)> {{7*7}} </script> \u202eabc"
CASES = (Case("=cmd()", "1"), Case(HOSTILE))


def planned(*values: float) -> Plan:
    grid = Grid("mars", "theta", values, (3, 5))
    return sweep_plan(Models("bundled", ModelRef("a/b")), CASES, grid, temperatures=(0.0, 1.0))


PLAN = planned(0.8, 0.9, 0.95)


def result(at: int, case: int) -> Paired:
    """Setting number ``at``: the later, the faster and the further from strict."""
    cell = cells(PLAN)[at]
    right = None if case else at % 2 == 0
    return Paired(
        comparison=f"{at * 2 + case:032x}",
        runs=(),
        case=case,
        repeat=0,
        temperature=cell.temperature,
        k=cell.k,
        value=cell.value,
        strict_tokens_per_s=100.0,
        tokens_per_s=100.0 + at,
        strict_tokens=40,
        tokens=40,
        strict_steps=20,
        steps=15,
        relaxed=at,
        tv_sum=at / 10,
        divergence=at if at > 5 else None,
        cause="relaxed" if at > 5 else "",
        strict_right=None if case else True,
        right=right,
    )


RESULTS = tuple(result(at, case) for case in (0, 1) for at in range(12))
MANY = 3 * RESULTS  # enough pairs of every setting for a Pareto front
SHOWN = Sweep("a" * 32, PLAN, RESULTS, Status.COMPLETED)


def plotted(pairs: Sequence[Paired], cost: Cost = Cost.TV, plan: Plan = PLAN) -> Plot:
    plot = tradeoff_plot(plan, points(plan, pairs), cost)
    return plot


@pytest.mark.parametrize("cost", list(Cost))
def test_the_chart_is_a_figure_that_plotly_takes(cost: Cost) -> None:
    """A click on a point names its row."""
    plot = plotted(RESULTS, cost)
    go.Figure(plot.figure.to_plotly_json())  # validates
    front, *groups, paper = plot.figure.data
    assert front.name == "Pareto front" and paper.name == "Paper: MARS / EAGLE-3"
    assert [trace.name for trace in groups] == [
        "T = 0, K = 3",
        "T = 0, K = 5",
        "T = 1, K = 3",
        "T = 1, K = 5",
    ]
    assert len({(trace.marker.color, trace.marker.symbol) for trace in groups}) == 4
    rows = [texts[trace.meta["position"]] for trace in groups for texts in trace.customdata]
    assert rows == list(range(len(cells(PLAN))))


def test_the_papers_points_share_only_the_height() -> None:
    plot = plotted(RESULTS, Cost.DIFFER)
    *others, paper = plot.figure.data
    assert paper.xaxis == "x2" and list(paper.y) == [
        entry.mars / entry.strict for entry in PUBLISHED
    ]
    assert "x2" not in {trace.xaxis for trace in others}
    assert "T = 1, K = 7, arXiv 2601.15498" in plot.title and "gives no such cost" in plot.title


def test_the_front_in_the_chart_is_the_front_of_the_points() -> None:
    found = points(PLAN, MANY)
    for cost in Cost:
        plot, best = plotted(MANY, cost), optimal(found, cost)
        assert best and "on the Pareto front" in plot.title
        assert list(plot.figure.data[0].x) == [found[row].cost(cost) for row in best]
        assert [
            row for row, values in enumerate(plot.data.rows[: len(found)]) if values[-1] == "true"
        ] == sorted(best)
    few, plot = points(PLAN, 2 * RESULTS), plotted(2 * RESULTS)
    assert {point.n for point in few} == {4} and optimal(few, Cost.TV) == () == tuple(
        plot.figure.data[0].x
    )
    assert "no Pareto front from fewer than 5 pairs" in plot.title
    # its CSV has the same numbers
    rows = parsed(json.loads(chart_json(SHOWN, Cost.TV))["csv"])
    found = points(PLAN, RESULTS)
    assert [float(row["speedup"]) for row in rows[:12]] == [point.speedup.value for point in found]
    assert [float(row["tv"]) for row in rows[:12]] == [point.tv for point in found]
    assert [row["value"] for row in rows[12:]] == [entry.target for entry in PUBLISHED]


def test_settings_without_the_cost_are_not_drawn_and_none_leaves_no_chart() -> None:
    bare = [replace(result, right=None, strict_right=None) for result in RESULTS]
    assert tradeoff_plot(PLAN, points(PLAN, bare), Cost.SCORE_LOSS) is None
    assert tradeoff_plot(PLAN, points(PLAN, ()), Cost.TV) is None
    assert [row[0] for row in plotted(RESULTS[:3]).data.rows].count("sweep") == 3


def test_many_points_carry_no_text_but_on_the_front() -> None:
    values = tuple(at / 100 for at in range(40))
    pairs = LEAST_PAIRS * [replace(RESULTS[0], value=value, tv_sum=value) for value in values]
    shown = plotted(pairs, plan=planned(*values)).figure.data[1].text
    assert len(values) > LABELLED and [text for text in shown if text] == ["0"]


def test_the_table_marks_the_front_of_the_chosen_trade_off() -> None:
    many = replace(SHOWN, pairs=MANY)
    for cost in Cost:
        rows = re.findall(
            r'<tr class="(.*?)" data-event="select" data-value=\'(.*?)\'>',
            settings_html(many, cost),
        )
        assert [json.loads(value) for _, value in rows] == [
            {"sweep": SHOWN.id, "row": row} for row in range(12)
        ]
        best = {at for at, (kind, _) in enumerate(rows) if kind == "best"}
        assert best and best == set(optimal(points(PLAN, MANY), cost))
    assert "tbody" not in settings_html(None, Cost.TV)


def test_hostile_prompts_are_text_and_nothing_else() -> None:
    shown = pairs_html(SHOWN, 0)
    assert "&lt;img onerror=alert(1)&gt; {{7*7}} &lt;/script&gt; ⟨U+202E⟩abc" in shown
    assert "<img" not in shown and "<script" not in shown and "\u202e" not in shown
    absent = [*(pairs_html(SHOWN, row) for row in (-1, 12, 10**9)), pairs_html(None, 0)]
    assert not any(html.strip() for html in absent)


def test_sweeps_are_listed_latest_first_without_other_studies(store: RunStore) -> None:
    study = store.new_study("quality", replace(PLAN, varied=None).as_dict(), PLAN.tasks)
    assert sweeps_html(place_of(store), "") == ""
    with pytest.raises(ValueError, match="not a sweep"):
        load_sweep(store, study)
    first, second = (
        store.new_study(f"mars, θ {HOSTILE}", PLAN.as_dict(), PLAN.tasks) for _ in range(2)
    )
    shown = sweeps_html(place_of(store), first)
    assert (
        re.findall('"id": "([0-9a-f]{32})"', shown) == [second, first]
        and f'data-opened="{first}"' in shown
    )
    assert "0 of 4 tasks" in shown and "unfinished" in shown and "<img" not in shown


def test_a_sweep_of_another_version_is_not_opened_and_hides_none(store: RunStore) -> None:
    broken, whole = (store.new_study("", plan, 1) for plan in ({"varied": "flux"}, PLAN.as_dict()))
    assert re.findall('"id": "([0-9a-f]{32})"', sweeps_html(place_of(store), "")) == [whole, broken]
    with pytest.raises(ValueError, match="saved by another version"):
        load_sweep(store, broken)


@pytest.fixture
def client(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """It has SHOWN."""
    loaded = {SHOWN.id: SHOWN}
    monkeypatch.setattr(
        downloads, "load_sweep", lambda own, id_: loaded.get(id_) or load_sweep(own, id_)
    )
    return client_of(place_of(store))


def test_the_csv_has_what_the_table_shows(client: TestClient) -> None:
    answer = client.get(f"/downloads/sweep.csv?sweep={SHOWN.id}")
    rows = parsed(answer.text)
    assert answer.headers["content-type"].startswith("text/csv") and tuple(rows[0]) == POINT_HEADS
    found = points(PLAN, RESULTS)
    for row, point in zip(rows, found, strict=True):
        assert float(row["speedup"]) == point.speedup.value and int(row["comparisons"]) == point.n
        assert float(row["tv_mean"]) == point.tv and float(row["score_low95"]) == point.score.low
        assert math.isnan(point.divergence) == (row["first_divergence_median"] == "")
    for cost in Cost:
        assert [row[f"pareto_{cost}"] == "true" for row in rows] == [
            at in optimal(found, cost) for at in range(12)
        ]


def test_the_comparisons_csv_leads_to_every_pair_and_holds_no_formula(client: TestClient) -> None:
    answer = client.get(f"/downloads/sweep-comparisons.csv?sweep={SHOWN.id}")
    rows = parsed(answer.text)
    assert tuple(rows[0]) == PAIR_HEADS
    assert [row["comparison"] for row in rows] == [result.comparison for result in RESULTS]
    assert [float(row["speedup"]) for row in rows] == [result.speedup for result in RESULTS]
    assert rows[0]["prompt"] == "'=cmd()" and rows[12]["prompt"] == HOSTILE
    for query, status in (("", 400), ("?sweep=x", 400), (f"?sweep={'0' * 32}", 404)):
        answer = client.get(f"/downloads/sweep.csv{query}")
        assert answer.status_code == status and answer.text.endswith(".\n")
