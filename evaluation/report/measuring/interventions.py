"""What followed tokens that strict rejected, each relaxed alone in strict's own text: those that a
rule would relax beside the others of the same text, and by rank."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evaluation.advise.recorded import decides, is_recorded, relaxes
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from evaluation.report.measuring.grid import Grid
from evaluation.report.rows import InterventionRow
from evaluation.statistics import (
    Array,
    Interval,
    mean_interval,
    quartiles,
)
from mars_core.counterfactual import Counterfactual, rejected_tokens
from mars_core.rules import RULES
from mars_core.types import Token
from storage import RunStore
from storage.scope import batches

ALONE = ("score", "changed", "logprob")  # what is compared with others
RUNS_A_READ = 50


class _Rejection(NamedTuple):
    prompt: int  # number of the item
    token: Token
    outcome: Counterfactual


Test = Callable[[Token], bool]


class _Class(NamedTuple):
    """Rejections that have something in common. ``within``: those that they are compared with;
    ``near``: those of the ranks that the rule admits, if it does not admit all."""

    name: str
    lane: int | None
    has: Test
    within: Test
    near: Test | None = None


def intervention_rows(store: RunStore, grid: Grid) -> tuple[InterventionRow, ...]:
    """Return rows by drafter and temperature: all, by rank, and those that each rule would
    relax."""
    plan = grid.plan
    lanes = [number for number, lane in enumerate(plan.lanes) if lane.rule.name == BASELINE]
    if not plan.interventions:
        return ()
    rejections = defaultdict[tuple[int, float], list[_Rejection]](list)
    ids = {
        run_id: (row, lane)
        for (row, lane), runs in sorted(grid.run_ids.items())
        for run_id in runs
        if lane in lanes
    }
    for some in batches([*ids], RUNS_A_READ):
        saved = store.counterfactuals(some)
        traces = store.traces([*saved])
        for run_id, tokens in saved.items():
            row, lane = ids[run_id]
            rejected = rejected_tokens(traces[run_id]) if run_id in traces else {}
            rejections[lane, float(grid.temperature[row])] += [
                _Rejection(int(grid.item[row]), rejected[each.position], each)
                for each in tokens
                if each.position in rejected
            ]
    return tuple(
        _row(lane, temperature, each, some)
        for (lane, temperature), some in sorted(rejections.items())
        for each in _classes(plan, plan.lanes[lane], temperature)
        if any(each.has(rejection.token) for rejection in some)
    )


def _classes(plan: Plan, strict: Lane, temperature: float) -> Iterator[_Class]:
    def every(_: Token) -> bool:
        return True

    yield _Class("all", None, every, every)
    ranks: dict[str, Test] = {
        "rank 2" if temperature == 0 else "rank 1 or 2": lambda token: token.rank <= 2,
        "rank 3": lambda token: token.rank == 3,
        "rank 4 and more": lambda token: token.rank > 3,
    }
    for name, test in ranks.items():
        yield _Class(name, None, test, every)
    for number, lane in enumerate(plan.lanes):
        if lane.drafter == strict.drafter and is_recorded(lane.rule, temperature):
            yield _of_rule(number, lane, temperature)


def _of_rule(number: int, lane: Lane, temperature: float) -> _Class:
    rule, most = lane.rule, RULES[lane.rule.name].relaxes

    def has(token: Token) -> bool:
        return relaxes(rule, token, temperature)

    def within(token: Token) -> bool:
        return decides(rule, token)

    def near(token: Token) -> bool:
        return token.rank <= (most or 0) and within(token)

    return _Class(lane.name, number, has, within, near if most else None)


def _row(lane: int, temperature: float, of: _Class, every: Sequence[_Rejection]) -> InterventionRow:
    chosen = [of.has(each.token) for each in every]
    inside = [one for one, has in zip(every, chosen, strict=True) if has]
    outside = [one for one, has in zip(every, chosen, strict=True) if not has]
    others = [one for one in outside if of.within(one.token)]
    near = [one for one in others if of.near and of.near(one.token)]
    after = [math.nan if (at := one.outcome.meets_after) is None else float(at) for one in inside]
    return InterventionRow(
        lane=lane,
        temperature=temperature,
        group="",
        title=of.name,
        rule=of.lane,
        tokens=len(inside),
        prompts=len({one.prompt for one in inside}),
        meets_after=quartiles(np.array(after)),
        **{name: _mean(inside, read) for name, read in _READ.items()},
        **{f"{name}_others": _mean(inside, _READ[name], others) for name in ALONE},
        **{f"{name}_near": _mean(inside, _READ[name], near) for name in ALONE},
    )


_READ: dict[str, Callable[[Counterfactual], float | None]] = {
    "score": lambda outcome: outcome.relaxed_score - outcome.strict_score,
    "changed": lambda outcome: outcome.changed,
    "meets": lambda outcome: outcome.meets_after is not None,
    "logprob": lambda outcome: outcome.relaxed_logprob - outcome.strict_logprob,
}


def _mean(
    rejections: Sequence[_Rejection],
    read: Callable[[Counterfactual], float | None],
    others: Sequence[_Rejection] | None = None,
) -> Interval:
    """Return the mean over prompts of the means of their tokens; with ``others`` minus that of
    these, over the prompts that have both."""
    means = _by_prompt(rejections, read)
    if others is not None:
        beside = _by_prompt(others, read)
        means = {each: means[each] - beside[each] for each in means.keys() & beside.keys()}
    values: Array = np.array([means[each] for each in sorted(means)], dtype=np.float64)
    return mean_interval(values, np.arange(len(values)))


def _by_prompt(
    rejections: Sequence[_Rejection], read: Callable[[Counterfactual], float | None]
) -> dict[int, float]:
    """Return the mean by prompt of the values that are known."""
    values = defaultdict[int, list[float]](list)
    for each in rejections:
        value = read(each.outcome)
        if value is not None and math.isfinite(value):
            values[each.prompt].append(value)
    return {prompt: sum(some) / len(some) for prompt, some in values.items()}
