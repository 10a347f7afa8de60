"""The table of a comparison, as plain values: one row a quantity, both runs, and the ratio right / left. No gradio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mars_core.types import Summary, Trace
from ui.format import count, duration, number, over, ratio, share
from ui.labels import lane_label


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
    Quantity("Summed TV", "total variation between emitted law and p, summed over the output; 0 is lossless", lambda
    s: s.tv_sum, number, "less"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows, formatted. A row: name, help, left, right, ratio, and ``better``, ``worse`` or ``""``."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, str, str, str, str, str], ...]


def comparison_table(left: Trace, right: Trace) -> Table:
    """Both runs side by side; the ratio is right / left."""
    rows = tuple(_row(quantity, left.summary, right.summary) for quantity in QUANTITIES)
    return Table(("", lane_label(left.config), lane_label(right.config), "right / left"), rows)


def _row(quantity: Quantity, left: Summary, right: Summary) -> tuple[str, str, str, str, str, str]:
    values = quantity.read(left), quantity.read(right)
    factor = over(values[1], values[0])
    left_text, right_text = map(quantity.write, values)
    return quantity.name, quantity.help, left_text, right_text, ratio(factor), _verdict(quantity, factor)


def _verdict(quantity: Quantity, factor: float) -> str:
    if not quantity.better or math.isnan(factor) or abs(factor - 1) < 0.01:
        return ""
    return "better" if (factor > 1) == (quantity.better == "more") else "worse"
