"""What the page shows of a comparison that ended, from its traces alone: the same live and reopened
from History. No gradio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import NamedTuple

from display.format import shorten
from mars_core.types import UNKNOWN, Outcome, Status, Summary, Trace
from storage import Repeat, StoredComparison, StoredRun
from ui.kit.components import Strip, message_strip
from ui.kit.labels import lane_labels, run_names
from ui.result.details import Details, details_of
from ui.result.sentence import SpeedRatio, broken_sentence, divergence, speed_ratio, verdict
from ui.result.turns import turns_html
from ui.token_view.tiles import NOTHING
from ui.token_view.view import LaneView, ended_view

OTHER = "The other run"


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    strip: Strip
    lanes: tuple[LaneView, ...]
    details: Details | None
    turns: str = ""  # HTML of those before


def ended_result(
    stored: StoredComparison,
    columns: Sequence[int | None] = (),
    *,
    labels: Sequence[str] = (),
    side: str = "",
) -> ComparisonResult:
    """Return the last turn of a comparison. ``columns``: the lane of each, as saved, None for one
    that never ran; without them as ``saved_columns``. ``labels``: of the columns, if known also for
    those that never ran; ``side``: beside the line."""
    columns = columns or saved_columns(stored)
    runs, speeds = by_column(stored, columns), run_speeds(stored)
    traces = {column: run.trace for column, run in runs.items()}
    configs = [trace.config for trace in traces.values()]
    known = dict(zip(traces, lane_labels(configs), strict=True))
    labels = labels or [known.get(column, OTHER) for column in range(len(columns))]
    positions = _positions(traces)
    shared = _shared(traces, positions)

    def view(column: int, label: str) -> LaneView:
        if column not in runs:
            return LaneView(label, "cancelled", "not started", empty="This run was not started.")
        return replace(
            ended_view(traces[column], run_name(stored, runs[column].lane)),
            title=label,
            diverges=positions.get(column),
            shared=shared.get(column, ()),
        )

    complete = len(runs) == len(columns) and _ended(*traces.values())
    paces = [
        speed_ratio(traces[0], run.trace, speeds[runs[0].lane], speeds[run.lane])
        for run in (runs.values() if complete else ())
    ]
    strip = replace(_strip(traces, labels, paces), side=side if runs else "")
    return ComparisonResult(
        strip,
        tuple(view(column, label) for column, label in enumerate(labels)),
        details_of(traces, positions, paces),
        turns_html(stored.earlier, configs, stored.later),
    )


def unsaved(traces: Mapping[int, Trace], name: str = "") -> StoredComparison:
    """Return runs by lane as a comparison that no database has."""
    runs = tuple(StoredRun("", lane, lane, trace) for lane, trace in traces.items())
    return StoredComparison(name, datetime.now(UTC), runs[0].trace.config.prompt, runs)


def saved_columns(stored: StoredComparison) -> tuple[int | None, ...]:
    """Return the lanes of a comparison by column, None for one that never ran."""
    lanes = {run.lane for run in stored.runs}
    return tuple(lane if lane in lanes else None for lane in range(max(lanes, default=0) + 1))


def run_name(stored: StoredComparison, lane: int) -> str:
    """Return what is unique to a run of the last turn."""
    turn = f"-{len(stored.earlier)}" if stored.earlier else ""
    return f"{stored.id}{turn}/{lane}"


def by_column(stored: StoredComparison, lanes: Sequence[int | None]) -> dict[int, StoredRun]:
    """``lanes``: those of the columns, as saved; columns without a run are left out."""
    runs = {run.lane: run for run in stored.runs}
    return {column: runs[lane] for column, lane in enumerate(lanes) if lane in runs}


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
    """Return tokens per second; nan where it did not end."""
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
    runs, complete = list(traces.values()), len(traces) == len(labels)
    names = run_names([run.config for run in runs]) if complete else labels
    numbers = headlines(names, traces)
    if paces:
        untimed = not all(pace.measured or pace.same_work for pace in paces[1:])
        configs = tuple(run.config for run in runs)
        return Strip(
            verdict(runs, paces), "done", numbers=numbers, untimed=untimed, configs=configs
        )
    failed = any(run.status is Status.FAILED for run in runs)
    return Strip(
        broken_sentence([(name, traces.get(column)) for column, name in enumerate(names)]),
        "failed" if failed else "cancelled",
        numbers=numbers,
    )


class Headline(NamedTuple):
    """``runs``: name and numbers of the leftmost run and of the one in ``lane``, or of that alone;
    ``relaxed_at``: position of its first relaxed token."""

    lane: int
    runs: tuple[tuple[str, Summary], ...]
    relaxed_at: int | None


def headlines(
    names: Sequence[str],
    traces: Mapping[int, Trace],
    live: Mapping[int, Summary] = MappingProxyType({}),
) -> tuple[Headline, ...]:
    """Return one for every lane after the leftmost; the only lane has one of its own. ``live``: of
    runs that have not ended."""
    numbers = {lane: trace.summary for lane, trace in traces.items()} | dict(live)
    lanes = range(1 if len(names) > 1 else 0, len(names))
    return tuple(
        Headline(
            lane,
            tuple((names[at], numbers.get(at, NOTHING)) for at in sorted({0, lane})),
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
