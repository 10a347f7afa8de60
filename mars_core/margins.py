"""What the threshold of a margin rule means at some positions: how many it calls near ties, and
from which p₂/p₁ on it keeps the runner-up. The same θ is another ratio in every model: where z₁ >
0, r > θ is p₂/p₁ > exp(−(1 − θ)·z₁) at temperature 1."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mars_core.rules import RULES
from mars_core.rules.margin import MARS_GAP
from mars_core.types import RuleConfig, Trace, numbers, value_text

Margins = Sequence[
    tuple[float, float]
]  # z₁ and z₂ at some positions: the target's two best logits before warpers


class Meaning(NamedTuple):
    """Of a threshold at some positions. ``median`` and ``tenth`` (percentile), over all of them:
    the p₂/p₁, at temperature 1, above which a position is a near tie; 1 where none can be."""

    positions: int
    share: float  # of the positions that are near ties
    median: float
    tenth: float


def finite(margins: Iterable[Sequence[float]]) -> Margins:
    """Positions whose two logits are known."""
    return tuple((z1, z2) for z1, z2 in margins if math.isfinite(z1) and math.isfinite(z2))


def meaning(rule: RuleConfig, margins: Margins) -> Meaning | None:
    """Return None for a rule without such a threshold, for one that is an expression, and for fewer
    than 2 positions. Raises ValueError for values outside their range."""
    known = RULES.get(rule.name)
    if known is None or known.margin_threshold is None or len(margins) < 2:
        return None
    values = numbers(known.values(rule.parameters))
    if known.parameters[0].name not in values:
        return None
    rooms = [known.margin_threshold(z1, values) for z1, _ in margins]
    near = sum(z1 - z2 < room for (z1, z2), room in zip(margins, rooms, strict=True))
    bars = [math.exp(-max(0.0, room)) for room in rooms]
    tenth = statistics.quantiles(bars, n=10, method="inclusive")[0]
    return Meaning(len(margins), near / len(margins), statistics.median(bars), tenth)


def gap_ties(trace: Trace) -> tuple[tuple[int, ...], str]:
    """Return the output positions of a server's run at which mars-gap with its default would keep
    a drafted runner-up, by the log probabilities of the two best tokens alone, and how many of
    them there are, in words; nothing where no gap is known."""
    values, room = MARS_GAP.values({}), MARS_GAP.margin_threshold
    gaps = {token.position: token.gap for token in trace.tokens if math.isfinite(token.gap)}
    if not gaps or not trace.config.served or room is None:
        return (), ""
    near = tuple(at for at, gap in gaps.items() if gap < room(math.nan, numbers(values)))
    every = len(gaps) == sum(bool(token.piece) for token in trace.tokens)
    return near, (
        f"{MARS_GAP.title} ({MARS_GAP.parameters[0].symbol} = {values['gap']:g}) would keep a "
        f"drafted runner-up at {len(near):,} of {len(gaps):,} positions of this text"
        f"{'' if every else ' whose log probabilities the server gave'}."
    )


def sentence(rule: RuleConfig, margins: Margins, where: str = "On this pair") -> str:
    """``meaning`` in words; empty where there is none. Raises as ``meaning``."""
    shares = meaning(rule, margins)
    if shares is None:
        return ""
    threshold = RULES[rule.name].parameters[0]
    name = (
        f"{threshold.symbol} = {value_text(rule.parameters.get(threshold.name, threshold.default))}"
    )
    median, tenth = (f"{round(each, 3):.2g}" for each in shares[2:])
    spread = "everywhere" if tenth == median else f"in the median, {tenth} at the tenth percentile"
    return (
        f"{where} {name} calls {100 * shares.share:.0f} % of {shares.positions:,} positions near "
        f"ties: it keeps the runner-up above p₂/p₁ = {median} ({spread})."
    )
