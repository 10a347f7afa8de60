"""The plans of ``mars advise`` and ``mars eval match``: their lanes follow from a tuning part of the
prompts, which is none of the study's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from display.format import count, number, percent
from evaluation.advise.certificate import compared
from evaluation.advise.predict import (
    StrictRuns,
    candidates,
    predictable,
    strict_runs,
    with_threshold,
)
from evaluation.advise.tuning import decoded, divided
from evaluation.betting import least_prompts, ratio_bound
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.plan import Plan
from evaluation.plan.purpose import Advice, Matching
from evaluation.study.events import LaneEnded
from mars_core.types import DrafterConfig, RuleConfig

if TYPE_CHECKING:
    from mars_core.session import Session

TUNING, CALIBRATION = 1 / 8, 1 / 3  # shares of the prompts
ROUNDS = 6  # of runs on the tuning part, for settings at equal τ
CLOSE, FAR = 0.005, 0.05  # relative distance from the target: enough, too much
Notify = Callable[[str], None]
EndedLanes = Sequence[LaneEnded]


class AdvicePlans(NamedTuple):
    """Of the tuning part of the prompts, whose runs of the lane ``strict`` choose the settings, and
    of the others, which test them."""

    tuning: Plan
    study: Plan
    strict: int


def advisable(plan: Plan, alpha: float) -> AdvicePlans:
    """Raises ValueError, before any run, where so many prompts cannot support anything."""
    names, strict, _ = _checked(plan)
    for name in names:
        with_threshold(name)
    tuning, study = divided(plan, TUNING)
    needed = least_prompts(plan.margin, alpha)
    if study.items < needed:
        best = np.ones(study.items)
        raise ValueError(
            f"{study.items} prompts ({plan.items} without {tuning.items} that choose the "
            f"settings) cannot support a recovery of {percent(plan.margin)}: even if no answer is "
            f"lost, its lower bound is {percent(ratio_bound(best, best, alpha))}. It takes "
            f"{count(needed)} prompts that strict answers right; add prompts, or lower the margin."
        )
    return AdvicePlans(tuning, study, strict)


def advised(plan: Plan, session: Session, alpha: float, note: Notify) -> Plan:
    """Plan the candidates of the plan's rules, predicted from strict's runs. Raises ValueError as
    ``advisable``."""
    plans = advisable(plan, alpha)
    ended = decoded(plans.tuning, session, [plans.strict])[plans.strict]
    return with_candidates(plan, session, alpha, ended, note)


def with_candidates(
    plan: Plan, session: Session, alpha: float, ended: EndedLanes, note: Notify
) -> Plan:
    """``ended``: strict's runs on the tuning part."""
    names, _, drafter = _checked(plan)
    tuning, study, _ = advisable(plan, alpha)
    needed = least_prompts(plan.margin, alpha)
    scores = [score for each in ended for score in list(each.result.scores.values())[:1]]
    right = round(study.items * sum(scores) / max(1, len(scores)))
    if right < needed:
        note(
            f"strict answers about {count(right)} of {count(study.items)} prompts right, by "
            f"{len(scores)} others; it takes {count(needed)}, so that probably nothing will be "
            "supported."
        )
    runs = _strict_runs(plan, session, ended)
    settings = candidates(runs, names)
    advice = Advice(alpha, names, tuning.items, runs.tau, tuple(each for _, each in settings))
    return replace(
        study, lanes=_lanes(plan, drafter, (each for each, _ in settings)), advice=advice
    )


def matched(plan: Plan, session: Session, quantity: str, target: float, note: Notify) -> Plan:
    """Plan the plan's rules with parameters that give the target on the tuning part. Raises
    ValueError for a target that a rule does not reach."""
    names, strict, drafter = _checked(plan)
    timed = quantity == "speedup"
    if timed and (plan.none is None or plan.batch > 1):
        raise ValueError("--speed needs the rule none, and runs without --batch.")
    tuning, study = divided(plan, CALIBRATION)
    none = [plan.none] if timed and plan.none is not None else []
    ended = decoded(tuning, session, [strict, *none])
    runs = _strict_runs(plan, session, ended[strict])

    def measure(each: EndedLanes) -> float:
        if not none:
            return _total(each, "new_tokens") / _total(each, "steps")
        pace, alone = (
            _total(x, "new_tokens") / _total(x, "wall_s") for x in (each, ended[none[0]])
        )
        return pace / alone

    def tried(settings: Mapping[str, RuleConfig]) -> dict[str, float]:
        lanes = _lanes(plan, drafter, settings.values())
        part = replace(tuning, lanes=lanes)
        every = decoded(part, session, compared(part))
        reached = dict(zip(settings, map(measure, every.values()), strict=True))
        for name, value in reached.items():
            note(f"{Lane(settings[name], drafter).title}: {quantity} {number(value)}")
        return reached

    settings, reached = calibrated(runs, names, target, target / measure(ended[strict]), tried)
    matching = Matching(quantity, target, names, tuning.items, reached)
    return replace(study, lanes=_lanes(plan, drafter, settings), matching=matching)


