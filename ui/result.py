"""What the page shows of a comparison that ended, from its traces alone: the same live and reopened from History. No gradio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mars_core.types import Status, Trace
from ui.components import Strip, words
from ui.figures import acceptance_data, acceptance_figure, margin_data, margin_figure, margin_scale
from ui.report import Table, comparison_table
from ui.sentence import compare_sentence, divergence, single_sentence
from ui.token_view import Counts, LaneView, ended_view, stat_tiles

Figure = Any  # plotly.graph_objects.Figure, which is not typed


@dataclass(frozen=True, slots=True)
class Details:
    """Below the lanes. ``table`` needs both runs; a margin map is None where its lane did not run."""

    table: Table | None
    margins: tuple[Figure | None, ...]
    acceptance: Figure | None


@dataclass(frozen=True, slots=True)
class Result:
    strip: Strip
    lanes: tuple[LaneView | None, ...]
    details: Details | None


def ended_result(traces: Mapping[int, Trace], name: str, labels: Sequence[str], *, side: str = "") -> Result:
    """A comparison by lane. ``labels``: of all lanes, also those that never ran; ``name``: unique to it; ``side``: beside its line."""
    views: list[LaneView | None] = [None] * len(labels)
    parting = divergence(traces[0], traces[1]) if len(traces) == len(labels) else None
    for lane, label in enumerate(labels):
        if lane in traces:
            views[lane] = ended_view(traces[lane], f"{name}/{lane}", diverges=parting.position if parting else None)
        else:
            views[lane] = LaneView(
                label,
                state="cancelled",
                chip="not started",
                tiles=stat_tiles(Counts()),
                empty="This run was not started.",
            )
    return Result(
        replace(_strip(traces, labels), side=side if traces else ""),
        tuple(views),
        _details(traces, labels, parting.position if parting else None),
    )


def _strip(traces: Mapping[int, Trace], labels: Sequence[str]) -> Strip:
    if not traces:
        return words("Stopped before the first token; nothing was written.", "cancelled")
    state = next((t.status for t in traces.values() if t.status is not Status.COMPLETED), Status.COMPLETED)
    if len(traces) == len(labels):
        state = Status.CANCELLED if state is Status.CANCELLED else state
        return Strip(compare_sentence(traces[0], traces[1]), _state(state))
    (lane,) = traces
    other = next(label for column, label in enumerate(labels) if column != lane)
    ended = Status.CANCELLED if state is Status.COMPLETED else state
    return Strip(single_sentence(traces[lane], labels[lane], other), _state(ended))


def _state(status: Status) -> str:
    return {Status.COMPLETED: "done", Status.CANCELLED: "cancelled", Status.FAILED: "failed"}[status]


def _details(traces: Mapping[int, Trace], labels: Sequence[str], diverges: int | None) -> Details | None:
    written = {lane: trace for lane, trace in traces.items() if trace.tokens}
    if not written:
        return None
    scale = margin_scale(list(written.values()))
    margins = tuple(
        margin_figure(margin_data(written[lane], scale, diverges)) if lane in written else None
        for lane in range(len(labels))
    )
    drafted = [acceptance_data(trace) for _, trace in sorted(written.items()) if trace.summary.drafted]
    table = comparison_table(traces[0], traces[1]) if len(written) == len(labels) else None
    return Details(table, margins, acceptance_figure(drafted) if drafted else None)
