"""What the page shows of a comparison that ended, from its traces alone: the same live and reopened from History. No gradio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from mars_core.types import Status, Trace
from ui.figures.acceptance import acceptance_data, acceptance_plot
from ui.figures.margins import margin_plot, margin_scale
from ui.figures.plot import Plot, Run
from ui.figures.ratio import ratio_plot
from ui.figures.ribbon import ribbon_plot
from ui.figures.shift import cumulative_plot, shift_data, shift_plot
from ui.figures.timeline import timeline_plot
from ui.kit.components import Strip, words
from ui.kit.labels import run_names
from ui.kit.values import Check, Table
from ui.report.table import QUANTITIES, comparison_table
from ui.result.sentence import broken_sentence, divergence, parting_words, verdict
from ui.result.shift import infinite_note, self_check, shift_table, summary_table
from ui.result.tiles import Counts, stat_tiles
from ui.result.token_view import LaneView, Row, ended_view

NO_ROWS: Mapping[int, tuple[Row, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift meter: all runs that wrote something."""

    check: Check
    table: Table
    note: str
    plot: Plot
    cumulative: Plot


@dataclass(frozen=True, slots=True)
class Details:
    """Below the lanes, of the runs that wrote something. ``table`` has ratios where all ended; a margin map is None where its
    lane wrote nothing, acceptance and ratio where nothing was drafted; ``traces`` by lane."""

    table: Table
    margins: tuple[Plot | None, ...]
    ribbon: Plot
    timeline: Plot
    acceptance: Plot | None
    ratio: Plot | None
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
            view = ended_view(
                traces[lane], f"{name}/{lane}", diverges=partings.get(lane), cause=_cause(traces, lane, partings), rows=rows.get(lane)
            )  # fmt: skip
            views.append(replace(view, title=label))
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


def _cause(traces: Mapping[int, Trace], lane: int, partings: Mapping[int, int]) -> str:
    """Why a lane leaves the leftmost run; for that one, why the first other leaves it."""
    other = lane or next((each for each in partings if each and partings[each] == partings[0]), 0)
    return parting_words(traces[0], traces[other]) if other in partings else ""


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
    ended = list(written.values())
    names = run_names([trace.config for trace in ended])
    runs = [Run(trace, lane, name) for (lane, trace), name in zip(written.items(), names, strict=True)]
    drafted = [run for run in runs if run.trace.summary.drafted]
    scale = margin_scale(ended)
    whole = len(ended) == len(labels) and all(trace.status is Status.COMPLETED for trace in ended)
    margins = {run.lane: margin_plot(run, scale, partings.get(run.lane)) for run in runs}
    return Details(
        comparison_table(ended) if whole else summary_table(ended, QUANTITIES),
        tuple(margins.get(lane) for lane in range(len(labels))),
        ribbon_plot(runs),
        timeline_plot(runs),
        acceptance_plot([acceptance_data(*run) for run in drafted]) if drafted else None,
        ratio_plot(drafted, scale) if drafted else None,
        _shift(runs),
        written,
    )


def _shift(runs: Sequence[Run]) -> Shift:
    traces = [run.trace for run in runs]
    data = [shift_data(*run) for run in runs]
    return Shift(
        self_check(traces), shift_table(traces), infinite_note(traces), shift_plot(runs, data), cumulative_plot(data)
    )
