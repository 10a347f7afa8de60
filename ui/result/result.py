"""What the page shows of a comparison that ended, from its traces alone: the same live and reopened
from History. No gradio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from evaluation.format import shorten
from mars_core.types import Status, Trace
from storage import StoredComparison
from ui.kit.components import Strip, message_strip
from ui.kit.labels import lane_labels, run_names
from ui.result.details import Details, details_of
from ui.result.headline import headlines
from ui.result.overlap import Spans, shared_spans
from ui.result.sentence import broken_sentence, divergence, verdict
from ui.token_view.tiles import LaneCounts, stat_tiles
from ui.token_view.view import LaneView, Row, ended_view

OTHER = "The other run"


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    strip: Strip
    lanes: tuple[LaneView, ...]
    details: Details | None


def ended_result(
    traces: Mapping[int, Trace],
    name: str,
    labels: Sequence[str],
    *,
    side: str = "",
    rows: Mapping[int, tuple[Row, ...]] | None = None,
    ids: Mapping[int, str] = MappingProxyType({}),
    speeds: Mapping[int, Sequence[float]] = MappingProxyType({}),
) -> ComparisonResult:
    """A comparison by lane. ``labels``: of all lanes, also those that never ran; ``name``: unique
    to it; ``side``: beside its line; ``rows``: token rows of the lanes for which they were built
    already; ``ids``: of the runs that were saved; ``speeds``: tokens per second of the runs and
    their repeats."""
    speeds = speeds or {lane: [trace.summary.tokens_per_s] for lane, trace in traces.items()}
    positions = _positions(traces)
    shared = _shared(traces, positions)

    def view(lane: int, label: str) -> LaneView:
        if lane not in traces:
            tiles = stat_tiles(LaneCounts())
            return LaneView(
                label, "cancelled", "not started", tiles=tiles, empty="This run was not started."
            )
        ended = ended_view(
            traces[lane],
            f"{name}/{lane}",
            diverges=positions.get(lane),
            shared=shared.get(lane, ()),
            rows=(rows or {}).get(lane),
        )
        return replace(ended, title=label)

    strip = replace(_strip(traces, labels, speeds), side=side if traces else "")
    views = tuple(view(lane, label) for lane, label in enumerate(labels))
    return ComparisonResult(strip, views, details_of(traces, labels, positions, ids, speeds))


def reopened(stored: StoredComparison) -> ComparisonResult:
    """The result view of a stored comparison, from its traces alone."""
    traces = {run.lane: run.trace for run in stored.runs}
    labels = dict(
        zip(traces, lane_labels([trace.config for trace in traces.values()]), strict=True)
    )
    of_all = [labels.get(lane, OTHER) for lane in range(max(traces, default=0) + 1)]
    ids = {run.lane: run.id for run in stored.runs}
    return ended_result(traces, stored.id, of_all, ids=ids, speeds=run_speeds(stored))


def run_speeds(stored: StoredComparison) -> dict[int, list[float]]:
    """Lane → tokens per second of its run and of its repeats, by round; nan of those that did not
    end."""
    speeds: dict[int, list[float]] = {}
    runs = [(run.lane, run.trace.status, run.trace.summary) for run in stored.runs]
    for lane, status, summary in [
        *runs,
        *((each.lane, each.status, each.summary) for each in stored.repeats),
    ]:
        speeds.setdefault(lane, []).append(
            summary.tokens_per_s if status is Status.COMPLETED else math.nan
        )
    return speeds


def title_of(stored: StoredComparison) -> str:
    """What a comparison is called: its name, or how its prompt begins."""
    return shorten(stored.name or stored.prompt.text or "a comparison without a prompt", 80)


def _positions(traces: Mapping[int, Trace]) -> dict[int, int]:
    """Lane → position at which it leaves the leftmost run; for that one, the first at which any
    other leaves it."""
    if 0 not in traces:
        return {}
    divergences = {lane: divergence(traces[0], trace) for lane, trace in traces.items() if lane}
    positions = {
        lane: difference.position for lane, difference in divergences.items() if difference
    }
    return positions | ({0: min(positions.values())} if positions else {})


def _shared(traces: Mapping[int, Trace], positions: Mapping[int, int]) -> dict[int, Spans]:
    """Lane → what it shares with the leftmost; for that one, with the first that leaves it."""
    spans: dict[int, Spans] = {}
    for lane in sorted(positions.keys() - {0}, key=lambda lane: positions[lane]):
        leftmost, spans[lane] = shared_spans(traces[0], traces[lane], positions[lane])
        spans.setdefault(0, leftmost)
    return spans


def _strip(
    traces: Mapping[int, Trace], labels: Sequence[str], speeds: Mapping[int, Sequence[float]]
) -> Strip:
    if not traces:
        return message_strip("Stopped before the first token; nothing was written.", "cancelled")
    runs = [traces.get(lane) for lane in range(len(labels))]
    names = run_names([run.config for run in runs if run]) if len(traces) == len(labels) else labels
    numbers = headlines(names, traces)
    ended = [trace for trace in runs if trace is not None and trace.status is Status.COMPLETED]
    if len(ended) == len(labels):
        by_lane = [speeds.get(lane, ()) for lane in range(len(labels))]
        return Strip(verdict(ended, by_lane), "done", numbers=numbers)
    failed = any(trace.status is Status.FAILED for trace in traces.values())
    return Strip(
        broken_sentence(list(zip(names, runs, strict=True))),
        "failed" if failed else "cancelled",
        numbers=numbers,
    )
