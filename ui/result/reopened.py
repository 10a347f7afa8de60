"""A stored comparison as the page shows it: the result from its traces alone, its settings in a line, its title."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from evaluation.format import count, shorten
from storage import StoredComparison
from ui.kit.labels import lane_labels, settings_line
from ui.result.result import Result, ended_result
from ui.settings.form import LEAST_LANES, MOST_LANES
from ui.settings.stored import richest

OTHER = "The other run"


def few(stored: StoredComparison, wanted: Collection[str]) -> StoredComparison:
    """At most as many runs as the page has lanes: a study compares more. Those that are wanted, by id, else the first ones."""
    if len(stored.runs) <= MOST_LANES:
        return stored
    chosen = [run for run in stored.runs if run.id in wanted] or stored.runs
    return replace(stored, runs=tuple(replace(run, lane=lane) for lane, run in enumerate(chosen[:MOST_LANES])))


def reopened(stored: StoredComparison) -> Result:
    """The result view of a stored comparison, from its traces alone."""
    traces = {run.lane: run.trace for run in stored.runs}
    lanes = max(LEAST_LANES, *(lane + 1 for lane in traces), 0)
    named = dict(zip(traces, lane_labels([trace.config for trace in traces.values()]), strict=True))
    return ended_result(traces, stored.id, [named.get(lane, OTHER) for lane in range(lanes)])


def shown_settings(stored: StoredComparison, total: int) -> str:
    """The settings of the run that drafted, if one did: they say more. ``total``: how many runs the comparison has, shown or not."""
    config = richest(stored)
    hidden = (
        f"Shown are {count(len(stored.runs))} of {count(total)} runs: choose others in the list, then open it again. "
    )
    return f"{hidden if total > len(stored.runs) else ''}{settings_line(config) if config else ''}"


def title_of(stored: StoredComparison) -> str:
    """What a comparison is called: its name, or how its prompt begins."""
    return shorten(stored.name or stored.prompt.text or "a comparison without a prompt", 80)
