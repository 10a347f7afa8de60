"""What followed single tokens of a study: those that rules relaxed, by lane and by properties of the
tokens; and those that strict rejected, each relaxed alone in strict's own text: the ones that a
rule would relax beside the others of the same text, and by rank."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from display.format import number
from evaluation.advise.recorded import decides, is_recorded, relaxes
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from evaluation.report.measured import BLANK
from evaluation.report.measuring.grid import Grid, Mask
from evaluation.report.rows import NEAR, OTHERS, FollowedRow, InterventionRow
from evaluation.statistics import (
    Array,
    Indices,
    Interval,
    mean_interval,
    quartiles,
    share_interval,
)
from mars_core.counterfactual import Counterfactual, rejected_tokens
from mars_core.rules import RULES
from mars_core.types import Token
from storage import RunStore

KINDS = ("number", "word", "punctuation", "code")
NUMBERS = ("r", "gap", "entropy", "position")
LEAST = 10  # tokens of a row with a property
PARTS = 4  # of the values of a property at most


def outcomes(tokens: Iterable[Counterfactual]) -> dict[str, Array]:
    """Return what followed each token, by name, [N]; nan where it is not known. ``score``,
    ``logprob``: minus strict's."""
    rows = [
        (
            each.relaxed_score - each.strict_score,
            each.changed,
            each.meets_after is not None,
            each.meets_after,
            each.relaxed_logprob - each.strict_logprob,
        )
        for each in tokens
    ]
    names = "score", "changed", "meets", "meets_after", "logprob"
    return dict(zip(names, np.array(rows, dtype=np.float64).reshape(-1, 5).T, strict=True))


class _Token(NamedTuple):
    prompt: int  # number of the item
    at: Counterfactual


def followed_rows(store: RunStore, grid: Grid) -> tuple[FollowedRow, ...]:
    """Return rows by lane and temperature: all tokens, then those of each part of the values of a
    property."""
    relaxed = [
        (row, lane, grid.run_ids[row, lane])
        for lane, row in np.argwhere(grid.numbers["relaxed"].T > 0).tolist()
    ]
    saved = store.counterfactuals([run_id for *_, ids in relaxed for run_id in ids])
    tokens = defaultdict[tuple[int, float], list[_Token]](list)
    for row, lane, ids in relaxed:
        tokens[lane, float(grid.temperature[row])] += [
            _Token(int(grid.item[row]), token) for run_id in ids for token in saved.get(run_id, ())
        ]
    return tuple(
        _row(*key, by, text, x, chosen)
        for key, some in sorted(tokens.items())
        if some
        for by, text, x, chosen in (("", "", math.nan, some), *_parts(some))
    )


def _parts(tokens: Sequence[_Token]) -> Iterator[tuple[str, str, float, Sequence[_Token]]]:
    """Yield up to PARTS equally many tokens of every property, by its values, and those of a kind:
    the property, its values in words and their mean, and the tokens; parts of fewer than LEAST
    tokens are left out."""
    for by in NUMBERS:
        value = attrgetter(f"at.{by}")
        known = sorted((each for each in tokens if math.isfinite(value(each))), key=value)
        parts = min(PARTS, len(known) // LEAST)
        for part in range(parts):
            some = known[len(known) * part // parts : len(known) * (part + 1) // parts]
            values = list(map(value, some))
            text = f"{number(values[0])} to {number(values[-1])}"
            yield by, text, statistics.fmean(values), some
    for kind in KINDS:
        some = [token for token in tokens if token.at.kind == kind]
        if len(some) >= LEAST:
            yield "kind", kind, math.nan, some


def _row(
    lane: int, temperature: float, by: str, part: str, x: float, tokens: Sequence[_Token]
) -> FollowedRow:
    prompt = np.array([token.prompt for token in tokens], dtype=np.intp)
    found = outcomes(token.at for token in tokens)
    return FollowedRow(
        lane=lane,
        group="",
        temperature=temperature,
        by=by,
        part=part,
        x=x,
        tokens=len(tokens),
        prompts=len(np.unique(prompt)),
        changed=share_interval(found["changed"], prompt),
        meets=share_interval(found["meets"], prompt),
        meets_after=quartiles(found["meets_after"]),
        logprob=mean_interval(found["logprob"], prompt),
    )


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
    if not plan.interventions:
        return ()
    rejections = defaultdict[tuple[int, float], list[_Rejection]](list)
    for (row, lane), ids in np.ndenumerate(grid.run_ids):
        if ids and plan.lanes[lane].rule.name == BASELINE:
            key = lane, float(grid.temperature[row])
            rejections[key] += _rejections(store, ids, int(grid.item[row]))
    return tuple(
        row
        for (lane, temperature), some in sorted(rejections.items())
        if some
        for each in _classes(plan, plan.lanes[lane], temperature, some)
        if each.has.any()
        for row in _rows(lane, temperature, each, some)
    )


def _rejections(store: RunStore, ids: Sequence[str], item: int) -> Iterator[_Rejection]:
    """Yield the rejected tokens of one answer that were relaxed."""
    saved = store.counterfactuals(ids)
    for run_id, trace in store.traces([*saved]).items():
        rejected = rejected_tokens(trace)
        for each in saved[run_id]:
            if each.position in rejected:
                yield _Rejection(item, rejected[each.position], each)


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
    for place, lane in enumerate(plan.lanes):
        if lane.drafter == strict.drafter and is_recorded(lane.rule):
            has = np.array([relaxes(lane.rule, token) for token in tokens])
            others = np.array([decides(lane.rule, token) for token in tokens]) & ~has
            admitted = RULES[lane.rule.name].relaxes or 0
            yield _Class(lane.title, place, has, others, others & (rank <= admitted))


def _rows(
    lane: int, temperature: float, of: _Class, every: Sequence[_Rejection]
) -> Iterator[InterventionRow]:
    """Yield a class, and what it is minus the tokens that it is compared with, if there are any."""
    _, prompt = np.unique([each.prompt for each in every], return_inverse=True)
    found = outcomes(each.outcome for each in every)
    meets_after = quartiles(found.pop("meets_after")[of.has])

    def mean(values: Array, beside: Mask | None) -> Interval:
        """Return the mean over prompts of the means of their tokens; with ``beside`` minus that of
        these, over the prompts that have both."""
        means = _by_prompt(values, prompt, of.has)
        less = 0.0 if beside is None else _by_prompt(values, prompt, beside)
        return mean_interval(means - less, np.arange(len(means)))

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
                meets_after=BLANK if beside else meets_after,
                **{name: mean(values, those) for name, values in found.items()},
            )


def _by_prompt(values: Array, prompt: Indices, some: Mask) -> Array:
    """Return the mean by prompt of the values of ``some`` that are known, [prompts]; nan without
    any."""
    known, prompts = some & np.isfinite(values), int(prompt.max()) + 1
    sums = np.bincount(prompt[known], values[known], prompts)
    with np.errstate(invalid="ignore"):
        means: Array = sums / np.bincount(prompt[known], minlength=prompts)
    return means
