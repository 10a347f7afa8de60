"""Where the time of every run went, on one clock: prefill, then draft and target pass of each step, and what is neither. No gradio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from evaluation.format import duration
from mars_core.types import Trace
from ui.figures.plot import Data, Plot, Run
from ui.figures.style import FAINT, axis, drawn
from ui.kit.labels import lane_label
from ui.kit.palette import LANES, NEUTRAL

LANE_PX = 88
LEAST_S = 1e-9  # less is the rounding of sums
KINDS = ("prefill", "draft", "verify", "rest")
WORDS = {
    "prefill": "prefill of the prompt", "draft": "draft", "verify": "target pass and rule", "rest": "neither: the program between steps",
}  # fmt: skip
PATTERNS = {"prefill": "x", "draft": "/", "verify": "", "rest": ""}


@dataclass(frozen=True, slots=True)
class Segment:
    """From ``start`` to ``end``, seconds since the start of the run. ``step`` and ``position`` (its first token) where there is one."""

    kind: str
    start: float
    end: float
    step: int | None = None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class TimelineData:
    label: str
    lane: int
    segments: tuple[Segment, ...]

    def seconds(self, kind: str) -> float:
        return sum(segment.end - segment.start for segment in self.segments if segment.kind == kind)

    @property
    def whole(self) -> float:
        return max((segment.end for segment in self.segments), default=0.0)


def timeline_data(trace: Trace, lane: int, label: str = "") -> TimelineData:
    """A step ends with its target pass, before which it drafts; what then is left since the step before is the rest."""
    now = min(trace.summary.prefill_s, trace.steps[0].elapsed_s) if trace.steps else 0.0
    segments = [Segment("prefill", 0.0, now)]
    for step in trace.steps:
        position = step.emitted[0].position if step.emitted else None
        verify = max(now, step.elapsed_s - step.verify_s)
        draft = max(now, verify - step.draft_s)
        for kind, start, end in (("rest", now, draft), ("draft", draft, verify), ("verify", verify, step.elapsed_s)):
            segments += [Segment(kind, start, end, step.index, position)] if end - start > LEAST_S else []
        now = max(now, step.elapsed_s)
    return TimelineData(label or lane_label(trace.config), lane, tuple(segments))


def timeline_plot(runs: Sequence[Run]) -> Plot:
    """All on one time axis, though they ran one after the other."""
    rows = [timeline_data(run.trace, run.lane, run.label) for run in runs]
    longest = max(row.whole for row in rows) or 1.0
    bars = [bar for place, row in enumerate(rows) for kind in KINDS if (bar := _bars(row, place, kind))["x"]]
    figure = drawn(
        [*_keys(rows), *bars],
        height=LANE_PX * len(rows) + 104,
        barmode="overlay",
        bargap=0,
        hovermode="closest",
        annotations=[_caption(row, place) for place, row in enumerate(rows)],
        margin={"l": 16, "r": 20, "t": 44, "b": 46},
        xaxis=axis(
            title={"text": "seconds since the start of the run"},
            range=[0, 1.01 * longest],
            zeroline=False,
            fixedrange=False,
        ),
        yaxis=axis(range=[len(rows) - 0.6, -0.72], visible=False),
    )
    return Plot(
        figure, _numbers(rows), "Prefill, draft and target pass of every step; all runs start at 0 on one clock"
    )


def _caption(row: TimelineData, place: int) -> dict[str, Any]:
    """What the run took, above its row."""
    whole = row.whole or 1.0
    parts = ", ".join(f"{kind} {100 * row.seconds(kind) / whole:.0f} %" for kind in KINDS if row.seconds(kind))
    return {
        "text": f"<b>{duration(row.whole)}</b>, {escape(row.label)}<br>{parts}", "showarrow": False, "xref": "paper", "x": 0,
        "y": place - 0.21, "xanchor": "left", "yanchor": "bottom", "align": "left",
    }  # fmt: skip


def _marker(kind: str, colour: str) -> dict[str, Any]:
    pattern = {"shape": PATTERNS[kind], "fillmode": "replace", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 5}
    fill = {"pattern": pattern} if PATTERNS[kind] else {}
    return {"color": FAINT if kind == "rest" else colour, "line": {"width": 0}} | fill


def _keys(rows: Sequence[TimelineData]) -> list[dict[str, Any]]:
    """The legend, in a colour that is no lane's."""
    present = {segment.kind for row in rows for segment in row.segments}
    return [
        {
            "type": "bar",
            "x": [None],
            "y": [None],
            "name": WORDS[kind],
            "marker": _marker(kind, NEUTRAL),
            "hoverinfo": "skip",
        }
        for kind in KINDS
        if kind in present
    ]


_HOVER = "%{customdata[0]}, step %{customdata[1]}<br>%{customdata[2]} from %{customdata[3]} on"


def _bars(row: TimelineData, place: int, kind: str) -> dict[str, Any]:
    chosen = [segment for segment in row.segments if segment.kind == kind]
    return {
        "type": "bar", "orientation": "h", "y": [place] * len(chosen), "width": 0.38, "showlegend": False,
        "base": [round(segment.start, 6) for segment in chosen], "x": [round(segment.end - segment.start, 6) for segment in chosen],
        "customdata": [_hover(segment) for segment in chosen], "marker": _marker(kind, LANES[row.lane % len(LANES)]),
        "hovertemplate": f"{_HOVER}<extra>{escape(row.label)}</extra>", "meta": {"lane": row.lane, "position": 4},
    }  # fmt: skip


def _hover(segment: Segment) -> tuple[str, str, str, str, int | None]:
    step = "–" if segment.step is None else str(segment.step)
    return WORDS[segment.kind], step, duration(segment.end - segment.start), duration(segment.start), segment.position


def _numbers(rows: Sequence[TimelineData]) -> Data:
    return Data(
        ("lane", "rule", "step", "kind", "start_s", "end_s"),
        tuple((row.lane + 1, row.label, s.step, s.kind, s.start, s.end) for row in rows for s in row.segments),
    )
