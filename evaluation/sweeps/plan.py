"""What a sweep runs: prompts × temperatures × K × values of one parameter of one rule, each as a pair with strict.

A plan that exists is valid: what cannot be run raises ValueError with one sentence that names field, value and range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, NamedTuple

from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, DraftMode, ModelRef, TreeShape

MOST_RUNS = 2000
MOST_REPEATS = 100
LONGEST_DRAFT = 64  # as mars_core.validation, which needs the models' libraries
LARGEST_SEED = 2**53 - 1  # exact in every table that a sweep is read into
BASELINE = "strict"


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt; ``reference`` is the right answer, empty where there is none."""

    prompt: str
    reference: str = ""


class Cell(NamedTuple):
    """One setting that is measured. ``k`` is None for a draft tree, ``value`` for a rule without parameters."""

    temperature: float
    k: int | None
    value: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """``others`` are the rule's parameters that stay; repeat r of case c has the seed ``seed`` + r · cases + c."""

    cases: tuple[Case, ...]
    rule: str
    parameter: str = ""  # the one that is varied; empty where the rule has none
    values: tuple[float, ...] = ()
    others: Mapping[str, float] = field(default_factory=dict)
    temperatures: tuple[float, ...] = (1.0,)
    drafter: DrafterConfig = field(default_factory=DrafterConfig)
    ks: tuple[int, ...] = (5,)  # empty for a draft tree
    max_new_tokens: int = 128
    seed: int = 0
    repeats: int = 1
    top_k: int = 0
    top_p: float = 1.0
    system: str = ""
    chat: bool = True
    thinking: bool | None = None  # PromptConfig.thinking
    stop: tuple[str, ...] = ()
    pair: str = ""  # name of the pair of models, for people

    def __post_init__(self) -> None:
        _check_cases(self)
        _check_rule(self)
        _check_lists(self)
        _check_numbers(self)
        if self.runs > MOST_RUNS:
            raise ValueError(
                f"The sweep has {self.runs:,} runs; it must be at most {MOST_RUNS:,}: take fewer prompts or values."
            )

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every setting, in the order of the table."""
        ks: Sequence[int | None] = self.ks or (None,)
        values: Sequence[float | None] = self.values or (None,)
        return tuple(Cell(*cell) for cell in product(self.temperatures, ks, values))

    @property
    def comparisons(self) -> int:
        """How many pairs of runs there are."""
        lists = (self.cases, self.temperatures, self.ks or (None,), self.values or (None,))
        return self.repeats * math.prod(map(len, lists))

    @property
    def runs(self) -> int:
        return 2 * self.comparisons

    @property
    def scored(self) -> bool:
        """Whether any prompt has a reference answer."""
        return any(case.reference for case in self.cases)

    def seed_of(self, repeat: int, case: int) -> int:
        return self.seed + repeat * len(self.cases) + case

    def parameters(self, cell: Cell) -> dict[str, float]:
        """All parameters of the rule at a setting."""
        varied = {} if cell.value is None else {self.parameter: cell.value}
        return RULES[self.rule].values({**self.others, **varied})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the store; ``read_plan`` is the way back."""
        return asdict(self) | {"others": dict(self.others)}


def read_plan(stored: Mapping[str, Any]) -> Plan:
    """The plan of ``as_dict``, also after a journey through JSON. Raises ValueError for one that this version cannot read."""
    try:
        given = dict(stored)
        given["cases"] = tuple(Case(**case) for case in given["cases"])
        given["drafter"] = _drafter(given["drafter"])
        for name in ("values", "temperatures", "ks", "stop"):
            given[name] = tuple(given[name])
        return Plan(**given)
    except (TypeError, KeyError) as error:
        raise ValueError(f"The sweep was saved by another version of this program; {error} does not fit.") from None


def _drafter(stored: Mapping[str, Any]) -> DrafterConfig:
    given = dict(stored)
    given["model"] = ModelRef(**given["model"]) if given["model"] else None
    given["tree"] = TreeShape(**given["tree"]) if given["tree"] else None
    return DrafterConfig(**given | {"mode": DraftMode(given["mode"])})


def _check_cases(plan: Plan) -> None:
    if not plan.cases:
        raise ValueError("There is no prompt; give at least one, one a line.")
    for number, case in enumerate(plan.cases, start=1):
        if not case.prompt.strip():
            raise ValueError(f"Prompt {number} is empty; each needs at least 1 character.")


def _check_rule(plan: Plan) -> None:
    others = [name for name, rule in RULES.items() if rule.modes and name != BASELINE]
    if plan.rule not in others:
        what = {BASELINE: "is what every other rule is held against", PLAIN: "takes no drafts"}
        why = what.get(plan.rule, "is not known")
        raise ValueError(f"The rule is {plan.rule!r}, which {why}; it must be one of {', '.join(others)}.")
    names = [parameter.name for parameter in RULES[plan.rule].parameters]
    if plan.parameter not in (names or [""]):
        expected = f"one of {', '.join(names)}" if names else "empty: this rule has none"
        raise ValueError(f"The parameter of rule {plan.rule} is {plan.parameter!r}; it must be {expected}.")
    if plan.parameter in plan.others:
        raise ValueError(f"{plan.parameter} is varied and also held at {plan.others[plan.parameter]:g}; leave one out.")
    RULES[plan.rule].values(plan.others)
    for value in plan.values:
        RULES[plan.rule].values({plan.parameter: value})


def _check_lists(plan: Plan) -> None:
    tree = plan.drafter.tree is not None
    if tree and plan.ks:
        raise ValueError(f"K is {plan.ks[0]} and the draft is a tree; a tree has no K, leave it empty.")
    wanted = {"temperatures": plan.temperatures} | ({} if tree else {"K": plan.ks})
    wanted |= {f"values of {plan.parameter}": plan.values} if plan.parameter else {}
    for name, values in wanted.items():
        if not values:
            raise ValueError(f"The list of {name} is empty; give at least one number.")
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise ValueError(f"{twice:g} stands twice among the {name}; name each number once.")
    for temperature in plan.temperatures:
        _check_range("temperature", temperature, 0, 100)
    for k in plan.ks:
        _check_range("K", k, 1, LONGEST_DRAFT)


def _check_numbers(plan: Plan) -> None:
    _check_range("repeats", plan.repeats, 1, MOST_REPEATS)
    _check_range("max_new_tokens", plan.max_new_tokens, 1, 10**6)
    _check_range("seed", plan.seed, 0, LARGEST_SEED - plan.repeats * len(plan.cases))
    if plan.drafter.kind == PLAIN:
        raise ValueError("The drafter is none; a sweep compares rules for drafted tokens, choose one that drafts.")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value:g}; it must be {low:,} to {high:,}.")
