"""The steps of every run: their accepted lengths as a ribbon, and where their time went, on one clock. No gradio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from evaluation.format import duration, number, shorten
from mars_core.types import Outcome, Step, Token, Trace
from ui.figures import plot
from ui.figures.plot import Part, Plot, Row, Run, Value
from ui.kit.palette import NEUTRAL, OUTCOME_STYLES

ROW_PX = 118
LONGEST = 60  # characters of a stretch in hover
HATCHES = {Outcome.ACCEPTED: "", Outcome.RELAXED: "/", Outcome.RECOVERED: ".", Outcome.BONUS: "-"}
MARKERS = {outcome: plot.filled(OUTCOME_STYLES[outcome].light, hatch) for outcome, hatch in HATCHES.items()}
COUNTS = tuple(outcome.value for outcome in HATCHES)
HEADS = ("step", "first_position", "drafted", "depth", *COUNTS, "emitted")
_HOVER = "<b>%{customdata[0]}</b><br>%{customdata[1]}, step %{x}, from position %{customdata[2]}<extra></extra>"


def ribbon_plot(runs: Sequence[Run]) -> Plot:
    """All on the scale of the run with most steps and of the longest one."""
    present = {token.outcome for run in runs for token in run.trace.tokens}
    steps = max(len(run.trace.steps) for run in runs)
    top = max(_depth(step) + 1 for run in runs for step in run.trace.steps)
    across = {"title": "decoding step", "range": [-0.7, steps - 0.3]}
    figure = plot.drawn_rows(
        [
            Row(f"τ = {number(run.trace.summary.tau)}, {run.label}", [*_bars(run), _reach(run, first=run is runs[0])])
            for run in runs
        ],
        row_px=ROW_PX,
        room_px=92,
        x=across | {"showgrid": False, "zeroline": False, "fixedrange": False},
        y={"range": [0, top + 0.15], "nticks": 4},
        key=plot.legend({outcome.value: marker for outcome, marker in MARKERS.items() if outcome in present}),
        barmode="overlay",
        hovermode="closest",
    )
    rows = ((run, map(_numbers, run.trace.steps)) for run in runs)
    return Plot(
        figure, plot.by_run(HEADS, rows), "Tokens that each decoding step wrote, by outcome, and how far it drafted"
    )


def _depth(step: Step) -> int:
    return max((node.depth for node in step.nodes), default=0)


def _stretches(step: Step) -> Iterator[tuple[int, list[Token]]]:
    """Tokens that stand one after the other with one outcome, each after the number of tokens of the step that come before them."""
    below = 0
    for _, group in groupby(step.emitted, key=lambda token: token.outcome):
        tokens = list(group)
        yield below, tokens
        below += len(tokens)


def _bars(run: Run) -> Iterator[Part]:
    stretches = [(step.index, *stretch) for step in run.trace.steps for stretch in _stretches(step)]
    for outcome, marker in MARKERS.items():
        own = [stretch for stretch in stretches if stretch[2][0].outcome is outcome]
        if own:
            where, below = [step for step, _, _ in own], [below for _, below, _ in own]
            hover, length = [_hover(tokens) for _, _, tokens in own], [len(tokens) for _, _, tokens in own]
            shown = {"name": outcome.value, "showlegend": False, "meta": {"lane": run.lane, "position": 2}}
            template = {"customdata": hover, "hovertemplate": _HOVER}
            yield plot.bars(where, length, marker, base=below, width=0.9, **shown, **template)


def _hover(tokens: Sequence[Token]) -> tuple[str, str, int]:
    first = tokens[0]
    text = shorten("".join(token.piece for token in tokens), LONGEST) or first.piece
    amount = f"{len(tokens)} × " if len(tokens) > 1 else ""
    return plot.plotly_text(text), f"{amount}{first.outcome.value}", first.position


def _reach(run: Run, *, first: bool) -> Part:
    """A line over what each step could have written at most."""
    where = {"x": list(range(len(run.trace.steps))), "y": [_depth(step) + 1 for step in run.trace.steps]}
    line = {"shape": "hvh", "width": 1, "dash": "dot", "color": NEUTRAL}
    shown = {"name": "at most, from its draft", "showlegend": first, "hoverinfo": "skip", "line": line}
    return {"type": "scatter", "mode": "lines"} | where | shown


def _numbers(step: Step) -> tuple[Value, ...]:
    outcomes = [token.outcome for token in step.emitted]
    first = step.emitted[0].position if outcomes else None
    counts = [outcomes.count(outcome) for outcome in HATCHES]
    return step.index, first, step.drafted, _depth(step), *counts, len(outcomes)


LANE_PX = 88
LEAST_S = 1e-9  # less is the rounding of sums
KINDS = {
    "prefill": ("prefill of the prompt", "x"),
    "draft": ("draft", "/"),
    "verify": ("target pass and rule", ""),
    "rest": ("neither: the program between steps", ""),
}  # kind → what it is called, and its hatch
_SEGMENT_HOVER = "%{customdata[0]}, step %{customdata[1]}<br>%{customdata[2]} from %{customdata[3]} on"


class Segment(NamedTuple):
    """From ``start`` to ``end``, seconds since the start of the run. ``step`` and ``position`` (its first token) where there is one."""

    step: int | None
    kind: str
    start: float
    end: float
    position: int | None = None


def timeline_plot(runs: Sequence[Run]) -> Plot:
    """All on one time axis, though they ran one after the other."""
    rows = [list(_segments(run.trace)) for run in runs]
    present = {segment.kind for row in rows for segment in row}
    longest = max(segment.end for row in rows for segment in row) or 1.0
    figure = plot.drawn(
        [
            *plot.legend(
                {KINDS[kind][0]: _marker(kind, NEUTRAL) for kind in KINDS if kind in present}
            ),  # no lane's colour
            *(bar for place, run in enumerate(runs) for bar in _segment_bars(run, rows[place], place)),
        ],
        height=LANE_PX * len(rows) + 104,
        barmode="overlay",
        bargap=0,
        hovermode="closest",
        annotations=[_caption(run, rows[place], place) for place, run in enumerate(runs)],
        margin={"l": 16, "r": 20, "t": 44, "b": 46},
        xaxis=plot.axis(
            "seconds since the start of the run", range=[0, 1.01 * longest], zeroline=False, fixedrange=False
        ),
        yaxis=plot.axis(range=[len(rows) - 0.6, -0.72], visible=False),
    )
    numbers = ((run, [segment[:4] for segment in row]) for run, row in zip(runs, rows, strict=True))
    title = "Prefill, draft and target pass of every step; all runs start at 0 on one clock"
    return Plot(figure, plot.by_run(("step", "kind", "start_s", "end_s"), numbers), title)


def _segments(trace: Trace) -> Iterator[Segment]:
    """A step ends with its target pass, before which it drafts; what then is left since the step before is the rest."""
    now = min(trace.summary.prefill_s, trace.steps[0].elapsed_s) if trace.steps else 0.0
    yield Segment(None, "prefill", 0.0, now)
    for step in trace.steps:
        position = step.emitted[0].position if step.emitted else None
        verify = max(now, step.elapsed_s - step.verify_s)
        draft = max(now, verify - step.draft_s)
        for kind, start, end in (("rest", now, draft), ("draft", draft, verify), ("verify", verify, step.elapsed_s)):
            if end - start > LEAST_S:
                yield Segment(step.index, kind, start, end, position)
        now = max(now, step.elapsed_s)


def _caption(run: Run, row: Sequence[Segment], place: int) -> Part:
    whole = max(segment.end for segment in row)
    seconds = {kind: sum(segment.end - segment.start for segment in row if segment.kind == kind) for kind in KINDS}
    parts = ", ".join(f"{kind} {100 * seconds[kind] / (whole or 1.0):.0f} %" for kind in KINDS if seconds[kind])
    return {
        "text": f"<b>{duration(whole)}</b>, {escape(run.label)}<br>{parts}", "showarrow": False, "xref": "paper", "x": 0,
        "y": place - 0.21, "xanchor": "left", "yanchor": "bottom", "align": "left",
    }  # fmt: skip


def _marker(kind: str, colour: str) -> Part:
    hatch = KINDS[kind][1]
    pattern = {"shape": hatch, "fillmode": "replace", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 5}
    fill = {"pattern": pattern} if hatch else {}
    return {"color": plot.FAINT if kind == "rest" else colour, "line": {"width": 0}} | fill


def _segment_bars(run: Run, row: Sequence[Segment], place: int) -> Iterator[Part]:
    for kind in KINDS:
        own = [segment for segment in row if segment.kind == kind]
        if own:
            length, start = [round(s.end - s.start, 6) for s in own], [round(s.start, 6) for s in own]
            shown = {
                "base": start,
                "customdata": list(map(_segment_hover, own)),
                "meta": {"lane": run.lane, "position": 4},
            }
            look = {"orientation": "h", "width": 0.38, "showlegend": False}
            template = f"{_SEGMENT_HOVER}<extra>{escape(run.label)}</extra>"
            yield plot.bars(
                length, [place] * len(own), _marker(kind, run.colour), **shown, **look, hovertemplate=template
            )


def _segment_hover(segment: Segment) -> tuple[str, str, str, str, int | None]:
    step, length = "–" if segment.step is None else str(segment.step), segment.end - segment.start
    return KINDS[segment.kind][0], step, duration(length), duration(segment.start), segment.position
