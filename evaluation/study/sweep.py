"""A sweep: a study of one rule with one parameter varied, over temperatures and K, on prompts given
with it.

Every rule lane is paired with the strict lane of the same drafter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from evaluation.scoring.names import ANSWER
from evaluation.study.plan import BASELINE, Lane, Models, Plan
from evaluation.suites.item import Item, Suite
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, RuleConfig

MAX_RUNS = 2000
MAX_REPEATS = 100
MAX_DRAFT = 64  # as in mars_core.validation, which would load transformers
SUITE = "prompts"


class Case(NamedTuple):
    """One prompt; ``reference`` is the right answer, empty where there is none."""

    prompt: str
    reference: str = ""


class Cell(NamedTuple):
    """One setting that is measured. ``k`` is None for a draft tree, ``value`` for a rule without
    parameters."""

    temperature: float
    k: int | None
    value: float | None


@dataclass(frozen=True, slots=True)
class Grid:
    """What is varied: values of one parameter × K. ``others``: parameters that stay; ``ks`` is
    empty for a draft tree."""

    rule: str
    parameter: str = ""  # empty where the rule has none
    values: tuple[float, ...] = ()
    ks: tuple[int, ...] = (5,)
    drafter: DrafterConfig = field(default_factory=DrafterConfig)
    others: Mapping[str, float] | None = None


def sweep_plan(
    models: Models, cases: Sequence[Case], grid: Grid, name: str = "sweep", **settings: Any
) -> Plan:
    """The study of a grid. ``settings``: further fields of Plan. Raises ValueError with one
    sentence."""
    if not cases:
        raise ValueError("There is no prompt; give at least one, one per line.")
    for number, case in enumerate(cases, start=1):
        if not case.prompt.strip():
            raise ValueError(f"Prompt {number} is empty; each needs at least 1 character.")
    _check_grid(grid)
    if (repeats := settings.get("repeats", 1)) > MAX_REPEATS:
        raise ValueError(f"repeats is {repeats:g}; it must be 1 to {MAX_REPEATS}.")
    given = enumerate(cases, start=1)
    items = (
        Item(str(number), (case.prompt,), (case.reference,) * bool(case.reference))
        for number, case in given
    )
    metrics = (ANSWER,) if any(case.reference for case in cases) else ()
    suite = Suite(SUITE, tuple(items), metrics=metrics)
    plan = Plan(name, models, (suite,), tuple(_lanes(grid)), varied=grid.parameter, **settings)
    if (runs := runs_planned(plan)) > MAX_RUNS:
        raise ValueError(
            f"The sweep has {runs:,} runs; it must be at most {MAX_RUNS:,}: use fewer prompts or values."
        )
    return plan


def _lanes(grid: Grid) -> Iterable[Lane]:
    """For every K strict, then the rule at each value."""
    for k in grid.ks or (None,):
        drafter = grid.drafter if k is None else replace(grid.drafter, k=k)
        yield Lane(RuleConfig(BASELINE), drafter)
        for value in grid.values or (None,):
            varied = {} if value is None else {grid.parameter: value}
            yield Lane(
                RuleConfig(grid.rule, RULES[grid.rule].values({**(grid.others or {}), **varied})),
                drafter,
            )


def cells(plan: Plan) -> tuple[Cell, ...]:
    """Every setting, in the order of the table."""
    return tuple(
        cell_of(plan, temperature, lane)
        for temperature in plan.temperatures
        for lane in _rule_lanes(plan)
    )


def cell_of(plan: Plan, temperature: float, lane: Lane) -> Cell:
    """The setting of a lane; strict has no value."""
    value = lane.rule.parameters.get(plan.varied) if plan.varied else None
    return Cell(temperature, None if lane.drafter.tree else lane.drafter.k, value)


def first_lane(plan: Plan) -> Lane:
    """The rule at its first value and K."""
    return _rule_lanes(plan)[0]


def other_parameters(plan: Plan) -> dict[str, float]:
    """The parameters of the rule that are not varied."""
    return {
        name: value
        for name, value in first_lane(plan).rule.parameters.items()
        if name != plan.varied
    }


def values_of(plan: Plan) -> tuple[float, ...]:
    """The values of the varied parameter."""
    return tuple(dict.fromkeys(cell.value for cell in cells(plan) if cell.value is not None))


def ks_of(plan: Plan) -> tuple[int, ...]:
    return tuple(dict.fromkeys(cell.k for cell in cells(plan) if cell.k is not None))


def pairs_planned(plan: Plan) -> int:
    return plan.tasks * len(_rule_lanes(plan))


def runs_planned(plan: Plan) -> int:
    return plan.tasks * len(plan.lanes)


def case_of(plan: Plan, number: int) -> Case:
    item = plan.suites[0].items[number]
    return Case(item.turns[0], next(iter(item.references), ""))


def is_scored(plan: Plan) -> bool:
    """Whether any prompt has a reference answer."""
    return bool(plan.suites[0].metrics)


def _rule_lanes(plan: Plan) -> tuple[Lane, ...]:
    return tuple(lane for lane in plan.lanes if lane.rule.name != BASELINE)


def sweep_name(grid: Grid, cases: Sequence[Case]) -> str:
    """The default name of a sweep: rule, parameter and its values, and the first prompt."""
    varied = f", {grid.parameter}: {len(grid.values)} values" if grid.values else ""
    prompts = f"{len(cases)} prompts" if len(cases) > 1 else "1 prompt"
    return f"{grid.rule}{varied}, {prompts}: {' '.join(cases[0].prompt.split())}"[:120]


def _check_grid(grid: Grid) -> None:
    others = [name for name, rule in RULES.items() if rule.modes and name != BASELINE]
    if grid.rule not in others:
        why = {BASELINE: "is the baseline", PLAIN: "has no drafts"}.get(grid.rule, "is unknown")
        raise ValueError(
            f"The rule is {grid.rule!r}, which {why}; it must be one of {', '.join(others)}."
        )
    names = [parameter.name for parameter in RULES[grid.rule].parameters]
    if grid.parameter not in (names or [""]):
        expected = f"one of {', '.join(names)}" if names else "empty: this rule has none"
        raise ValueError(
            f"The parameter of rule {grid.rule} is {grid.parameter!r}; it must be {expected}."
        )
    if grid.others and grid.parameter in grid.others:
        fixed = grid.others[grid.parameter]
        raise ValueError(f"{grid.parameter} is varied and also fixed at {fixed:g}; leave one out.")
    if grid.drafter.kind == PLAIN:
        raise ValueError(
            "The drafter is none; a sweep compares rules for drafted tokens, so choose another drafter."
        )
    if grid.drafter.tree and grid.ks:
        raise ValueError(
            f"K is {grid.ks[0]} and the draft is a tree; K applies to chains only, leave it empty."
        )
    _check_list("K", grid.ks, needed=grid.drafter.tree is None)
    _check_list(f"values of {grid.parameter}", grid.values, needed=bool(grid.parameter))
    for k in grid.ks:
        if not 1 <= k <= MAX_DRAFT:
            raise ValueError(f"K is {k:g}; it must be 1 to {MAX_DRAFT}.")


def _check_list(name: str, values: Sequence[float], *, needed: bool) -> None:
    if needed and not values:
        raise ValueError(f"The list of {name} is empty; give at least one number.")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{twice:g} is listed twice in the {name}; list each number once.")
