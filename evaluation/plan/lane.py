"""The lanes of a study: rules with their drafts, and those that are there to judge them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from display.names import rule_label
from mars_core.drafting import described
from mars_core.numbers import check_lanes
from mars_core.rules import PLAIN, RULES, shift_kind
from mars_core.rules.placebo import ALWAYS, PLACEBO, RANDOM
from mars_core.types import (
    SERVER,
    DrafterConfig,
    Parameters,
    RuleConfig,
    ShiftKind,
    number_text,
    value_text,
)

BASELINE = "strict"
SHARPENED = "sharpened"  # the rule of lanes that are strict at a lower temperature
SCALES = (0.8, 0.6, 0.4, 0.2)  # of that temperature, by default
PLACEBO_SEEDS = 8  # draws of each placebo, by default
MOST_SEEDS = 64


@dataclass(frozen=True, slots=True)
class Lane:
    """One way of decoding. ``imitates``, of a lane ``placebo``: in each task as many rejections
    are relaxed as this rule relaxed there with the same drafter, at random places, which differ by
    the parameter ``draw``. (Of a lane ``random``, in studies of earlier versions: each rejected
    token with one probability, which gives as many in the mean.)"""

    rule: RuleConfig
    drafter: DrafterConfig
    imitates: RuleConfig | None = None

    @property
    def is_control(self) -> bool:
        """Whether it is there to judge other rules by: a placebo, the rule that keeps every draft,
        strict at a lower temperature."""
        return self.rule.name in (PLACEBO.name, RANDOM.name, ALWAYS.name, SHARPENED)

    @property
    def scale(self) -> float:
        """What the temperature of a task is multiplied with: 1 but in a lane ``SHARPENED``."""
        return float(self.rule.parameters["scale"]) if self.rule.name == SHARPENED else 1.0

    @property
    def relaxes(self) -> bool:
        """Whether it is judged for what it relaxes."""
        rule = RULES.get(self.rule.name)
        return rule is not None and not (rule.lossless or self.is_control)

    @property
    def best(self) -> int:
        """Of a placebo: only rejections of so many best tokens of the target are relaxed; 0: all."""
        return int(self.rule.parameters.get("best", 0)) if self.imitates else 0

    @property
    def first_draw(self) -> Lane:
        """The lane that stands for all draws of a placebo, where they are averaged."""
        if self.imitates is None or not self.rule.parameters.get("draw"):
            return self
        return replace(self, rule=RuleConfig(self.rule.name, {"best": self.best, "draw": 0}))

    @property
    def rule_name(self) -> str:
        if self.imitates is None:
            return self.rule.name
        among = f" among the {self.best} best" if self.best else ""
        return f"{self.rule.name}{among} as {self.imitates.name}"

    @property
    def parameters(self) -> Parameters:
        """Of the rule, or of the one that it imitates."""
        return (self.imitates or self.rule).parameters

    @property
    def name(self) -> str:
        """The rule with its parameters, for tables."""
        parameters = ", ".join(
            f"{name}={value_text(value)}" for name, value in self.parameters.items()
        )
        return f"{self.rule_name}({parameters})" if parameters else self.rule_name

    @property
    def title(self) -> str:
        """The same as people say it: ``MARS θ = 0.9``, ``Placebo of MARS θ = 0.9``."""
        return self._titled(self.parameters)

    @property
    def rule_title(self) -> str:
        """The same without parameters."""
        return self._titled({})

    def _titled(self, parameters: Parameters) -> str:
        label = rule_label((self.imitates or self.rule).name, parameters)
        among = f" among the {self.best} best" if self.best else ""
        return f"Placebo of {label}{among}" if self.imitates else label

    @property
    def drafts(self) -> str:
        """The drafter, for tables: ``model K=5``, ``model K=5 sampled``, ``eagle3 12/6/2 greedy``,
        ``server``; empty for none."""
        drafter = self.drafter
        if drafter.kind in (PLAIN, SERVER):
            return drafter.kind.removeprefix(PLAIN)
        tree, plain = drafter.tree, drafter.mode is described(drafter.kind).modes[0]
        shape = f"{tree.tokens}/{tree.depth}/{tree.top_k}" if tree else f"K={drafter.k}"
        return f"{drafter.kind} {shape}" + ("" if plain else f" {drafter.mode.value}")

    @property
    def family(self) -> str:
        """The drafter, whatever its K."""
        return self.drafts.replace(f" K={self.drafter.k}", "")

    def tv_kind(self, temperature: float) -> ShiftKind:
        """Return what TV and KL of its runs are."""
        unknown = self.drafter.kind == SERVER or self.rule.name == SHARPENED
        return (
            ShiftKind.UNKNOWN if unknown else shift_kind(self.rule.name, self.drafter, temperature)
        )


def lanes_of(
    rules: Sequence[RuleConfig], drafters: Sequence[DrafterConfig], *, plain: bool
) -> tuple[Lane, ...]:
    """Return the rules with each drafter, after the target alone where it is wanted. Raises
    ValueError for too many."""
    check_lanes(len(drafters) * len(rules))
    none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if plain else []
    return (*none, *(Lane(rule, drafter) for drafter in drafters for rule in rules))


def with_placebos(lanes: Sequence[Lane], seeds: int = PLACEBO_SEEDS) -> tuple[Lane, ...]:
    """Return the lanes and after them, for each that may relax, its placebos: as many rejections at
    random places, drawn ``seeds`` times, among all and, for a rule that admits only the target's
    best tokens, among these; and once for each drafter the rule that keeps every draft."""
    relaxed = [lane for lane in lanes if lane.relaxes]
    added = [
        Lane(RuleConfig(PLACEBO.name, {"best": best, "draw": draw}), lane.drafter, lane.rule)
        for lane in relaxed
        for best in dict.fromkeys((0, RULES[lane.rule.name].relaxes or 0))
        for draw in range(seeds)
    ]
    for drafter in dict.fromkeys(lane.drafter for lane in relaxed):
        every_draft = Lane(RuleConfig(ALWAYS.name), drafter)
        added += [every_draft] * (every_draft not in lanes)
    return (*lanes, *added)


def with_sharpened(lanes: Sequence[Lane], scales: Sequence[float]) -> tuple[Lane, ...]:
    """Return the lanes and after them, for each drafter of a rule that may relax, strict at these
    shares of the temperature: what likelier tokens alone do to the score (true truncation,
    2607.26627)."""
    drafters = dict.fromkeys(lane.drafter for lane in lanes if lane.relaxes)
    added = [
        Lane(RuleConfig(SHARPENED, {"scale": scale}), drafter)
        for drafter in drafters
        for scale in scales
    ]
    return (*lanes, *added)


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError where a number is outside of its range."""
    if not low <= value <= high:
        raise ValueError(f"{name} is {number_text(value)}; it must be {low:,} to {high:,}.")
