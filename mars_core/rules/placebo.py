"""Rules without a signal, to compare others with.

``placebo`` relaxes a given number of rejections of a text, at places that are drawn beforehand. A
rejection is *eligible* where the target's own token was not drafted and a drafted token may be
relaxed: it is not protected, the rule decides there, and it is one of the target's ``best`` tokens,
if that is not 0. The eligible rejections of a text are numbered in its order; of the numbers below
``of`` as many as ``relaxed`` are drawn without replacement, and the rejections with these numbers
are relaxed. So each set of places is equally likely, and the number is exact unless the text ends
first. Of siblings the first one in draft order is relaxed that may be.
"""

from __future__ import annotations

from functools import lru_cache

from mars_core.lazy import torch
from mars_core.rules.base import Evidence, Parameter, Rule, Values

_AHEAD = 53  # rejections whose places a float64 holds, bit by bit; of one draft no more are relaxed


def random(evidence: Evidence, values: Values) -> torch.Tensor:
    """f + (1 − f)·min(1, p/q): what strict rejects is relaxed with probability f."""
    return values["probability"] + (1 - values["probability"]) * evidence.strict


def eligible(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return whether the candidate is of the rank that may be relaxed, bool [E, C]."""
    ranks = range(1, int(values["best"]) + 1)
    best = [evidence.is_top(rank) for rank in ranks] or [evidence.x >= 0]
    return torch.stack(best).any(0)


def lot(values: Values, passed: int) -> float:
    """Return which of the next eligible rejections are relaxed: bit i is that of number ``passed`` +
    i."""
    drawn = _drawn(*(int(values[name]) for name in ("relaxed", "of", "draw")))
    return float(sum(1 << at - passed for at in drawn if 0 <= at - passed < _AHEAD))


@lru_cache(maxsize=1024)
def _drawn(relaxed: int, of: int, draw: int) -> tuple[int, ...]:
    """Return ``relaxed`` numbers below ``of``, drawn without replacement."""
    from mars_core.sampling import shuffled  # imported here because it loads torch

    return tuple(shuffled(draw, of)[:relaxed])


def by_lot(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1 at the eligible rejections whose number was drawn; else strict."""
    assert evidence.state is not None, "the rule has a ledger"
    due, before = map(evidence.per_row, (evidence.state.lot, evidence.state.relaxed))
    drawn = (due / 2**before).floor() % 2 > 0
    return torch.where(drawn & eligible(evidence, values), 1.0, evidence.strict)


def always(evidence: Evidence, values: Values) -> torch.Tensor:
    """Return 1."""
    return torch.ones_like(evidence.strict)


RANDOM = Rule(
    name="random",
    title="Random relaxation",
    summary="Relaxes every rejected token with one probability, whatever the target says.",
    formula="relax x iff u < f; sampled drafts: a = f + (1 − f)·min(1, p/q), R = norm((p − q)₊); so P = (1 − f)·p + f·q",
    source="ours",
    accept=random,
    parameters=(
        Parameter(
            "probability",
            "f",
            0.3,
            0.0,
            1.0,
            "f: probability that a rejected token is relaxed; 0 is strict",
        ),
    ),
    chance=lambda values: values["probability"],
)
_COUNT = 10_000_000
PLACEBO = Rule(
    name="placebo",
    title="Random places",
    summary="Relaxes a given number of a text's rejections, at random places: a placebo for rules that relaxed as many.",
    formula="relax N of the first E eligible rejections of a text, drawn without replacement",
    source="ours",
    accept=by_lot,
    regret_cost=eligible,
    lot=lot,
    planned=("relaxed", "of", "draw"),
    parameters=(
        Parameter("relaxed", "N", 1, 0, _COUNT, "N: rejections that are relaxed; 0 is strict"),
        Parameter("of", "E", 4, 0, _COUNT, "E: first eligible rejections, of which N are drawn"),
        Parameter("draw", "d", 0, 0, 2**53 - 1, "d: number of the draw"),
        Parameter("best", "b", 0, 0, 2, "b: of the target's best tokens; 0: any drafted token"),
    ),
)
ALWAYS = Rule(
    name="always",
    title="Keep all drafts",
    summary="Keeps every drafted token: what a rule can gain at most, and what that costs.",
    formula="a = 1",
    source="ours",
    accept=always,
    chance=lambda _: 1.0,
)
