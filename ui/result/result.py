"""What the page shows of a comparison that ended, from its traces alone: the same live and reopened
from History. No gradio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import NamedTuple

from display.format import shorten
from mars_core.types import UNKNOWN, Outcome, Status, Trace
from storage import Repeat, StoredComparison
from ui.kit.components import Strip, message_strip
from ui.kit.labels import lane_labels, run_names
from ui.result.details import Details, details_of
from ui.result.sentence import broken_sentence, divergence, verdict
from ui.result.speed import SpeedRatio, speed_ratio
from ui.result.turns import turns_html
from ui.token_view.tiles import LaneCounts, counts_of
from ui.token_view.view import LaneView, TokenRow, ended_view

OTHER = "The other run"


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    strip: Strip
    lanes: tuple[LaneView, ...]
    details: Details | None
    turns: str = ""  # HTML of those before


def ended_result(
    traces: Mapping[int, Trace],
    name: str,
    labels: Sequence[str],
    *,
    side: str = "",
    rows: Mapping[int, tuple[TokenRow, ...]] | None = None,
    speeds: Mapping[int, Sequence[float]] = MappingProxyType({}),
) -> ComparisonResult:
    """Return a comparison by lane. ``labels``: of all lanes, also those that never ran; ``name``:
    unique to it; ``side``: beside its line; ``rows``: token rows of the lanes for which they were
    built already; ``speeds``: tokens per second of the runs and their repeats, by round."""
    positions = _positions(traces)
    shared = _shared(traces, positions)

    def view(lane: int, label: str) -> LaneView:
        if lane not in traces:
            return LaneView(label, "cancelled", "not started", empty="This run was not started.")
        ended = ended_view(
            traces[lane],
            f"{name}/{lane}",
            diverges=positions.get(lane),
            shared=shared.get(lane, ()),
            rows=(rows or {}).get(lane),
        )
        return replace(ended, title=label)

    ended = [trace for trace in traces.values() if trace.status is Status.COMPLETED]
    paces = [
        speed_ratio(traces[0], traces[lane], speeds.get(0, ()), speeds.get(lane, ()))
        for lane in (range(len(labels)) if len(ended) == len(labels) else ())
    ]
    strip = replace(_strip(traces, labels, paces), side=side if traces else "")
    views = tuple(view(lane, label) for lane, label in enumerate(labels))
    return ComparisonResult(strip, views, details_of(traces, positions, paces))


def reopened(stored: StoredComparison, lanes: Sequence[int | None] = ()) -> ComparisonResult:
    """Return the result view of a stored comparison, from its traces alone. ``lanes``: those of the
    columns, None for one that never ran; without them as they were saved."""
    columns = lanes or range(max((run.lane for run in stored.runs), default=0) + 1)
    traces, speeds = by_column(stored, columns)
    labels = dict(
        zip(traces, lane_labels([trace.config for trace in traces.values()]), strict=True)
    )
    of_all = [labels.get(column, OTHER) for column in range(len(columns))]
    name = turn_name(stored.id, stored.earlier)
    name = "/".join([name, *(["-".join(map(str, lanes))] if lanes else [])])
    turns = turns_html(stored.earlier, [trace.config for trace in traces.values()], stored.later)
    return replace(ended_result(traces, name, of_all, speeds=speeds), turns=turns)


def turn_name(comparison: str, earlier: Sequence[StoredComparison]) -> str:
    """Return what is unique to a turn of a comparison, after ``earlier`` ones."""
    return f"{comparison}-{len(earlier)}" if earlier else comparison


class ColumnRuns(NamedTuple):
    """By column: the runs, tokens per second of each and of its repeats."""

    traces: dict[int, Trace]
    speeds: dict[int, list[float]]


def by_column(stored: StoredComparison, lanes: Sequence[int | None]) -> ColumnRuns:
    """``lanes``: those of the columns, as saved; columns without a run are left out."""
    runs, speeds = {run.lane: run for run in stored.runs}, run_speeds(stored)
    known = {column: runs[lane] for column, lane in enumerate(lanes) if lane in runs}
    return ColumnRuns(
        {column: run.trace for column, run in known.items()},
        {column: speeds[run.lane] for column, run in known.items()},
    )


def run_speeds(stored: StoredComparison) -> dict[int, list[float]]:
    """Lane → tokens per second by round; nan where it did not run to its end. A round ends where a
    lane runs again."""
    runs = [(run.order, run.lane, speed_of(run.trace)) for run in stored.runs]
    runs += [(each.order, each.lane, speed_of(each)) for each in stored.repeats]
    rounds: list[dict[int, float]] = [{}]
    for _, lane, speed in sorted(runs):
        if lane in rounds[-1]:
            rounds.append({})
        rounds[-1][lane] = speed
    return {run.lane: [each.get(run.lane, math.nan) for each in rounds] for run in stored.runs}


def speed_of(run: Trace | Repeat) -> float:
    """Tokens per second; nan where it did not end."""
    return run.summary.tokens_per_s if run.status is Status.COMPLETED else math.nan


def title_of(stored: StoredComparison) -> str:
    """Return what a comparison is called: its name, or how its prompt begins."""
    return shorten(
        stored.name or stored.turns[0].prompt.text or "a comparison without a prompt", 80
    )


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
    """Lane → what it shares with the leftmost; for that one, with the first that leaves it. A lane
    that nothing is known of is left out."""
    spans: dict[int, Spans] = {}
    others = [lane for lane in traces if lane and 0 in traces and _ended(traces[0], traces[lane])]
    for lane in sorted(others, key=lambda lane: positions.get(lane, math.inf)):
        whole = len(traces[lane].output)
        spans[lane] = shared_spans(traces[0], traces[lane], positions.get(lane, whole))
        own = ((at, at + after - first, at) for first, after, at in spans[lane])
        spans.setdefault(0, tuple(own))
    return spans


def _ended(*traces: Trace) -> bool:
    return all(trace.status is Status.COMPLETED for trace in traces)


def _strip(
    traces: Mapping[int, Trace], labels: Sequence[str], paces: Sequence[SpeedRatio]
) -> Strip:
    if not traces:
        return message_strip("Stopped before the first token; nothing was written.", "cancelled")
    runs = [traces.get(lane) for lane in range(len(labels))]
    names = run_names([run.config for run in runs if run]) if len(traces) == len(labels) else labels
    numbers = headlines(names, traces)
    if paces:
        untimed = not all(pace.measured or pace.same_work for pace in paces[1:])
        sentence = verdict([traces[lane] for lane in range(len(labels))], paces)
        configs = tuple(traces[lane].config for lane in range(len(labels)))
        return Strip(sentence, "done", numbers=numbers, untimed=untimed, configs=configs)
    failed = any(trace.status is Status.FAILED for trace in traces.values())
    return Strip(
        broken_sentence(list(zip(names, runs, strict=True))),
        "failed" if failed else "cancelled",
        numbers=numbers,
    )


class Headline(NamedTuple):
    """``runs``: name and numbers of the leftmost run and of the one in ``lane``, or of that alone;
    ``relaxed_at``: position of its first relaxed token."""

    lane: int
    runs: tuple[tuple[str, LaneCounts], ...]
    relaxed_at: int | None


def headlines(
    names: Sequence[str],
    traces: Mapping[int, Trace],
    live: Mapping[int, LaneCounts] = MappingProxyType({}),
) -> tuple[Headline, ...]:
    """Return one for every lane after the leftmost; the only lane has one of its own. ``live``: of
    runs that have not ended."""
    counts = {lane: counts_of(trace) for lane, trace in traces.items()} | dict(live)
    lanes = range(1 if len(names) > 1 else 0, len(names))
    return tuple(
        Headline(
            lane,
            tuple((names[at], counts.get(at, LaneCounts())) for at in sorted({0, lane})),
            _first_relaxed(traces[lane]) if lane in traces else None,
        )
        for lane in lanes
    )


def _first_relaxed(trace: Trace) -> int | None:
    return next(
        (token.position for token in trace.tokens if token.outcome is Outcome.RELAXED), None
    )


LEAST = 3  # tokens in a row, so that a comma or an article is no match
Spans = tuple[tuple[int, int, int], ...]  # the first, after the last, the first in the leftmost


def shared_spans(left: Trace, right: Trace, position: int) -> Spans:
    """Return what is in either text, by output positions of the right one; ``position``: where they
    first differ."""
    mixed = left.config.served != right.config.served
    ids = [
        [each.piece if mixed or each.id == UNKNOWN else each.id for each in trace.output[position:]]
        for trace in (left, right)
    ]
    # without seeds in frequent tokens of long texts, which keeps a text that repeats itself fast
    blocks = SequenceMatcher(None, ids[0], ids[1]).get_matching_blocks()
    met = [
        (position + run.b, position + run.b + run.size, position + run.a)
        for run in blocks
        if run.size >= LEAST
    ]
    return ((0, position, 0), *met)
