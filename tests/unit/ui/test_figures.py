"""Figures say what the traces say: every token, second, judgement and node once, on one scale;
their values are harmless anywhere."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path

import plotly
import plotly.graph_objects as go
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from display.figure import LIBRARY
from mars_core.types import Outcome, Status, Trace
from tests.traces import make_trace, make_tree_trace
from ui.figures.acceptance import acceptance_plot
from ui.figures.margins import margin_plot
from ui.figures.ratio import ratio_plot
from ui.figures.runs import PlottedRun, Scale, margin_scale
from ui.figures.shift import shift_plot
from ui.kit.assets import SOURCE, plotly_file
from ui.result.result import ended_result, unsaved

LEFT, RIGHT = (
    make_trace(rule="strict", new_tokens=150),
    make_trace(rule="mars", new_tokens=150, theta=0.85),
)


def margins(trace: Trace, scale: Scale | None = None) -> go.Figure:
    return margin_plot(PlottedRun(trace, 0, "run"), scale or margin_scale([trace])).figure


def test_both_runs_share_one_scale_with_theta_on_it() -> None:
    scale = margin_scale([LEFT, RIGHT])
    assert (scale.name, scale.border, scale.caption(0.85)) == ("r", 0.85, "θ = 0.85")
    left, right = (margins(trace, scale).data[0] for trace in (LEFT, RIGHT))
    assert (left.zmin, left.zmax) == (
        right.zmin,
        right.zmax,
    ) and left.colorscale == right.colorscale
    assert 0.85 in left.colorbar.tickvals


def test_acceptance_counts_are_the_summarys() -> None:
    for trace in (LEFT, RIGHT, make_tree_trace(new_tokens=90)):
        rows = acceptance_plot([PlottedRun(trace, 0, "run")]).data.rows
        assert [row[4] + row[5] for row in rows] == pytest.approx(
            list(trace.summary.acceptance_by_position)
        )


def test_every_judged_token_is_once_in_the_histogram_and_every_shift_in_its_sum() -> None:
    run = PlottedRun(RIGHT, 0, "run")
    plot = ratio_plot([run], margin_scale([RIGHT]))
    drafted = {Outcome.ACCEPTED, Outcome.RELAXED, Outcome.REJECTED}
    tokens = [each for step in RIGHT.steps for each in step.tokens if each.outcome in drafted]
    known = sum(not math.isnan(t.r) for t in tokens)
    assert plot and sum(len(trace.x) for trace in plot.figure.data) == known
    assert f"; {len(tokens) - known} positions without a ratio" in plot.title
    (line,) = shift_plot([run]).figure.data
    assert line.y[-1] == pytest.approx(sum(token.tv for token in RIGHT.tokens), abs=1e-6)
    assert [int(each[line.meta["position"]]) for each in line.customdata] == list(line.x)


LIBRARY_CODE = gzip.decompress(LIBRARY.read_bytes()).decode()
DRAWN = set(
    re.findall(r'moduleType:"trace",name:"(\w+)"', LIBRARY_CODE)
)  # the traces of the page's part of plotly.js


def test_the_library_of_the_pinned_plotly_is_served_and_cached() -> None:
    answer = TestClient(Starlette(routes=[Route(f"/{SOURCE}", plotly_file)])).get(f"/{SOURCE}")
    complete = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    version = re.search(r"v[\d.]+", complete.read_text(encoding="utf-8")[:200])
    assert version and f"plotly.js (cartesian - minified) {version[0]}\n" in answer.text[:200]
    assert answer.text == LIBRARY_CODE
    assert "immutable" in answer.headers["cache-control"] and answer.headers[
        "content-type"
    ].startswith("text/javascript")


STOPPED = make_trace(rule="mars", new_tokens=12, status=Status.CANCELLED)
CASES = {
    "one, and lanes that never ran": {1: RIGHT},
    "four": {0: make_trace(rule="none"), 1: LEFT, 2: make_tree_trace(), 3: STOPPED},
}


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_valid_and_says_its_numbers(case: str) -> None:
    details = ended_result(unsaved(CASES[case])).details
    for plot in filter(None, details.plots.values()):
        figure = go.Figure(plot.figure.to_plotly_json())  # raises for what Plotly does not know
        assert {trace.type for trace in figure.data} <= DRAWN
        assert plot.title
        assert all(len(row) == len(plot.data.heads) for row in plot.data.rows)
