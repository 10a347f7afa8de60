"""The accepted length of every step as a ribbon: its tokens one above the other, by outcome, up to where it drafted. No gradio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evaluation.format import number, shorten
from mars_core.types import Outcome, Step, Token, Trace
from ui.figures.plot import Data, Plot, Run
from ui.figures.style import caption, drawn, name, plotly_text, rows_layout
from ui.kit.labels import lane_label
from ui.kit.palette import NEUTRAL, OUTCOME_STYLES

ROW_PX = 118
LONGEST = 60  # characters of a stretch in hover
OUTCOMES = (Outcome.ACCEPTED, Outcome.RELAXED, Outcome.RECOVERED, Outcome.BONUS)
HATCHES = {Outcome.RELAXED: "/", Outcome.RECOVERED: ".", Outcome.BONUS: "-", Outcome.ACCEPTED: ""}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens of one step that stand one after the other with one outcome; ``below``: how many of the step come before them."""

    step: int
    below: int
    outcome: Outcome
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class RibbonData:
    """One run. ``reach``: how deep each step drafted, and one for the target's own token."""

    label: str
    lane: int
    tau: float
    stretches: tuple[Stretch, ...]
    reach: tuple[int, ...]


def ribbon_data(trace: Trace, lane: int, label: str = "") -> RibbonData:
    stretches = tuple(stretch for step in trace.steps for stretch in _stretches(step))
    reach = tuple(max((node.depth for node in step.nodes), default=0) + 1 for step in trace.steps)
    return RibbonData(label or lane_label(trace.config), lane, trace.summary.tau, stretches, reach)


def _stretches(step: Step) -> list[Stretch]:
    found, below = [], 0
    for outcome, tokens in groupby(step.emitted, key=lambda token: token.outcome):
        found.append(Stretch(step.index, below, outcome, tuple(tokens)))
        below += len(found[-1].tokens)
    return found


def ribbon_plot(runs: Sequence[Run]) -> Plot:
    """All on the scale of the run with most steps and of the longest one."""
    rows = [ribbon_data(run.trace, run.lane, run.label) for run in runs]
    steps = max(len(row.reach) for row in rows)
    top = max(max(row.reach, default=1) for row in rows)
    bars = [_bars(row, place, outcome) for outcome in OUTCOMES for place, row in enumerate(rows, start=1)]
    figure = drawn(
        [*_keys(rows), *[bar for bar in bars if bar["y"]], *(_reach(row, place) for place, row in enumerate(rows, start=1))],
        height=ROW_PX * len(rows) + 92,
        barmode="overlay",
        hovermode="closest",
        annotations=[
            caption(f"τ = {number(row.tau)}, {row.label}", place) for place, row in enumerate(rows, start=1)
        ],
        **rows_layout(
            len(rows), ROW_PX,
            x={"showgrid": False, "zeroline": False, "range": [-0.7, steps - 0.3], "fixedrange": False},
            y={"range": [0, top + 0.15], "nticks": 4},
            title="decoding step",
        ),
    )  # fmt: skip
    return Plot(figure, _numbers(runs), "Tokens that each decoding step wrote, by outcome, and how far it drafted")


def _keys(rows: Sequence[RibbonData]) -> list[dict[str, Any]]:
    """The legend: every outcome that occurs, once."""
    present = {stretch.outcome for row in rows for stretch in row.stretches}
    return [
        {
            "type": "bar",
            "x": [None],
            "y": [None],
            "name": outcome.value,
            "marker": _marker(outcome),
            "hoverinfo": "skip",
        }
        for outcome in OUTCOMES
        if outcome in present
    ]


def _marker(outcome: Outcome) -> dict[str, Any]:
    pattern = {"shape": HATCHES[outcome], "fillmode": "overlay", "fgcolor": "#FFFFFF", "fgopacity": 0.6, "size": 5}
    return {"color": OUTCOME_STYLES[outcome].light, "line": {"width": 0}} | (
        {"pattern": pattern} if HATCHES[outcome] else {}
    )


_HOVER = "<b>%{customdata[0]}</b><br>%{customdata[1]}, step %{x}, from position %{customdata[2]}<extra></extra>"


def _bars(row: RibbonData, place: int, outcome: Outcome) -> dict[str, Any]:
    chosen = [stretch for stretch in row.stretches if stretch.outcome is outcome]
    return {
        "type": "bar", "x": [stretch.step for stretch in chosen], "y": [len(stretch.tokens) for stretch in chosen],
        "base": [stretch.below for stretch in chosen], "name": outcome.value, "width": 0.9, "showlegend": False, "marker": _marker(outcome),
        "customdata": [_hover(stretch) for stretch in chosen], "hovertemplate": _HOVER,
        "meta": {"lane": row.lane, "position": 2}, "xaxis": "x", "yaxis": name(place, "y"),
    }  # fmt: skip


def _hover(stretch: Stretch) -> tuple[str, str, int]:
    first = stretch.tokens[0]
    text = shorten("".join(token.piece for token in stretch.tokens), LONGEST) or first.piece
    amount = f"{len(stretch.tokens)} × " if len(stretch.tokens) > 1 else ""
    return plotly_text(text), f"{amount}{stretch.outcome.value}", first.position


def _reach(row: RibbonData, place: int) -> dict[str, Any]:
    """A line over what each step could have written at most."""
    return {
        "type": "scatter", "mode": "lines", "x": list(range(len(row.reach))), "y": list(row.reach), "hoverinfo": "skip",
        "line": {"shape": "hvh", "width": 1, "dash": "dot", "color": NEUTRAL}, "name": "at most, from its draft",
        "showlegend": place == 1, "xaxis": "x", "yaxis": name(place, "y"),
    }  # fmt: skip


def _numbers(runs: Sequence[Run]) -> Data:
    heads = (
        "lane",
        "rule",
        "step",
        "first_position",
        "drafted",
        "depth",
        *(outcome.value for outcome in OUTCOMES),
        "emitted",
    )
    rows = []
    for trace, lane, label in runs:
        for step in trace.steps:
            outcomes = [token.outcome for token in step.emitted]
            depth = max((node.depth for node in step.nodes), default=0)
            first = step.emitted[0].position if step.emitted else None
            counts = [outcomes.count(outcome) for outcome in OUTCOMES]
            rows.append((lane + 1, label, step.index, first, step.drafted, depth, *counts, len(outcomes)))
    return Data(heads, tuple(rows))
