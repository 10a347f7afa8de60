"""When does it pay: the panel of a comparison, what its fields change, and hostile fields."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from evaluation.planner import acceptance_of, costs_of, planned, times_of
from tests.panels import read_panel
from tests.traces import make_trace
from tests.unit.ui.places import records
from ui.result.planner_panel import NOTHING, Fields, PlannerPanel, planner_html, runs_of

TRACES = {lane: make_trace(rule=rule, new_tokens=60) for lane, rule in ((0, "none"), (1, "strict"), (3, "mars"))}


def drawn(**fields: Any) -> str:
    return planner_html(Fields(runs=runs_of(TRACES), **fields))


def rows(html: str) -> list[dict[str, str]]:
    return records(json.loads(read_panel(html).all(".mars-quality-chart")[0].attributes["data-csv"]))


def test_the_runs_that_drafted_are_planned_with_the_pass_of_the_one_that_did_not() -> None:
    runs = runs_of(TRACES)
    assert [(run.lane, len(run.acceptance.rates)) for run in runs] == [(1, 5), (3, 5)]
    trace, times, single = TRACES[1], times_of(TRACES[1]), times_of(TRACES[0])
    acceptance = acceptance_of(trace)
    assert times is not None and single is not None and acceptance is not None
    costs = costs_of(times, single.pass_s)
    assert (runs[0].draft, runs[0].slope) == (costs.draft, costs.slope)
    table = rows(drawn())
    expected = planned(acceptance, costs._replace(budget=256))
    assert [float(row["speedup"]) for row in table] == pytest.approx([each.speedup for each in expected])
    assert [row["extrapolated"] for row in table] == ["false"] * 5 + ["true"] * 11


def test_fields_change_the_plan_and_another_run_brings_its_own_costs() -> None:
    measured = rows(drawn())
    assert rows(drawn(was=0, draft=40))[0]["speedup"] < measured[0]["speedup"]
    assert float(rows(drawn(was=0, draft=-100, batch=8))[4]["speedup"]) < float(measured[4]["speedup"])
    assert rows(drawn(was=0, draft=-300, batch=10, budget=1))[0]["speedup"] < "1"
    assert "It does not pay" in drawn(was=0, draft=40, batch=10)
    other = drawn(run=1, was=0, draft=40)
    assert rows(other) == rows(drawn(run=1))  # the slider follows


def test_where_nothing_was_drafted_a_sentence_says_so_and_a_label_is_text() -> None:
    assert NOTHING in planner_html(None) and runs_of({0: TRACES[0]}) == runs_of({}) == []
    run = runs_of(TRACES)[0]._replace(label="<script>alert(1)</script>\u202e")
    html = planner_html(Fields([run]))
    assert "<script" not in html and "\u202e" not in html


@pytest.mark.parametrize(
    "change",
    [
        {"runs": []}, {"runs": "x"}, {"runs": [{}]}, {"budget": 0}, {"run": 7}, {"was": None}, {"lane": 9}, {"slope": "Infinity"},
        {"slope": 1e308, "budget": 1e-308}, {"acceptance": [["x"], 0.5, [1], False]},
        {"acceptance": [[float("nan")], 0.5, [1], False]}, {"label": "\ud800"},
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_changes_nothing(change: dict[str, Any]) -> None:
    run: dict[str, Any] = runs_of(TRACES)[0]._asdict()
    changed = run | {name: change[name] for name in change.keys() & run.keys()}
    fields = {"runs": [list(changed.values())], "was": 0, "draft": "-100"}
    event: Any = SimpleNamespace(_data=fields | {name: change[name] for name in change.keys() - run.keys()})
    assert PlannerPanel._draw(event) == gr.skip()
