"""Where the time of every run went, on one clock: prefill, then draft and target pass of each step,
and what is neither. No gradio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from display.format import duration
from display.palette import NEUTRAL
from display.plot import FAINT, FigurePart, Plot, axis, bars, drawn, legend
from mars_core.types import Trace
from ui.figures.runs import PlottedRun, by_run

LANE_PX = 88
LEAST_S = 1e-9  # less is the rounding of sums
KINDS = {
    "prefill": ("prefill of the prompt", "x"),
    "draft": ("draft", "/"),
    "verify": ("target pass and rule", ""),
    "rest": ("neither: the program between steps", ""),
}  # kind → what it is called, and its hatch
_HOVER = "%{customdata[0]}, step %{customdata[1]}<br>%{customdata[2]} from %{customdata[3]} on"


class Segment(NamedTuple):
    """From ``start`` to ``end``, seconds since the start of the run. ``step`` and ``position`` (its
    first token) where there is one."""

    step: int | None
    kind: str
    start: float
    end: float
    position: int | None = None


def timeline_plot(runs: Sequence[PlottedRun]) -> Plot:
    """Draw all on one time axis, though they ran one after the other."""
    rows = [list(_segments(run.trace)) for run in runs]
    present = {segment.kind for row in rows for segment in row}
    longest = max(segment.end for row in rows for segment in row) or 1.0
    figure = drawn(
        [
            *legend(
                {KINDS[kind][0]: _marker(kind, NEUTRAL) for kind in KINDS if kind in present}
            ),  # no lane's colour
            *(
                bar
                for row_number, run in enumerate(runs)
                for bar in _bars(run, rows[row_number], row_number)
            ),
        ],
        height=LANE_PX * len(rows) + 104,
        barmode="overlay",
        bargap=0,
        hovermode="closest",
        annotations=[
            _caption(run, rows[row_number], row_number) for row_number, run in enumerate(runs)
        ],
        margin={"l": 16, "r": 20, "t": 44, "b": 46},
        xaxis=axis(
            "seconds since the start of the run",
            range=[0, 1.01 * longest],
            zeroline=False,
            fixedrange=False,
        ),
        yaxis=axis(range=[len(rows) - 0.6, -0.72], visible=False),
    )
    numbers = ((run, [segment[:4] for segment in row]) for run, row in zip(runs, rows, strict=True))
    title = "Prefill, draft and target pass of every step; all runs start at 0 on one clock"
    return Plot(figure, by_run(("step", "kind", "start_s", "end_s"), numbers), title)


def _segments(trace: Trace) -> Iterator[Segment]:
    """Split each step, which ends with its target pass, before which it drafts; what then is left
    since the step before is the rest."""
    now = min(trace.summary.prefill_s, trace.steps[0].elapsed_s) if trace.steps else 0.0
    yield Segment(None, "prefill", 0.0, now)
    for step in trace.steps:
        position = step.emitted[0].position if step.emitted else None
        verify = max(now, step.elapsed_s - step.verify_s)
        draft = max(now, verify - step.draft_s)
        for kind, start, end in (
            ("rest", now, draft),
            ("draft", draft, verify),
            ("verify", verify, step.elapsed_s),
        ):
            if end - start > LEAST_S:
                yield Segment(step.index, kind, start, end, position)
        now = max(now, step.elapsed_s)


def _caption(run: PlottedRun, row: Sequence[Segment], row_number: int) -> FigurePart:
    """Write what the run took, above its row."""
    total_s = max(segment.end for segment in row)
    seconds = {
        kind: sum(segment.end - segment.start for segment in row if segment.kind == kind)
        for kind in KINDS
    }
    parts = ", ".join(
        f"{kind} {100 * seconds[kind] / (total_s or 1.0):.0f} %" for kind in KINDS if seconds[kind]
    )
    return {
        "text": f"<b>{duration(total_s)}</b>, {escape(run.label)}<br>{parts}",
        "showarrow": False,
        "xref": "paper",
        "x": 0,
        "y": row_number - 0.21,
        "xanchor": "left",
        "yanchor": "bottom",
        "align": "left",
    }


def _marker(kind: str, colour: str) -> FigurePart:
    hatch = KINDS[kind][1]
    pattern = {
        "shape": hatch,
        "fillmode": "replace",
        "fgcolor": colour,
        "bgcolor": "rgba(0,0,0,0)",
        "size": 5,
    }
    fill = {"pattern": pattern} if hatch else {}
    return {"color": FAINT if kind == "rest" else colour, "line": {"width": 0}} | fill


def _bars(run: PlottedRun, row: Sequence[Segment], row_number: int) -> Iterator[FigurePart]:
    for kind in KINDS:
        segments = [segment for segment in row if segment.kind == kind]
        if segments:
            yield bars(
                [round(each.end - each.start, 6) for each in segments],
                [row_number] * len(segments),
                _marker(kind, run.colour),
                base=[round(each.start, 6) for each in segments],
                customdata=list(map(_hover, segments)),
                meta={"lane": run.lane, "position": 4},
                orientation="h",
                width=0.38,
                showlegend=False,
                hovertemplate=f"{_HOVER}<extra>{escape(run.label)}</extra>",
            )


def _hover(segment: Segment) -> tuple[str, str, str, str, int | None]:
    step, length = "–" if segment.step is None else str(segment.step), segment.end - segment.start
    return KINDS[segment.kind][0], step, duration(length), duration(segment.start), segment.position
