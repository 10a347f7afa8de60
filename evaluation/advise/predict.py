"""What a rule would keep, from strict's runs alone: a rule with a margin threshold relaxes a
rejected draft that is one of the target's two best tokens where the margin is small, and both
logits of every such position are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from evaluation.plan.purpose import Prediction
from evaluation.planner import acceptance_of, expected_tokens
from evaluation.statistics import bisected
from mars_core.rules import RULES
from mars_core.rules.base import Rule
from mars_core.types import Outcome, RuleConfig, Trace

STEPS = 5  # settings of a rule
MOST_CANDIDATES = 6
DIGITS = 3  # of a parameter
_HALVINGS = 40


class Rejection(NamedTuple):
    """A position at which strict rejected all drafts. ``near``: one of them, not protected, is among
    the target's two best tokens."""

    z1: float
    gap: float
    near: bool


class StrictRuns(NamedTuple):
    """``rates``: acceptance by depth; τ is new tokens over steps."""

    rejections: tuple[Rejection, ...]
    rates: tuple[float, ...]
    tokens: int
    steps: int

    @property
    def tau(self) -> float:
        return self.tokens / self.steps

    def gain(self, share: float) -> float:
        """Predict τ over strict's, if that share of the rejected drafts were relaxed, at every
        depth alike."""
        relaxed = [rate + (1 - rate) * share for rate in self.rates]
        return expected_tokens(relaxed) / expected_tokens(self.rates)

    def share_for(self, gain: float) -> float:
        """Return the inverse of ``gain``; 0 or 1 for what no share gives."""
        return sum(bisected(0.0, 1.0, _HALVINGS, lambda share: self.gain(share) < gain)) / 2

    def share(self, config: RuleConfig) -> float:
        """Return the share of the rejected drafts that a rule would relax."""
        rule = predictable(config.name)
        values = _numbers(rule, config)
        if rule.chance:
            return float(rule.chance(values))
        return len(self._relaxed(rule, values)) / len(self.rejections)

    def prediction(self, config: RuleConfig) -> Prediction:
        """Predict for a rule with a margin threshold."""
        rule, share = predictable(config.name), self.share(config)
        lost = sum(each.gap for each in self._relaxed(rule, _numbers(rule, config)))
        return Prediction(share, self.tau * self.gain(share), lost / self.tokens)

    def _relaxed(self, rule: Rule, values: dict[str, float]) -> list[Rejection]:
        room = rule.margin_threshold
        assert room is not None
        return [each for each in self.rejections if each.near and each.gap < room(each.z1, values)]

    def reach(self, name: str) -> float:
        """Return the largest share that a rule would relax."""
        parameter = RULES[name].parameters[0]
        return max(
            self.share(RuleConfig(name, {parameter.name: end}))
            for end in (parameter.low, parameter.high)
        )

    def setting(self, name: str, share: float) -> RuleConfig:
        """Return the rule with the value of its first parameter with which it would relax that
        share, or as many as it can."""
        parameter, share = predictable(name).parameters[0], min(share, self.reach(name))

        def at(value: float) -> RuleConfig:
            return RuleConfig(name, RULES[name].values({parameter.name: value}))

        def beyond(value: float) -> bool:
            return (self.share(at(value)) >= share) is not rising

        ends = parameter.low, parameter.high
        rising = self.share(at(ends[1])) > self.share(at(ends[0]))
        return at(float(f"{sum(bisected(*ends, _HALVINGS, beyond)) / 2:.{DIGITS}g}"))


def _numbers(rule: Rule, config: RuleConfig) -> dict[str, float]:
    """Return all parameters. Raises ValueError where one is an expression."""
    return {name: float(value) for name, value in rule.values(config.parameters).items()}


def predictable(name: str) -> Rule:
    """Raises ValueError for a rule whose decisions do not follow from strict's runs."""
    known = [
        each
        for each, rule in RULES.items()
        if rule.parameters and (rule.margin_threshold or rule.chance)
    ]
    if name not in known:
        raise ValueError(f"The rule is {name!r}; it must be one of {', '.join(known)}.")
    return RULES[name]


def with_threshold(name: str) -> None:
    """Raises ValueError for a rule without a margin threshold."""
    if predictable(name).margin_threshold is None:
        raise ValueError(f"The rule is {name!r}; it has no margin threshold to advise on.")


def strict_runs(traces: Sequence[Trace], protected: Collection[int]) -> StrictRuns:
    """Raises ValueError where strict rejects nothing, so that no rule has anything to gain."""
    steps = tuple(step for trace in traces for step in trace.steps)
    acceptance = acceptance_of(replace(traces[0], steps=steps))
    rejections = tuple(_rejections(traces, protected))
    if acceptance is None or not rejections:
        raise ValueError(
            f"strict rejected no draft on {len(traces)} prompts, so no rule has anything to gain."
        )
    tokens = sum(trace.summary.new_tokens for trace in traces)
    return StrictRuns(rejections, acceptance.rates, tokens, len(steps))


def _rejections(traces: Iterable[Trace], protected: Collection[int]) -> Iterable[Rejection]:
    for step in (step for trace in traces for step in trace.steps):
        for token in step.tokens:
            if token.outcome is Outcome.RECOVERED:
                drafts = {node.id for node in step.nodes if node.parent == token.parent}
                near = drafts.difference(protected) & {token.id1, token.id2}
                yield Rejection(token.z1, token.gap, bool(near))


def candidates(runs: StrictRuns, names: Iterable[str]) -> tuple[tuple[RuleConfig, Prediction], ...]:
    """Settings of the rules in ascending order of their cost, each with a larger predicted τ than
    those before it. Raises ValueError where there is none."""
    settings: dict[str, RuleConfig] = {}
    for name in names:
        with_threshold(name)
        for step in range(1, STEPS + 1):
            setting = runs.setting(name, runs.reach(name) * step / (STEPS + 1))
            settings[repr(setting)] = setting
    predicted = [(setting, runs.prediction(setting)) for setting in settings.values()]
    front: list[tuple[RuleConfig, Prediction]] = []
    for setting, prediction in sorted(predicted, key=lambda each: (each[1].cost, -each[1].tau)):
        if prediction.tau > (front[-1][1].tau if front else runs.tau):
            front.append((setting, prediction))
    if not front:
        raise ValueError("None of the rejected drafts is the target's second-best token.")
    amount = min(MOST_CANDIDATES, len(front))
    return tuple(
        front[round((len(front) - 1) * each / max(1, amount - 1))] for each in range(amount)
    )
