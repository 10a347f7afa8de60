"""The charts of a report: every lane, no markup, axes of the values, the front of what nothing beats."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import escape

import plotly.graph_objects as go
import pytest

from display.blocks import Picture
from display.figure import figure_json
from evaluation.report.document.build import document
from evaluation.report.document.chart import charts
from evaluation.report.document.panels import front, plots
from evaluation.report.measured import Measured
from evaluation.report.values import Report
from evaluation.statistics import Interval
from tests.panels import panels_of
from tests.reports import make_report


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report()


def test_hostile_names_are_no_markup_in_a_figure(report: Report) -> None:
    """Plotly reads a subset of HTML in its texts."""
    name = "a<b>\u202e</b><script>"
    suites = tuple(replace(suite, name=name) for suite in report.plan.suites[:1])
    lanes = tuple(
        replace(lane, drafter=replace(lane.drafter, kind=name)) if lane.drafts else lane
        for lane in report.plan.lanes
    )
    rows = tuple(
        replace(row, group=name)
        for row in report.measured
        if row.group == report.plan.suites[0].name
    )
    hostile = replace(report, plan=replace(report.plan, suites=suites, lanes=lanes), measured=rows)
    pictures = [plot for chart in charts(hostile) for plot in plots(chart).values()]
    assert len(pictures) == 3
    for plot in pictures:
        sent = json.loads(figure_json(plot))
        text = json.dumps(sent["figure"])
        assert "&lt;b&gt;" in text and "\\u202e" not in text and "\u202e" not in sent["title"]
        assert set(re.findall("<[^>]*>", text)) <= {"<b>", "</b>"}  # those of the captions
        assert text.count("<b>") == len(sent["figure"]["layout"]["annotations"]) - (
            "margin" in text
        )


def test_charts_are_valid_and_show_every_lane(report: Report) -> None:
    pictures = [
        block
        for section in document(report, {}).sections
        for block in section.blocks
        if isinstance(block, Picture)
    ]
    kinds = ("parameter", "tradeoff", "tau")
    assert [picture.name for picture in pictures] == [
        f"chart-{number}-{kind}" for number in (1, 2, 3) for kind in kinds
    ]
    names = ["Recovery", "Texts equal to strict's", "TV per token"]
    marks = {  # 4 series of 3 θ, and strict; 2 drafters × 2 temperatures × 5 rules
        True: dict.fromkeys(["Speed-up over none", "τ", "τ ratio", "Relaxed tokens", *names], 16),
        False: dict.fromkeys(names, 20),
    }
    for picture in pictures:
        over, figure = "parameter" in picture.name, picture.plot.figure
        go.Figure(figure.to_plotly_json())  # raises for what Plotly does not know
        shown = panels_of(picture.plot, by_caption=over)
        drawn = {escape(name, quote=True): number for name, number in marks[over].items()}
        assert {name: len(texts) for name, texts in shown.items()} == drawn
        texts = [text for some in shown.values() for text in some]
        assert all(re.search(r": [^:]+ \S+( %)? \[.*\]$", text) for text in texts)
        scored = "Recovery" in drawn
        assert len(figure.layout["shapes"]) == scored
        assert sum(note["text"] == "margin 98 %" for note in figure.layout["annotations"]) == scored
        assert len(picture.plot.data.rows) > 10 and picture.plot.title


def test_the_front_has_what_nothing_beats_and_no_lane_of_few_runs(report: Report) -> None:
    nan = math.nan
    options = [(3.0, 2.0), (1.0, 1.0), (2.0, 3.0), (nan, 9.0), (2.0, 3.0), (4.0, nan)]
    assert front(options) == (1, 2, 4)
    assert front([]) == () and front([(nan, 1.0)]) == ()
    few = replace(report, measured=tuple(replace(row, runs=4) for row in report.measured))
    for each, least in ((report, 1), (few, 0)):
        figure = plots(charts(each)[0])["tradeoff"].figure.to_plotly_json()
        lines = [trace for trace in figure["data"] if trace["mode"] == "lines"]
        assert bool(lines) == bool(least)


def test_an_axis_is_that_of_the_values_and_cuts_the_ends_of_wide_intervals(report: Report) -> None:
    """Of few prompts an interval can end at many times its value."""

    def wide(row: Measured) -> Measured:
        scores = {
            name: replace(each, recovery=Interval(each.recovery.value, 0.0, 15.0))
            for name, each in row.scores.items()
        }
        return replace(row, scores=scores)

    few = replace(report, measured=tuple(map(wide, report.measured)))
    for kind, axis in (("parameter", "y"), ("tradeoff", "x")):
        plot = plots(charts(few)[0])[kind]
        number = [*panels_of(plot, by_caption=axis == "y")].index("Recovery")
        low, high = plot.figure.layout[f"{axis}axis{number + 1 if number else ''}"]["range"]
        assert 1 < high < 2 and low > 0
