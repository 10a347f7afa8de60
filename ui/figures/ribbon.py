"""The accepted length of every step as a ribbon: its tokens one above the other, by outcome, up to
where it drafted. No gradio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from display.format import number, shorten
from display.palette import NEUTRAL, OUTCOME_STYLES
from display.plot import (
    FigurePart,
    Plot,
    PointValue,
    SubplotRow,
    bars,
    drawn_rows,
    filled,
    integer_range,
    legend,
    plotly_text,
)
from mars_core.types import Outcome, Step, Token
from ui.figures.runs import PlottedRun, by_run

ROW_PX = 118
LONGEST = 60  # characters of a stretch in hover
HATCHES = {Outcome.ACCEPTED: "", Outcome.RELAXED: "/", Outcome.RECOVERED: ".", Outcome.BONUS: "-"}
MARKERS = {
    outcome: filled(OUTCOME_STYLES[outcome].light, hatch) for outcome, hatch in HATCHES.items()
}
COUNTS = tuple(outcome.value for outcome in HATCHES)
HEADS = ("step", "first_position", "drafted", "depth", *COUNTS, "emitted")
_HOVER = "<b>%{customdata[0]}</b><br>%{customdata[1]}, step %{x}, from position %{customdata[2]}<extra></extra>"


def ribbon_plot(runs: Sequence[PlottedRun]) -> Plot:
    """Draw all on the scale of the run with most steps and of the longest one."""
    present = {token.outcome for run in runs for token in run.trace.tokens}
    steps = max(len(run.trace.steps) for run in runs)
    top = max(_depth(step) + 1 for run in runs for step in run.trace.steps)
    across = {"title": "decoding step"} | integer_range(0, steps - 1)
    figure = drawn_rows(
        [
            SubplotRow(
                f"τ = {number(run.trace.summary.tau)}, {run.label}",
                [*_bars(run), _reach(run, first=run is runs[0])],
            )
            for run in runs
        ],
        row_px=ROW_PX,
        room_px=92,
        x=across | {"showgrid": False, "zeroline": False, "fixedrange": False},
        y={"range": [0, top + 0.15], "nticks": min(4, top + 1)},
        key=legend(
            {outcome.value: marker for outcome, marker in MARKERS.items() if outcome in present}
        ),
        barmode="overlay",
        hovermode="closest",
    )
    rows = ((run, map(_numbers, run.trace.steps)) for run in runs)
    return Plot(
        figure,
        by_run(HEADS, rows),
        "Tokens that each decoding step wrote, by outcome, and how far it drafted",
    )


def _depth(step: Step) -> int:
    return max((node.depth for node in step.nodes), default=0)


def _stretches(step: Step) -> Iterator[tuple[int, list[Token]]]:
    """Tokens that stand one after the other with one outcome, each after the number of tokens of
    the step that come before them."""
    below = 0
    for _, group in groupby(step.emitted, key=lambda token: token.outcome):
        tokens = list(group)
        yield below, tokens
        below += len(tokens)


def _bars(run: PlottedRun) -> Iterator[FigurePart]:
    stretches = [(step.index, *stretch) for step in run.trace.steps for stretch in _stretches(step)]
    for outcome, marker in MARKERS.items():
        same_outcome = [stretch for stretch in stretches if stretch[2][0].outcome is outcome]
        if same_outcome:
            steps, below, tokens = zip(*same_outcome, strict=True)
            yield bars(
                steps,
                list(map(len, tokens)),
                marker,
                base=below,
                width=0.9,
                name=outcome.value,
                showlegend=False,
                meta={"lane": run.lane, "position": 2},
                customdata=list(map(_hover, tokens)),
                hovertemplate=_HOVER,
            )


def _hover(tokens: Sequence[Token]) -> tuple[str, str, int]:
    first = tokens[0]
    text = shorten("".join(token.piece for token in tokens), LONGEST) or first.piece
    amount = f"{len(tokens)} × " if len(tokens) > 1 else ""
    return plotly_text(text), f"{amount}{first.outcome.value}", first.position


def _reach(run: PlottedRun, *, first: bool) -> FigurePart:
    """Draw a line over what each step could have written at most."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(range(len(run.trace.steps))),
        "y": [_depth(step) + 1 for step in run.trace.steps],
        "name": "at most, from its draft",
        "showlegend": first,
        "hoverinfo": "skip",
        "line": {"shape": "hvh", "width": 1, "dash": "dot", "color": NEUTRAL},
    }


def _numbers(step: Step) -> tuple[PointValue, ...]:
    outcomes = [token.outcome for token in step.emitted]
    first = step.emitted[0].position if outcomes else None
    counts = [outcomes.count(outcome) for outcome in HATCHES]
    return step.index, first, step.drafted, _depth(step), *counts, len(outcomes)
