"""The outcome colours and shapes: token view, figures, legends and reports take them
from here.

Colour-blind safe (Okabe and Ito); ``light`` and ``dark`` are the marks on either ground, ``*_text``
reach 4.5:1 as text. Every outcome also has a shape, so that no colour is ever needed to tell two
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mars_core.types import Outcome


class OutcomeStyle(NamedTuple):
    """How one outcome looks. ``symbol`` is a Plotly marker, ``meaning`` one short sentence."""

    light: str
    light_text: str
    dark: str
    dark_text: str
    symbol: str
    meaning: str


_ACCEPTED = ("#6B7280", "#4B5563", "#9CA3AF", "#C3C9D2", "circle")
_RELAXED = ("#D55E00", "#A84A00", "#F2894A", "#F5A06C", "diamond")
_REJECTED = ("#CC79A7", "#9C3F73", "#E29AC3", "#E8B0D0", "x")
_RECOVERED = ("#0072B2", "#00619A", "#62B6E7", "#7CC4EE", "square")
_BONUS = ("#7A7F87", "#5F646C", "#8D949E", "#B3B9C2", "triangle-right")
OUTCOME_STYLES: Mapping[Outcome, OutcomeStyle] = {
    Outcome.ACCEPTED: OutcomeStyle(*_ACCEPTED, "drafted, and the target draws it too"),
    Outcome.RELAXED: OutcomeStyle(*_RELAXED, "drafted; the rule keeps it, strict rejects it"),
    Outcome.REJECTED: OutcomeStyle(*_REJECTED, "drafted and rejected: not in the text"),
    Outcome.RECOVERED: OutcomeStyle(*_RECOVERED, "the target's own token after a rejection"),
    Outcome.BONUS: OutcomeStyle(*_BONUS, "the target's own token after a full draft"),
}

# z₂/z₁ below θ is decisive (violet), above θ a near tie (orange); neutral at θ. PuOr of
# ColorBrewer: safe for every colour vision.
DECISIVE: tuple[str, ...] = ("#2D1E5F", "#5E4A9C", "#A79FCB", "#E4E1EC")
NEAR_TIE: tuple[str, ...] = ("#FBE9D3", "#FDB863", "#E08214")
LANES: tuple[str, ...] = ("#7B7F8C", "#8C6BB1", "#2F93A3", "#B3872B")  # the lanes, on either ground
NEUTRAL = "#808894"  # axes and captions: 3:1 or better on white and on near-black
GRID = "rgba(128, 136, 148, 0.22)"


def css_variables() -> str:
    """Write the palette as CSS custom properties: ``--mars-<outcome>`` and
    ``--mars-<outcome>-text``, light and dark, and ``--mars-lane-<number>``."""
    lanes = "".join(f"--mars-lane-{lane}:{colour};" for lane, colour in enumerate(LANES))
    rules = f":root{{{lanes}}}\n"
    for where, name in ((":root", "light"), (".dark", "dark")):
        looks = ((outcome, style._asdict()) for outcome, style in OUTCOME_STYLES.items())
        pairs = (
            f"--mars-{outcome}:{look[name]};--mars-{outcome}-text:{look[f'{name}_text']};"
            for outcome, look in looks
        )
        rules += f"{where}{{{''.join(pairs)}}}\n"
    return rules
