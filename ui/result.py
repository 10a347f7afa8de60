"""What the page shows of a comparison that ended, from its traces alone: the same live and reopened from History. No gradio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from mars_core.types import Status, Trace
from ui.components import Strip, words
from ui.figures import acceptance_data, acceptance_figure, margin_data, margin_figure, margin_scale
from ui.labels import run_names
from ui.report import Table, comparison_table
from ui.sentence import broken_sentence, divergence, verdict
from ui.shift import Check, infinite_note, self_check, shift_table
from ui.shift_figure import shift_data, shift_figure
from ui.tiles import Counts, stat_tiles
from ui.token_view import LaneView, Row, ended_view

Figure = Any  # plotly.graph_objects.Figure, which is not typed
NO_ROWS: Mapping[int, tuple[Row, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift meter: all runs that wrote something."""

    check: Check
    table: Table
    note: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class Details:
    """Below the lanes. ``table`` needs all runs; a margin map is None where its lane did not run; ``traces`` by lane."""

    table: Table | None
    margins: tuple[Figure | None, ...]
    acceptance: Figure | None
    shift: Shift
    traces: Mapping[int, Trace]


@dataclass(frozen=True, slots=True)
class Result:
    strip: Strip
    lanes: tuple[LaneView | None, ...]
    details: Details | None


def ended_result(
    traces: Mapping[int, Trace],
    name: str,
    labels: Sequence[str],
    *,
    side: str = "",
    rows: Mapping[int, tuple[Row, ...]] = NO_ROWS,
) -> Result:
    """A comparison by lane. ``labels``: of all lanes, also those that never ran; ``name``: unique to it; ``side``: beside its line;
    ``rows``: token rows of the lanes for which they were built already."""
    views: list[LaneView | None] = []
    partings = _partings(traces)
    for lane, label in enumerate(labels):
        if lane in traces:
            views.append(ended_view(traces[lane], f"{name}/{lane}", diverges=partings.get(lane), rows=rows.get(lane)))
        else:
            views.append(_never(label))
    strip = replace(_strip(traces, labels), side=side if traces else "")
    return Result(strip, tuple(views), _details(traces, labels, partings))


def _never(label: str) -> LaneView:
    return LaneView(
        label, state="cancelled", chip="not started", tiles=stat_tiles(Counts()), empty="This run was not started."
    )


def _partings(traces: Mapping[int, Trace]) -> dict[int, int]:
    """Lane → position at which it leaves the leftmost run; for that one, the first at which any other leaves it."""
    if 0 not in traces:
        return {}
    found = {lane: divergence(traces[0], trace) for lane, trace in traces.items() if lane}
    partings = {lane: parting.position for lane, parting in found.items() if parting}
    return partings | ({0: min(partings.values())} if partings else {})


def _strip(traces: Mapping[int, Trace], labels: Sequence[str]) -> Strip:
    if not traces:
        return words("Stopped before the first token; nothing was written.", "cancelled")
    runs = [traces.get(lane) for lane in range(len(labels))]
    ended = [trace for trace in runs if trace is not None and trace.status is Status.COMPLETED]
    if len(ended) == len(labels):
        return Strip(verdict(ended), "done")
    failed = any(trace.status is Status.FAILED for trace in traces.values())
    names = run_names([run.config for run in runs if run]) if len(traces) == len(labels) else labels
    return Strip(broken_sentence(list(zip(names, runs, strict=True))), "failed" if failed else "cancelled")


def _details(traces: Mapping[int, Trace], labels: Sequence[str], partings: Mapping[int, int]) -> Details | None:
    written = {lane: traces[lane] for lane in sorted(traces) if traces[lane].tokens}
    if not written:
        return None
    runs = list(written.values())
    scale = margin_scale(runs)
    margins = tuple(
        margin_figure(margin_data(written[lane], scale, partings.get(lane))) if lane in written else None
        for lane in range(len(labels))
    )
    drafted = [acceptance_data(trace, lane) for lane, trace in written.items() if trace.summary.drafted]
    table = comparison_table(runs) if len(written) == len(labels) > 1 else None
    acceptance = acceptance_figure(drafted) if drafted else None
    return Details(table, margins, acceptance, _shift(written), written)


def _shift(written: Mapping[int, Trace]) -> Shift:
    runs = list(written.values())
    figure = shift_figure([shift_data(trace, lane) for lane, trace in written.items()])
    return Shift(self_check(runs), shift_table(runs), infinite_note(runs), figure)
