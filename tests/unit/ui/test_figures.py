"""Figures say what the traces say, on one scale, and let no text become markup."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mars_core.types import Outcome, RuleConfig
from tests.traces import make_trace, make_tree_trace
from ui.figures.acceptance import acceptance_data, acceptance_figure
from ui.figures.margins import ROW, margin_data, margin_figure, margin_scale

LEFT, RIGHT = make_trace(rule="strict", new_tokens=150), make_trace(rule="mars", new_tokens=150, theta=0.85)


def test_both_runs_share_one_scale_with_theta_on_it() -> None:
    scale = margin_scale([LEFT, RIGHT])
    assert (scale.name, scale.border, scale.caption) == ("r", 0.85, "θ = 0.85")
    left, right = (margin_figure(margin_data(trace, scale)).data[0] for trace in (LEFT, RIGHT))
    assert (left.zmin, left.zmax) == (right.zmin, right.zmax) and left.colorscale == right.colorscale
    assert 0.85 in left.colorbar.tickvals


@pytest.mark.parametrize("theta", [0.0, 0.5, 0.84, 0.9, 0.98, 1.0])
def test_the_colour_scale_rises_from_zero_to_one_for_every_theta(theta: float) -> None:
    trace = make_trace(rule="mars", theta=theta)
    scale = margin_figure(margin_data(trace, margin_scale([trace]))).data[0].colorscale
    places = [place for place, _ in scale]
    assert places[0] == 0 and places[-1] == 1 and places == sorted(places)


def test_every_token_has_its_cell_and_every_cell_its_token() -> None:
    data = margin_data(RIGHT, margin_scale([RIGHT]))
    assert [cell.position for cell in data.cells] == list(range(150))
    heat = margin_figure(data).data[0]
    assert sum(z is not None for row in heat.z for z in row) == 150
    assert heat.customdata[1][3][0] == data.cells[ROW + 3].hover[0]


def test_a_place_without_a_ratio_counts_as_decisive() -> None:
    scale = margin_scale([RIGHT])
    lost = [token.position for token in RIGHT.tokens if math.isnan(token.r)]
    assert lost
    assert all(margin_data(RIGHT, scale).cells[position].margin == scale.low for position in lost)


def test_outcomes_are_marked_by_shape_at_their_cells() -> None:
    figure = margin_figure(margin_data(RIGHT, margin_scale([RIGHT])))
    marks = {trace.name: trace for trace in figure.data[1:]}
    expected = [token.position for token in RIGHT.tokens if token.outcome is Outcome.RELAXED]
    relaxed = marks["relaxed"]
    assert [ROW * y + x for x, y in zip(relaxed.x, relaxed.y, strict=True)] == expected
    assert len({trace.marker.symbol for trace in marks.values()}) == len(marks)


def test_the_gap_rule_is_drawn_on_its_own_quantity() -> None:
    trace = make_trace(rule="mars-gap")
    trace = replace(trace, config=replace(trace.config, rule=RuleConfig("mars-gap", {"gap": 0.7})))
    scale = margin_scale([LEFT, trace])
    assert scale.name == "e^−gap" and scale.border == pytest.approx(math.exp(-0.7))


def test_hostile_pieces_are_escaped_in_hover_texts() -> None:
    words = ("<b>x</b>", "%{x}", "\ud800", "\u202e", "<a href='javascript:1'>y</a>", "&lt;")
    trace = make_trace(words=words, rule="mars", new_tokens=20)
    data = margin_data(trace, margin_scale([trace]))
    text = margin_figure(data).to_json()
    text.encode("utf-8")
    pieces = [cell.hover[0] for cell in data.cells]
    assert not any("<" in piece or "%{" in piece for piece in pieces)


def test_acceptance_counts_are_the_summarys() -> None:
    for trace in (LEFT, RIGHT, make_tree_trace(new_tokens=90)):
        data = acceptance_data(trace)
        kept = [a + b for a, b in zip(data.accepted, data.relaxed, strict=True)]
        assert kept == pytest.approx(list(trace.summary.acceptance_by_position))


def test_a_lane_keeps_its_colour_where_another_drafted_nothing() -> None:
    alone = acceptance_figure([acceptance_data(LEFT, 1)]).data[0].marker.color
    beside = acceptance_figure([acceptance_data(RIGHT, 0), acceptance_data(LEFT, 1)]).data[-1].marker.color
    assert alone == beside


def test_relaxed_bars_stand_on_the_accepted_ones() -> None:
    figure = acceptance_figure([acceptance_data(LEFT), acceptance_data(RIGHT)])
    names = [bar.name for bar in figure.data]
    assert names == ["Strict: accepted", "MARS θ = 0.85: accepted", "MARS θ = 0.85: relaxed"]
    assert list(figure.data[2].base) == list(figure.data[1].y)
