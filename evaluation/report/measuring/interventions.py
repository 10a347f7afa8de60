"""What followed tokens that strict rejected, each relaxed alone in strict's own text: those that a
rule would relax beside the others of the same text, and by rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evaluation.advise.recorded import decides, is_recorded, relaxes
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from evaluation.report.measuring.grid import Grid, Mask
from evaluation.report.rows import NEAR, OTHERS, InterventionRow
from evaluation.statistics import Array, Indices, Interval, mean_interval, quartiles
from mars_core.counterfactual import Counterfactual, rejected_tokens
from mars_core.rules import RULES
from mars_core.types import Token
from storage import RunStore
from storage.scope import batches

RUNS_A_READ = 50


class _Rejection(NamedTuple):
    prompt: int  # number of the item
    token: Token
    outcome: Counterfactual


class _Class(NamedTuple):
    """Which of the rejections have something in common, and those that they are compared with: the
    others, and of these those of the ranks that the rule admits, if it does not admit all."""

    name: str
    rule: int | None  # its lane
    has: Mask
    others: Mask
    near: Mask


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
        row
        for (lane, temperature), some in sorted(rejections.items())
        for each in _classes(plan, plan.lanes[lane], temperature, some)
        if each.has.any()
        for row in _rows(lane, temperature, each, some)
    )


def _classes(
    plan: Plan, strict: Lane, temperature: float, rejections: Sequence[_Rejection]
) -> Iterator[_Class]:
    tokens = [each.token for each in rejections]
    rank = np.array([token.rank for token in tokens])
    every = np.ones(len(tokens), dtype=np.bool_)
    none = ~every
    yield _Class("all", None, every, none, none)
    ranks = {
        "rank 2" if temperature == 0 else "rank 1 or 2": rank <= 2,
        "rank 3": rank == 3,
        "rank 4 and more": rank > 3,
    }
    for name, has in ranks.items():
        yield _Class(name, None, has, ~has, none)
    for number, lane in enumerate(plan.lanes):
        if lane.drafter == strict.drafter and is_recorded(lane.rule):
            has = np.array([relaxes(lane.rule, token) for token in tokens])
            others = np.array([decides(lane.rule, token) for token in tokens]) & ~has
            admitted = RULES[lane.rule.name].relaxes or 0
            yield _Class(lane.title, number, has, others, others & (rank <= admitted))


def _rows(
    lane: int, temperature: float, of: _Class, every: Sequence[_Rejection]
) -> Iterator[InterventionRow]:
    """Yield a class, and what it is minus the tokens that it is compared with, if there are any."""
    prompts, prompt = np.unique([each.prompt for each in every], return_inverse=True)
    outcomes = {
        name: np.array([read(each.outcome) for each in every], dtype=np.float64)
        for name, read in _READ.items()
    }

    def mean(name: str, beside: Mask | None) -> Interval:
        """Return the mean over prompts of the means of their tokens; with ``beside`` minus that of
        these, over the prompts that have both."""
        values = outcomes[name]
        means, *less = (
            _by_prompt(values[some], prompt[some], len(prompts))
            for some in ([of.has] if beside is None else [of.has, beside])
        )
        return mean_interval(means - less[0] if less else means, np.arange(len(prompts)))

    meets_after = quartiles(outcomes.pop("meets_after")[of.has])
    for beside, those in (("", None), (OTHERS, of.others), (NEAR, of.near)):
        if those is None or those.any():
            yield InterventionRow(
                lane=lane,
                temperature=temperature,
                group="",
                title=of.name,
                rule=of.rule,
                beside=beside,
                tokens=int(of.has.sum()),
                prompts=len(np.unique(prompt[of.has])),
                meets_after=Interval() if beside else meets_after,
                **{name: mean(name, those) for name in outcomes},
            )


_READ: dict[str, Callable[[Counterfactual], float | None]] = {
    "score": lambda outcome: outcome.relaxed_score - outcome.strict_score,
    "changed": lambda outcome: outcome.changed,
    "meets": lambda outcome: outcome.meets_after is not None,
    "meets_after": lambda outcome: outcome.meets_after,
    "logprob": lambda outcome: outcome.relaxed_logprob - outcome.strict_logprob,
}


def _by_prompt(values: Array, prompt: Indices, prompts: int) -> Array:
    """Return the mean by prompt of the values that are known, [prompts]; nan without any."""
    known = np.isfinite(values)
    sums = np.bincount(prompt[known], values[known], prompts)
    with np.errstate(invalid="ignore"):
        means: Array = sums / np.bincount(prompt[known], minlength=prompts)
    return means
