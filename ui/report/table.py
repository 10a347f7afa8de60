"""The table of a comparison, as plain values: one row a quantity, one column a run, and the ratio of each to the left one. No gradio."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mars_core.types import Summary, Trace
from ui.kit.format import count, duration, number, over, ratio, share
from ui.kit.labels import lane_label
from ui.kit.values import Cell, Row, Table


@dataclass(frozen=True, slots=True)
class Quantity:
    """One row: how it is called, read from a summary and written. ``better``: which direction is good, if any.

    Latency and passes have none: they also fall where the output is only shorter.
    """

    name: str
    help: str
    read: Callable[[Summary], float]
    write: Callable[[float], str]
    better: str = ""  # "more" or "less"


def _whole(value: float) -> str:
    return count(int(value))


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("Total latency", "wall time from the prompt to the last token", lambda s: s.wall_s, duration),
    Quantity("Time to first token", "prefill and the first step", lambda s: s.ttft_s, duration, "less"),
    Quantity("Tokens per second", "new tokens / total latency", lambda s: s.tokens_per_s, number, "more"),
    Quantity("τ, tokens per step", "mean acceptance length, with the recovered or bonus token", lambda s: s.tau, number, "more"),
    Quantity("Acceptance rate", "kept drafted tokens / drafted tokens", lambda s: s.acceptance_rate, share, "more"),
    Quantity("Relaxed share", "tokens kept only because they were forgiven / new tokens", lambda s: s.relaxed_share, share),
    Quantity("Output length", "new tokens", lambda s: float(s.new_tokens), _whole),
    Quantity("Target passes", "decoding steps, each one forward pass of the target", lambda s: float(s.steps), _whole),
)  # fmt: skip


def comparison_table(traces: Sequence[Trace]) -> Table:
    """Runs by lane; each after the first with its ratio to the first."""
    labels = [lane_label(trace.config) for trace in traces]
    ratio_head = "right / left" if len(traces) == 2 else "/ left"
    heads = [head for label in labels[1:] for head in (label, ratio_head)]
    return Table(("", labels[0], *heads), tuple(_row(quantity, traces) for quantity in QUANTITIES))


def _row(quantity: Quantity, traces: Sequence[Trace]) -> Row:
    base, *others = (quantity.read(trace.summary) for trace in traces)
    cells = [Cell(quantity.write(base))]
    for value in others:
        factor = over(value, base)
        cells += [Cell(quantity.write(value)), Cell(ratio(factor), True, _verdict(quantity, factor))]
    return quantity.name, quantity.help, tuple(cells)


def _verdict(quantity: Quantity, factor: float) -> str:
    if not quantity.better or math.isnan(factor) or abs(factor - 1) < 0.01:
        return ""
    return "better" if (factor > 1) == (quantity.better == "more") else "worse"
