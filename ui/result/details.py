"""The part of a result below the lanes: numbers, figures, shift. Plain values computed from traces.

``FIGURES`` is the one table of figures: the page's tabs and the report of a comparison follow from
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from display.blocks import ReportTable
from display.plot import Plot
from mars_core.telemetry import beyond_head, counted_note
from mars_core.types import Trace
from ui.figures.acceptance import acceptance_plot
from ui.figures.margins import margin_plot
from ui.figures.ratio import ratio_plot
from ui.figures.runs import PlottedRun, Scale, margin_scale
from ui.figures.shift import shift_plot
from ui.kit.labels import LANE_NAMES, run_names
from ui.kit.values import Check
from ui.result.numbers import (
    SHIFT_QUANTITIES,
    infinite_note,
    quantities_of,
    run_table,
    self_check,
)
from ui.result.sentence import SpeedRatio

UNDRAFTED = "No run drafted anything."
PAYS = "When does it pay?"
TABS: Mapping[str, str] = {  # title → what the tab shows, in a sentence
    "Numbers": (
        "The numbers of every run, and their difference from the baseline’s where all runs ended. Times "
        "are those of the first round; they are compared over all rounds, per token, with an interval."
    ),
    "Margins": "How nearly the target’s two best tokens tied at every token of the text.",
    "Acceptance": "At each depth of the draft: in which share of the steps that drafted so deep the token was kept.",
    "Ratio": (
        "How nearly the target’s two best tokens tied where a drafted token was judged: r = z₂/z₁ "
        "of its raw logits, near 1 a near tie. The line is θ, dotted in runs whose rule does not "
        "use it."
    ),
    "Shift": (
        "How far the distribution of the emitted text is from the target’s own: total variation "
        "(TV) and Kullback–Leibler divergence (KL, in nats) at every position, and what the "
        "target thinks of the text that was written."
    ),
    PAYS: (
        "The speed-up to expect over K, from this run’s acceptance by depth and the times of its "
        "passes, without one in whose draft the text ended: tokens per target pass over the cost of K draft passes and one target pass. Up "
        "to the free tokens, of all sequences of the batch together, a target pass costs the "
        "same; beyond them, in proportion to its tokens."
    ),
}


@dataclass(frozen=True, slots=True)
class PlottedRuns:
    """The runs that wrote something, by lane. ``divergences``: lane → position at which it leaves the
    leftmost run."""

    runs: tuple[PlottedRun, ...]
    scale: Scale
    divergences: Mapping[int, int]

    @property
    def drafted(self) -> list[PlottedRun]:
        return [run for run in self.runs if run.trace.summary.drafted > 0]


class DetailFigure(NamedTuple):
    """``draw`` gives None where there is nothing to draw, ``empty`` stands there then. ``name``,
    ``width``: as of a Picture."""

    tab: str
    name: str
    title: str
    draw: Callable[[PlottedRuns], Plot | None]
    empty: str = "There is nothing to draw."
    width: int = 0


def _margins(lane: int, plotted: PlottedRuns) -> Plot | None:
    run = next((run for run in plotted.runs if run.lane == lane), None)
    return margin_plot(run, plotted.scale, plotted.divergences.get(lane)) if run else None


FIGURES: tuple[DetailFigure, ...] = (
    *(
        DetailFigure(
            "Margins",
            f"margins-{lane + 1}",
            f"Margin of every token, {name.lower()}",
            partial(_margins, lane),
            "",
            480,
        )
        for lane, name in enumerate(LANE_NAMES)
    ),
    DetailFigure(
        "Acceptance",
        "acceptance",
        "Acceptance by depth",
        lambda plotted: acceptance_plot(plotted.drafted),
        UNDRAFTED,
    ),
    DetailFigure(
        "Ratio",
        "ratio",
        "r of the drafted tokens",
        lambda plotted: ratio_plot(plotted.drafted, plotted.scale),
        UNDRAFTED,
    ),
    DetailFigure("Shift", "tv", "TV along the text", lambda plotted: shift_plot(plotted.runs)),
)


@dataclass(frozen=True, slots=True)
class Details:
    """Of the runs that wrote something. ``table`` has differences where all ended; ``plots``: name →
    figure of ``FIGURES``."""

    table: ReportTable
    check: Check
    shift: ReportTable
    plots: Mapping[str, Plot | None]
    runs: tuple[PlottedRun, ...]


def details_of(
    traces: Mapping[int, Trace],
    divergences: Mapping[int, int],
    paces: Sequence[SpeedRatio] = (),
) -> Details | None:
    """Return the details; None where no run wrote anything. ``paces``: as ``verdict`` has them."""
    written = {lane: trace for lane, trace in traces.items() if trace.tokens}
    if not written:
        return None
    ended = list(written.values())
    names = run_names([trace.config for trace in ended])
    runs = tuple(map(PlottedRun, ended, written, names))
    plotted = PlottedRuns(runs, margin_scale(ended), divergences)
    notes = [*map(beyond_head, ended), *map(counted_note, ended), infinite_note(ended)]
    note = " ".join(filter(None, dict.fromkeys(notes)))
    compared = paces if len(ended) == len(paces) else ()
    return Details(
        run_table("Numbers", ended, quantities_of(ended), compared),
        self_check(ended),
        run_table("Shift", ended, SHIFT_QUANTITIES, note=note),
        {figure.name: figure.draw(plotted) for figure in FIGURES},
        runs,
    )
