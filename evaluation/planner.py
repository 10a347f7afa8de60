"""When drafting pays: the expected speed-up over K or the size of a tree, from the acceptance and
the times of one run.

Pure functions of plain numbers. Formulas: docs/reference/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import mul
from statistics import median
from typing import NamedTuple

from mars_core.types import Outcome, Step, Trace

MOST = 16  # the largest K that is planned
BUDGET = 256  # tokens of a pass up to which it costs the same, unless another value is given


class Acceptance(NamedTuple):
    """Of one run. ``rates``: share of the steps that kept a token at draft depth i + 1 among those
    that kept one at all depths before. ``beyond``: the same share over all depths, used for deeper
    ones. ``sizes``: of a run with trees, sizes and the mean number of tokens that a tree of that
    size keeps; empty for chains."""

    rates: tuple[float, ...]
    beyond: float
    sizes: tuple[tuple[int, float], ...] = ()

    def tokens(self, k: int) -> float:
        """Return those expected of a pass that verifies a chain of K."""
        return expected_tokens([*self.rates[:k], *[self.beyond] * (k - len(self.rates))])


class Times(NamedTuple):
    """Medians over the steps of a run without the first, which follows the prefill. ``draft_s``: of
    one pass of the drafter; ``pass_s``: of a step without its draft; ``width``: tokens of the
    target's pass."""

    draft_s: float
    pass_s: float
    width: float


class Costs(NamedTuple):
    """In target passes of one token a sequence. ``draft``: a pass of the drafter; ``slope``: each
    further token of a pass; ``batch``: sequences decoded together; ``budget``: tokens of a pass
    from which on its cost is proportional to them."""

    draft: float
    slope: float = 0.0
    batch: int = 1
    budget: float = math.inf

    def target(self, tokens: float) -> float:
        """Return the cost of a target pass of ``tokens`` tokens in each sequence of the batch."""
        return max(1 + self.slope * (tokens - 1), self.batch * tokens / self.budget)


class PlannedDraft(NamedTuple):
    """``size``: K, or the tokens of a tree. ``tokens``: expected a target pass. ``extrapolated``:
    deeper than anything the run drafted."""

    size: int
    tokens: float
    speedup: float
    extrapolated: bool


def uncut(trace: Trace) -> list[Step]:
    """Return the steps but those in whose draft the text ends: they kept less than was accepted."""
    drafted = (Outcome.ACCEPTED, Outcome.RELAXED)
    return [
        step for step in trace.steps if not step.emitted or step.emitted[-1].outcome not in drafted
    ]


def acceptance_of(trace: Trace) -> Acceptance | None:
    """Return that of its ``uncut`` steps; None for a run that drafted nothing."""
    steps = uncut(trace)
    deepest = max((step.depth for step in steps), default=0)
    if not deepest:
        return None
    kept = [sum(step.kept >= depth for step in steps) for depth in range(deepest + 1)]
    beyond = sum(kept[1:]) / sum(kept[:-1])
    rates = tuple(more / before if before else beyond for before, more in pairwise(kept))
    trees = any(len(step.nodes) > step.depth for step in steps)
    return Acceptance(rates, beyond, _sizes(steps) if trees else ())


def _sizes(steps: Sequence[Step]) -> tuple[tuple[int, float], ...]:
    """Return at most ``MOST`` sizes. A smaller tree has the nodes of highest drafter probability,
    of coupled trees of highest odds, product over the path, of a larger one."""
    ranks = [rank for step in steps for rank in _accepted_ranks(step)]
    largest = max(len(step.nodes) for step in steps)
    sizes = sorted({math.ceil(largest * part / MOST) for part in range(1, MOST + 1)})
    return tuple((size, sum(rank < size for rank in ranks) / len(steps)) for size in sizes)


def _accepted_ranks(step: Step) -> list[int]:
    """Return the ranks, from 0, of the kept nodes among all of the step."""
    chances = [1.0]
    for node in step.nodes:
        chances.append(chances[node.parent] * (node.q if math.isnan(node.odds) else node.odds))
    ranked = sorted(range(len(step.nodes)), key=lambda number: -chances[number + 1])
    return [
        rank
        for rank, number in enumerate(ranked)
        if step.nodes[number].outcome is not Outcome.REJECTED
    ]


def times_of(trace: Trace) -> Times | None:
    """Return its times; None for a run with fewer than two steps. Of a run without drafts
    ``draft_s`` is 0 and ``width`` 1."""
    timed = [(after, after.elapsed_s - before.elapsed_s) for before, after in pairwise(trace.steps)]
    return (
        Times(
            median(step.draft_s / max(1, step.depth) for step, _ in timed),
            median(max(step.verify_s, seconds - step.draft_s) for step, seconds in timed),
            1 + median(len(step.nodes) for step, _ in timed),
        )
        if timed
        else None
    )


def costs_of(times: Times, single_s: float = math.nan) -> Costs:
    """Return costs as measured. ``single_s``: of a pass of one token; without it all passes are
    taken to cost the same."""
    single = single_s if 0 < single_s < math.inf else times.pass_s
    return Costs(
        times.draft_s / single, max(0.0, times.pass_s / single - 1) / max(1.0, times.width - 1)
    )


def expected_tokens(rates: Sequence[float]) -> float:
    """Return 1 + Σ_d Π_{i ≤ d} a_i: of a pass that verifies a chain with these conditional
    acceptance rates."""
    return 1.0 + math.fsum(accumulate(rates, mul))


def planned(run: Acceptance, costs: Costs) -> tuple[PlannedDraft, ...]:
    """Plan K = 1 to MOST; of a run with trees sizes up to its own, at its depth."""
    deepest = len(run.rates)
    drafts = [(size, 1 + accepted, deepest) for size, accepted in run.sizes] or [
        (k, run.tokens(k), k) for k in range(1, MOST + 1)
    ]
    return tuple(
        PlannedDraft(size, tokens, _speedup(tokens, depth, size, costs), depth > deepest)
        for size, tokens, depth in drafts
    )


def _speedup(tokens: float, passes: int, verified: int, costs: Costs) -> float:
    """Return that over decoding without drafts, of a step with so many passes of the drafter and
    verified tokens."""
    return (
        tokens
        * costs.target(1)
        / (passes * costs.draft * costs.target(1) + costs.target(verified + 1))
    )


def best(plan: Sequence[PlannedDraft]) -> PlannedDraft | None:
    """Return the fastest; None where none is faster than decoding without drafts."""
    fastest = max(plan, key=lambda each: each.speedup, default=None)
    return fastest if fastest and fastest.speedup > 1 else None
