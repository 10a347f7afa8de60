"""Figures say what the traces say: every token, second, judgement and node once, on one scale;
their values are harmless anywhere."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from dataclasses import replace
from pathlib import Path

import plotly
import plotly.graph_objects as go
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from display.figure import LIBRARY
from display.plot import Plot
from mars_core.types import Outcome, Status, Step, Trace
from storage.export import csv_text, guarded
from tests.traces import make_trace, make_tree_trace
from ui.figures.acceptance import acceptance_plot
from ui.figures.margins import margin_plot
from ui.figures.ratio import ratio_plot
from ui.figures.ribbon import ribbon_plot
from ui.figures.runs import ROW, PlottedRun, Scale, margin_scale
from ui.figures.shift import cumulative_plot, shift_plot
from ui.figures.tree import FROM_TARGET, Node, tree_nodes, tree_plot
from ui.result.details import Details
from ui.result.figure import SOURCE, plotly_file
from ui.result.panels.tree import step_of
from ui.result.result import ended_result

LEFT, RIGHT = (
    make_trace(rule="strict", new_tokens=150),
    make_trace(rule="mars", new_tokens=150, theta=0.85),
)


def margins(trace: Trace, scale: Scale | None = None) -> go.Figure:
    return margin_plot(PlottedRun(trace, 0, "run"), scale or margin_scale([trace])).figure


def test_both_runs_share_one_scale_with_theta_on_it() -> None:
    scale = margin_scale([LEFT, RIGHT])
    assert (scale.name, scale.border, scale.caption) == ("r", 0.85, "θ = 0.85")
    left, right = (margins(trace, scale).data[0] for trace in (LEFT, RIGHT))
    assert (left.zmin, left.zmax) == (
        right.zmin,
        right.zmax,
    ) and left.colorscale == right.colorscale
    assert 0.85 in left.colorbar.tickvals


def test_every_token_has_its_cell_and_every_cell_its_token() -> None:
    """A position without a ratio counts as decisive; outcomes are marked by shape at their cells."""
    scale = margin_scale([RIGHT])
    plot = margin_plot(PlottedRun(RIGHT, 0, "run"), scale)
    assert [row[0] for row in plot.data.rows] == list(range(150))
    heat, *others = plot.figure.data
    assert sum(z is not None for row in heat.z for z in row) == 150
    assert [heat.customdata[1][3][at] for at in (1, 10)] == [
        RIGHT.tokens[ROW + 3].outcome.value,
        str(ROW + 3),
    ]
    cells = [z for row in heat.z for z in row]
    lost = [token.position for token in RIGHT.tokens if math.isnan(token.r)]
    assert lost and all(cells[position] == round(scale.low, 4) for position in lost)
    marks = {trace.name: trace for trace in others}
    expected = [token.position for token in RIGHT.tokens if token.outcome is Outcome.RELAXED]
    relaxed = marks["relaxed"]
    assert [ROW * y + x for x, y in zip(relaxed.x, relaxed.y, strict=True)] == expected
    assert len({trace.marker.symbol for trace in marks.values()}) == len(marks)


def test_acceptance_counts_are_the_summarys() -> None:
    for trace in (LEFT, RIGHT, make_tree_trace(new_tokens=90)):
        rows = acceptance_plot([PlottedRun(trace, 0, "run")]).data.rows
        assert [row[4] + row[5] for row in rows] == pytest.approx(
            list(trace.summary.acceptance_by_position)
        )


NAN, INFINITY = float("nan"), float("inf")


def test_the_csv_is_rfc_4180_and_guards_formulas() -> None:
    rows = (("=1+1", 1, 0.1, None), ('a "b", c\nd', -3, NAN, INFINITY), ("@x", 0, -0.5, True))
    text = csv_text([("piece", "n", "+x", "y"), *rows])
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[1:] == [
        ["'=1+1", "1", "0.1", ""],
        ['a "b", c\nd', "-3", "", "inf"],
        ["'@x", "0", "-0.5", "true"],
    ]
    assert text.endswith("\r\n") and '"a ""b"", c\nd"' in text
    assert read[1][0] == guarded("=1+1")


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


STRICT, MARS, PLAIN = (make_trace(rule=rule, new_tokens=90) for rule in ("strict", "mars", "none"))
TREE = make_tree_trace(new_tokens=60)
ACCEPTED_OR_RELAXED = (Outcome.ACCEPTED, Outcome.RELAXED)
CASES = {
    "one": {0: MARS},
    "plain": {0: PLAIN},
    "four": {0: PLAIN, 1: STRICT, 2: TREE, 3: make_trace(rule="mars-gap")},
    "cancelled": {0: STRICT, 1: make_trace(rule="mars", new_tokens=12, status=Status.CANCELLED)},
    "never": {1: MARS},
}


def moved(trace: Trace, by: int) -> Trace:
    """The same run after a prefix of ``by`` given tokens."""

    def step_moved(step: Step) -> Step:
        return replace(
            step,
            tokens=tuple(replace(token, position=token.position + by) for token in step.tokens),
        )

    return replace(trace, steps=tuple(map(step_moved, trace.steps)))


def details(traces: dict[int, Trace]) -> Details:
    result = ended_result(traces, "x", ["a"] * (max(traces) + 1)).details
    return result


def plots(drawn_details: Details) -> list[Plot]:
    return [plot for plot in drawn_details.plots.values() if plot]


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_valid_and_says_its_numbers(case: str) -> None:
    for plot in plots(details(CASES[case])):
        figure = go.Figure(plot.figure.to_plotly_json())  # raises for what Plotly does not know
        assert {trace.type for trace in figure.data} <= DRAWN
        assert plot.title
        assert all(len(row) == len(plot.data.heads) for row in plot.data.rows)


def test_ratios_are_only_where_every_lane_ended_and_nothing_is_judged_without_drafts() -> None:
    plain = details(CASES["plain"])
    assert plain.plots["acceptance"] is None and plain.plots["ratio"] is None and plain.table.rows
    for case in ("plain", "never", "cancelled"):
        assert len(details(CASES[case]).table.heads) == 1 + len(CASES[case])
    assert len(details({0: STRICT, 1: MARS}).table.heads) == 4


@pytest.mark.parametrize("trace", [STRICT, MARS, PLAIN, TREE])
def test_the_ribbon_holds_every_token_once_in_order(trace: Trace) -> None:
    *bars, reach = (
        part
        for part in ribbon_plot([PlottedRun(trace, 0, "a")]).figure.data
        if part.x[0] is not None
    )
    stacked = sorted(
        (step, below, texts[2], length)
        for bar in bars
        for step, below, length, texts in zip(bar.x, bar.base, bar.y, bar.customdata, strict=True)
    )
    first = [position for _, _, position, _ in stacked]
    assert sum(length for *_, length in stacked) == len(trace.tokens) and first == sorted(first)
    for step in trace.steps:
        spans = [(below, length) for index, below, _, length in stacked if index == step.index]
        assert [below for below, _ in spans] == [
            sum(length for _, length in spans[:i]) for i in range(len(spans))
        ]
        assert len(step.emitted) == sum(length for _, length in spans) <= reach.y[step.index]


@pytest.mark.parametrize("trace", [STRICT, MARS, TREE])
def test_the_histogram_counts_every_judged_position_once(trace: Trace) -> None:
    plot = ratio_plot([PlottedRun(trace, 0, "a")], margin_scale([trace]))
    without = re.search(r"; (\d+) positions? without", plot.title)
    accepted = sum(token.outcome in ACCEPTED_OR_RELAXED for token in trace.tokens)
    refused = sum(token.outcome is Outcome.RECOVERED for token in trace.tokens)
    counted = sum(sum(row[5:]) for row in plot.data.rows)
    assert counted + (int(without[1]) if without else 0) == accepted + refused


def test_the_cumulative_shift_ends_at_the_summarys() -> None:
    plot = cumulative_plot([PlottedRun(MARS, 1, "b")])
    assert plot.data.rows[-1][-1] == pytest.approx(MARS.summary.tv_sum, abs=1e-4)


def test_after_a_prefix_positions_go_on_and_cells_stand_under_those_of_the_other_run() -> None:
    late = moved(MARS, 40)
    scale = margin_scale([STRICT, late])
    heat = margin_plot(PlottedRun(late, 1, "b"), scale).figure.data[0]
    assert heat.z[0] == [None] * ROW and heat.z[1][7] is None and heat.z[1][8] is not None
    assert margin_scale([late]).first == 1
    assert step_of(late, 40) == 0 and step_of(late, 39) is None
    assert shift_plot([PlottedRun(late, 0, "b")]).figure.layout.xaxis.range[0] == 39.4
    drawn_details = details({0: moved(STRICT, 40), 1: late})
    margins = drawn_details.plots["margins-2"]
    assert margins and [row[0] for row in margins.data.rows] == list(range(40, 130))


@pytest.mark.parametrize("trace", [TREE, MARS])
def test_every_node_has_different_coordinates_beside_its_parent(trace: Trace) -> None:
    for step in trace.steps:
        nodes = tree_nodes(trace, step.index)
        drawn = [token for token in step.emitted if token.outcome in FROM_TARGET]
        assert len(nodes) == 1 + len(step.nodes) + len(drawn)
        assert len({(node.x, node.y) for node in nodes}) == len(nodes)
        by_number = {node.number: node for node in nodes}
        assert all(node.x == by_number[node.parent].x + 1 for node in nodes[1:])
        plot = tree_plot(trace, step.index)
        go.Figure(plot.figure.to_plotly_json())  # raises for what Plotly does not know
        assert len(plot.data.rows) == len(step.nodes) + len(step.emitted) - step.kept
        # the accepted path spells the emitted tokens in one straight line
        path = sorted((node for node in nodes if node.accepted), key=lambda node: node.x)
        assert [node.outcome for node in path[1:]] == [token.outcome for token in step.emitted]
        assert {node.y for node in path} == {0.0}
        spans = [_rows_under(nodes, node) for node in nodes]  # branches never cross
        assert all(max(span) - min(span) == len({*span}) - 1 for span in spans)


def _rows_under(nodes: list[Node], root: Node) -> list[float]:
    return [
        root.y,
        *(
            row
            for child in nodes
            if child.parent == root.number
            for row in _rows_under(nodes, child)
        ),
    ]
