"""Figures say what the traces say, on one scale, and their values, CSV and library are harmless wherever they are shown."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import plotly.graph_objects as go
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from evaluation.report.files import csv_text
from mars_core.types import Outcome, RuleConfig, Trace
from storage.export import guarded
from tests.traces import make_trace, make_tree_trace
from ui.figures.acceptance import acceptance_plot
from ui.figures.margins import margin_plot
from ui.figures.plot import ROW, THEMED, Data, Plot, Run, Scale, margin_scale
from ui.kit.figure import SOURCE, figure_component, figure_json, plotly_file
from ui.kit.theme import page_css

LEFT, RIGHT = make_trace(rule="strict", new_tokens=150), make_trace(rule="mars", new_tokens=150, theta=0.85)


def margins(trace: Trace, scale: Scale | None = None) -> go.Figure:
    return margin_plot(Run(trace, 0, "run"), scale or margin_scale([trace])).figure


def test_both_runs_share_one_scale_with_theta_on_it() -> None:
    scale = margin_scale([LEFT, RIGHT])
    assert (scale.name, scale.border, scale.caption) == ("r", 0.85, "θ = 0.85")
    left, right = (margins(trace, scale).data[0] for trace in (LEFT, RIGHT))
    assert (left.zmin, left.zmax) == (right.zmin, right.zmax) and left.colorscale == right.colorscale
    assert 0.85 in left.colorbar.tickvals


def test_the_colour_scale_rises_from_zero_to_one_for_every_theta() -> None:
    for theta in (0.0, 0.5, 0.84, 0.9, 0.98, 1.0):
        places = [place for place, _ in margins(make_trace(rule="mars", theta=theta)).data[0].colorscale]
        assert places[0] == 0 and places[-1] == 1 and places == sorted(places), theta


def test_every_token_has_its_cell_and_every_cell_its_token() -> None:
    """A place without a ratio counts as decisive; outcomes are marked by shape at their cells."""
    scale = margin_scale([RIGHT])
    plot = margin_plot(Run(RIGHT, 0, "run"), scale)
    assert [row[0] for row in plot.data.rows] == list(range(150))
    heat, *others = plot.figure.data
    assert sum(z is not None for row in heat.z for z in row) == 150
    assert [heat.customdata[1][3][at] for at in (1, 10)] == [RIGHT.tokens[ROW + 3].outcome.value, str(ROW + 3)]
    cells = [z for row in heat.z for z in row]
    lost = [token.position for token in RIGHT.tokens if math.isnan(token.r)]
    assert lost and all(cells[position] == round(scale.low, 4) for position in lost)
    marks = {trace.name: trace for trace in others}
    expected = [token.position for token in RIGHT.tokens if token.outcome is Outcome.RELAXED]
    relaxed = marks["relaxed"]
    assert [ROW * y + x for x, y in zip(relaxed.x, relaxed.y, strict=True)] == expected
    assert len({trace.marker.symbol for trace in marks.values()}) == len(marks)


def test_the_gap_rule_is_drawn_on_its_own_quantity() -> None:
    trace = make_trace(rule="mars-gap")
    trace = replace(trace, config=replace(trace.config, rule=RuleConfig("mars-gap", {"gap": 0.7})))
    scale = margin_scale([LEFT, trace])
    assert scale.name == "e^−gap" and scale.border == pytest.approx(math.exp(-0.7)) and scale.caption == "g = 0.7"


def test_acceptance_counts_are_the_summarys() -> None:
    for trace in (LEFT, RIGHT, make_tree_trace(new_tokens=90)):
        rows = acceptance_plot([Run(trace, 0, "run")]).data.rows
        assert [row[4] + row[5] for row in rows] == pytest.approx(list(trace.summary.acceptance_by_position))


def test_relaxed_bars_stand_on_the_accepted_ones_and_a_lane_keeps_its_colour() -> None:
    left, right = Run(LEFT, 1, "Strict"), Run(RIGHT, 0, "MARS")
    alone = acceptance_plot([left]).figure.data[0].marker.color
    assert alone == acceptance_plot([right, left]).figure.data[-1].marker.color
    figure = acceptance_plot([Run(LEFT, 0, "Strict"), Run(RIGHT, 1, "MARS")]).figure
    assert [bar.name for bar in figure.data] == ["Strict: accepted", "MARS: accepted", "MARS: relaxed"]
    assert list(figure.data[2].base) == list(figure.data[1].y)


NAN, INFINITY = float("nan"), float("inf")


def test_the_value_is_ascii_without_a_tag_whatever_it_carries() -> None:
    words = ("</script><script>", "\ud800", "\u2028", "<img onerror=x>", "=1+1")
    trace = make_trace(words=words, rule="mars", new_tokens=20)
    text = figure_json(margin_plot(Run(trace, 0, "</b>"), margin_scale([trace])))
    assert text.isascii() and "<" not in text
    assert set(json.loads(text)) == {"figure", "csv", "title"}
    assert json.loads(figure_json(None)) is None


def test_what_json_has_not_becomes_a_gap() -> None:
    figure = go.Figure(go.Scatter(x=np.array([1.0, NAN]), y=[INFINITY, 2.0]))
    sent = json.loads(figure_json(Plot(figure, Data((), ()), "t")))
    assert sent["figure"]["data"][0]["y"] == [None, 2.0]


def test_the_csv_is_rfc_4180_and_guards_formulas() -> None:
    rows = (("=1+1", 1, 0.1, None), ('a "b", c\nd', -3, NAN, INFINITY), ("@x", 0, -0.5, True))
    text = csv_text([("piece", "n", "+x", "y"), *rows])
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[1:] == [["'=1+1", "1", "0.1", ""], ['a "b", c\nd', "-3", "", "inf"], ["'@x", "0", "-0.5", "true"]]
    assert text.endswith("\r\n") and '"a ""b"", c\nd"' in text
    assert read[1][0] == guarded("=1+1")


def test_every_colour_of_a_theme_is_a_variable_of_the_page() -> None:
    own = [name for name in THEMED.values() if name.startswith("--mars-")]
    assert len(own) == 5 and all(f"{name}:" in page_css() for name in own)


def test_the_library_is_served_from_the_installed_package_and_kept() -> None:
    answer = TestClient(Starlette(routes=[Route(f"/{SOURCE}", partial(plotly_file, None))])).get(f"/{SOURCE}")
    assert answer.status_code == 200 and "plotly.js" in answer.text[:200]
    assert "immutable" in answer.headers["cache-control"] and answer.headers["content-type"].startswith(
        "text/javascript"
    )


def test_the_component_knows_its_texts_before_its_properties_arrive() -> None:
    component = figure_component(scope="s", name="n", label="Label", empty="None.")
    assert str(component.js_on_load).startswith('const GIVEN = {"scope":"s","name":"n","label":"Label","empty":"None."')