def calibrated(
    runs: StrictRuns,
    names: Sequence[str],
    target: float,
    gain: float,
    tried: Callable[[Mapping[str, RuleConfig]], Mapping[str, float]],
) -> tuple[tuple[RuleConfig, ...], tuple[float, ...]]:
    """Find of each rule the setting that comes closest, and what it reaches. The share of rejected
    drafts to relax is corrected by what the last one reached, else halved. ``gain``: the target
    over strict's value; ``tried``: what settings reach, by rule. Raises ValueError."""
    shares = dict.fromkeys(names, runs.share_for(gain))
    ends = dict.fromkeys(names, (0.0, 1.0))
    best: dict[str, tuple[float, RuleConfig]] = {}
    seen: set[str] = set()
    for _ in range(ROUNDS):
        settings = {name: runs.setting(name, share) for name, share in shares.items()}
        settings = {name: each for name, each in settings.items() if repr(each) not in seen}
        if not settings:
            break
        seen |= set(map(repr, settings.values()))
        shares = {}
        for name, value in tried(settings).items():
            setting = settings[name]
            best[name] = min(
                (value, setting),
                best.get(name, (value, setting)),
                key=lambda each: abs(each[0] - target),
            )
            if abs(value / target - 1) <= CLOSE:
                continue
            share, (low, high) = runs.share(setting), ends[name]
            ends[name] = low, high = (share, high) if value < target else (low, share)
            corrected = runs.share_for(runs.gain(share) * target / value)
            shares[name] = corrected if low < corrected < high else (low + high) / 2
    for name in names:
        value = best[name][0]
        if abs(value / target - 1) > FAR:
            raise ValueError(
                f"{name} comes no nearer to {number(target)} than {number(value)}: it is out of "
                "its reach."
            )
    return tuple(best[name][1] for name in names), tuple(best[name][0] for name in names)


def _checked(plan: Plan) -> tuple[tuple[str, ...], int, DrafterConfig]:
    """Return the names of the rules, the lane strict and its drafter. Raises ValueError."""
    names = tuple(dict.fromkeys(plan.lanes[lane].rule.name for lane in compared(plan)))
    if not names:
        raise ValueError("No rule is chosen; give at least one with --rules.")
    for name in names:
        predictable(name)
    strict = [number for number, lane in enumerate(plan.lanes) if lane.rule.name == BASELINE]
    if len(strict) != 1 or len(plan.temperatures) != 1:
        raise ValueError("Settings are chosen for one drafter and one temperature; give one each.")
    for suite in plan.suites:
        if not suite.metrics:
            raise ValueError(f"The suite {suite.name!r} has no metric; each needs one.")
    return names, strict[0], plan.lanes[strict[0]].drafter


def _lanes(plan: Plan, drafter: DrafterConfig, settings: Iterable[RuleConfig]) -> tuple[Lane, ...]:
    """Return those that the rules are compared with, then the settings."""
    beside = set(range(len(plan.lanes))).difference(compared(plan))
    return (
        *(plan.lanes[number] for number in sorted(beside)),
        *(Lane(each, drafter) for each in settings),
    )


def _strict_runs(plan: Plan, session: Session, ended: EndedLanes) -> StrictRuns:
    from mars_core.engine.build import protected  # imported here because it loads transformers

    traces = [trace for each in ended for trace in each.traces]
    return strict_runs(traces, protected(session.pair, plan.processors.protect))


def _total(ended: EndedLanes, name: str) -> float:
    return float(sum(getattr(each.result, name) for each in ended))
