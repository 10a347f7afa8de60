"""The draft tree: every node once, in a place of its own, under its parent, with its outcome."""

from __future__ import annotations

import re

import plotly.graph_objects as go
import pytest

from mars_core.types import Outcome, Trace
from tests.traces import make_trace, make_tree_trace
from ui.figures.tree import OWN, Node, tree_figure, tree_nodes, tree_plot
from ui.kit.palette import OUTCOME_STYLES
from ui.result.tree_panel import drafting, first_choice, step_of

KEPT = (Outcome.ACCEPTED, Outcome.RELAXED)
TREE, CHAIN = make_tree_trace(new_tokens=60), make_trace(rule="mars", new_tokens=60)


@pytest.mark.parametrize("trace", [TREE, CHAIN])
def test_every_node_has_a_place_of_its_own_beside_its_parent(trace: Trace) -> None:
    for step in trace.steps:
        places = tree_nodes(trace, step.index)
        own = [token for token in step.emitted if token.outcome in OWN]
        assert len(places) == 1 + len(step.nodes) + len(own)
        assert len({(place.x, place.y) for place in places}) == len(places)
        by_number = {place.number: place for place in places}
        assert all(place.x == by_number[place.parent].x + 1 for place in places[1:])
        plot = tree_plot(trace, step.index)
        go.Figure(plot.figure.to_plotly_json())  # raises for what Plotly does not know
        assert len(plot.data.rows) == len(step.nodes) + len(step.emitted) - step.kept
        # the kept path spells the emitted tokens in one straight line
        path = sorted((place for place in places if place.kept), key=lambda place: place.x)
        assert [place.outcome for place in path[1:]] == [token.outcome for token in step.emitted]
        assert {place.y for place in path} == {0.0}


def test_branches_never_cross() -> None:
    for step in TREE.steps:
        places = tree_nodes(TREE, step.index)
        spans = [_rows_under(places, place) for place in places]
        assert all(max(span) - min(span) == len({*span}) - 1 for span in spans)


def _rows_under(places: list[Node], root: Node) -> list[float]:
    rows = [root.y]
    for child in places:
        if child.parent == root.number:
            rows += _rows_under(places, child)
    return rows


def test_the_figure_has_every_outcome_in_its_own_colour_and_shape() -> None:
    lane, step = first_choice({0: TREE})
    nodes = tree_nodes((TREE, TREE)[lane], step)
    figure = tree_figure(nodes)
    named = {mark.name: mark for mark in figure.data if mark.name}
    for outcome in {node.outcome for node in nodes} - {None}:
        assert outcome is not None
        look = OUTCOME_STYLES[outcome]
        assert (named[outcome].marker.symbol, named[outcome].marker.color) == (look.symbol, look.light)
    drawn = sum(len(mark.x) for mark in figure.data if mark.mode != "lines")
    assert drawn == len(nodes)
    assert figure.data[1].line.width > figure.data[0].line.width


def test_the_words_count_what_was_drafted_and_kept() -> None:
    step = next(step for step in TREE.steps if step.kept and any(t.outcome is Outcome.RECOVERED for t in step.emitted))
    title = tree_plot(TREE, step.index).title
    assert title.startswith(f"Step {step.index}: {len(step.nodes)} tokens drafted, {step.kept} kept")
    assert title.endswith("recovered.")
    plain = make_trace(rule="none", new_tokens=8)
    assert len(tree_nodes(plain, 3)) == 2 and "nothing was drafted" in tree_plot(plain, 3).title
    assert drafting({0: plain}) == {}


def test_the_first_choice_is_a_forgiving_step_of_the_rightmost_run_that_has_one() -> None:
    strict = make_trace(rule="strict", new_tokens=60)
    lane, step = first_choice({0: strict, 1: CHAIN, 2: strict})
    assert lane == 1 and any(token.outcome is Outcome.RELAXED for token in CHAIN.steps[step].emitted)
    lane, step = first_choice({0: strict})
    assert strict.steps[step].kept == max(s.kept for s in strict.steps)


def test_a_token_belongs_to_its_step() -> None:
    for index, token in enumerate(CHAIN.tokens):
        assert step_of({2: CHAIN}, 2, index) == token.step
    assert step_of({2: CHAIN}, 2, 10_000) is None and step_of({2: CHAIN}, 0, 0) is None and step_of({}, 0, -1) is None


def test_hostile_pieces_are_escaped() -> None:
    words = ("<b>x</b>", "%{x}", "\ud800", "\u202e", "<a href='javascript:1'>y</a>")
    trace = make_tree_trace(words=words, new_tokens=20)
    for step in trace.steps:
        plot = tree_plot(trace, step.index)
        plot.figure.to_json().encode("utf-8")
        labels = [re.sub(r"^<b>|</b>$", "", text) for mark in plot.figure.data[2:] for text in mark.text]
        assert not any("<" in label or "%{" in label for label in labels)
        assert not any("<a" in node.hover or "%{" in node.hover for node in tree_nodes(trace, step.index))
        plot.title.encode("utf-8")
