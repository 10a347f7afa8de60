"""The charts of a report: every lane, no markup, axes of the values, the front of what nothing beats."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import escape
from itertools import combinations

import plotly.graph_objects as go
import pytest

from display.blocks import Picture
from display.figure import figure_json
from display.panels import CAPTION_PX, FIGURE_PX, FOOT_PX
from display.placing import LETTER_PX, LINE_PX, Box
from evaluation.report.document.build import document
from evaluation.report.document.charts import KEPT_PX, charts, front, plots
from evaluation.report.example import example
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
    assert len(pictures) == 2
    for plot in pictures:
        sent = json.loads(figure_json(plot))
        text = json.dumps(sent["figure"])
        assert "&lt;b&gt;" in text and "\\u202e" not in text and "\u202e" not in sent["title"]
        assert set(re.findall("<[^>]*>", text)) <= {"<b>", "</b>"}  # those of the captions
        captions = [
            each for each in sent["figure"]["layout"]["annotations"] if not each["showarrow"]
        ]
        assert text.count("<b>") == len(captions) - ("margin 98" in text)


def test_charts_are_valid_and_show_every_lane(report: Report) -> None:
    pictures = [
        block
        for section in document(report, {}).sections
        for block in section.blocks
        if isinstance(block, Picture)
    ]
    kinds = ("kept", "parameter")
    names = [f"chart-{number}-{kind}" for number in (1, 2, 3) for kind in kinds]
    names.remove("chart-3-kept")  # that of all suites is the first of the report
    assert [picture.name for picture in pictures] == ["chart-kept", *names]
    names = ["Recovery", "Texts equal to strict's", "TV per token"]
    speed = "Speed-up over the target alone"
    shown_of = {
        "kept": names[:1],
        "parameter": [speed, "τ", "τ ratio", "Relaxed tokens", *names],
    }
    for picture in pictures:
        kind, figure = picture.name.rpartition("-")[2], picture.plot.figure
        # 4 series of 3 θ, and strict; or 2 drafters × 2 temperatures × 5 rules
        each_has = 16 if kind == "parameter" else 20
        go.Figure(figure.to_plotly_json())  # raises for what Plotly does not know
        shown = panels_of(picture.plot, by_caption=True)
        drawn = {escape(name, quote=True) for name in shown_of[kind]}
        assert {name: len(texts) for name, texts in shown.items()} == dict.fromkeys(drawn, each_has)
        texts = [text for some in shown.values() for text in some]
        assert all(re.search(r": [^:]+ \S+( %)? \[.*\]$", text) for text in texts)
        scored = "Recovery" in drawn
        assert len(figure.layout["shapes"]) == scored
        assert sum(note["text"] == "margin 98 %" for note in figure.layout["annotations"]) == scored
        assert len(picture.plot.data.rows) > 10 and picture.plot.title


def test_every_lane_of_the_first_picture_has_its_name_where_it_covers_no_other() -> None:
    """Of the example, in which eight lanes lie close together, with the placebos among all tokens."""
    report = example()
    document_of = document(report, {})
    picture = next(block for block in document_of.sections[0].blocks if isinstance(block, Picture))
    figure = picture.plot.figure.to_plotly_json()
    notes = [each for each in figure["layout"]["annotations"] if each["showarrow"]]
    named = [lane.title for lane in report.plan.lanes if not lane.best]
    assert sorted(each["text"] for each in notes) == sorted(named) and len(named) == 8
    boxes = []
    for each in notes:
        low, high = figure["layout"]["xaxis"]["range"]
        left = (each["x"] - low) / (high - low) * FIGURE_PX + each["ax"]
        width = LETTER_PX * len(each["text"])
        left -= {"left": 0, "center": width / 2, "right": width}[each["xanchor"]]
        low, high = figure["layout"]["yaxis"]["range"]
        middle = (each["y"] - low) / (high - low) * (KEPT_PX - CAPTION_PX - FOOT_PX) - each["ay"]
        assert left >= 0 and left + width <= FIGURE_PX
        boxes.append(Box(left, middle - LINE_PX / 2, left + width, middle + LINE_PX / 2))
    assert not any(one.covers(other) for one, other in combinations(boxes, 2))
    rows = [row if row.lane else replace(row, runs=2) for row in report.measured]
    fewer = plots(charts(replace(report, measured=tuple(rows)))[0])["kept"].figure
    assert "Strict, 2 runs" in [
        each["text"] for each in fewer.to_plotly_json()["layout"]["annotations"]
    ]


def test_the_front_has_what_nothing_beats_and_no_lane_of_few_runs(report: Report) -> None:
    nan = math.nan
    options = [(3.0, 2.0), (1.0, 1.0), (2.0, 3.0), (nan, 9.0), (2.0, 3.0), (4.0, nan)]
    assert front(options) == [2, 4, 0]
    assert front([]) == front([(nan, 1.0)]) == []
    few = replace(report, measured=tuple(replace(row, runs=4) for row in report.measured))
    for each, least in ((report, 1), (few, 0)):
        figure = plots(charts(each)[0])["kept"].figure.to_plotly_json()
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
    for kind in ("parameter", "kept"):
        plot = plots(charts(few)[0])[kind]
        number = [*panels_of(plot, by_caption=True)].index("Recovery")
        low, high = plot.figure.layout[f"yaxis{number + 1 if number else ''}"]["range"]
        assert 1 < high < 2 and low > 0
    ends = [
        y + up
        for trace in plots(charts(few)[0])["kept"].figure.data
        if trace.mode == "markers" and trace.text
        for y, up in zip(trace.y, trace.error_y["array"], strict=True)
    ]
    assert len(ends) == 20 and ends == pytest.approx([15] * 20)
