"""What the forms of sweeps and studies share: lists of numbers as text, the plan that they
describe, and how large it is."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from evaluation.study.plan import BASELINE, Plan
from evaluation.study.sweep import runs_planned
from mars_core.models import PairSpec
from mars_core.rules import RULES
from ui.jobs.admission import chosen_pair
from ui.jobs.services import Services
from ui.kit.labels import rule_title
from ui.settings.drafters import taken
from ui.settings.form import (
    RunForm,
    read_number,
    read_processors,
    read_stop,
    read_thinking,
    read_whole,
)

LONGEST_LIST = 200
RULE_CHOICES = [
    (rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListsForm(RunForm, ABC):
    """The fields as they are; ``ks`` and ``temperatures`` are lists as text."""

    temperatures: str
    ks: str
    repeats: float | None = 1

    @abstractmethod
    def plan(self, spec: PairSpec) -> Plan:
        """The plan that the fields describe. Raises ValueError with one sentence."""

    @abstractmethod
    def estimate(self, plan: Plan, services: Services) -> str:
        """What will be run, in words."""


def admitted(services: Services, form: ListsForm) -> tuple[PairSpec, Plan]:
    """The pair and the plan of a form, if both may be used here. Raises ValueError."""
    spec = chosen_pair(services, form)
    plan = form.plan(spec)
    check_size(services, plan, runs_planned(plan))
    return spec, plan


def estimated(services: Services, form: ListsForm) -> str:
    try:
        return form.estimate(admitted(services, form)[1], services)
    except ValueError as error:
        return str(error)


def check_size(services: Services, plan: Plan, runs: int) -> None:
    """Whether so many runs and these prompts are within the limits. Raises ValueError."""
    services.limits.check_study(runs)
    for suite in plan.suites:
        for item in suite.items:
            services.limits.check_prompt(*item.turns, plan.system, *plan.stop)


def plan_settings(form: ListsForm) -> dict[str, Any]:
    """The fields of Plan that do not depend on what is varied. Raises ValueError."""
    return {
        "temperatures": numbers(form.temperatures, "temperature"),
        "max_new_tokens": read_whole(form.max_new_tokens, "max new tokens"),
        "seed": read_whole(form.seed, "seed"),
        "repeats": read_whole(form.repeats, "repeats"),
        "top_k": read_whole(form.top_k, "top-k"),
        "top_p": read_number(form.top_p, "top-p"),
        "processors": read_processors(form),
        "system": form.system,
        "chat": bool(form.chat),
        "thinking": read_thinking(form.thinking),
        "stop": read_stop(form),
    }


def read_ks(form: ListsForm) -> tuple[int, ...]:
    """Empty for a tree. Raises ValueError."""
    if "k" not in taken(form.drafter, form.shape):
        return ()
    return tuple(read_whole(k, "K") for k in numbers(form.ks, "K"))


def numbers(text: str, name: str) -> tuple[float, ...]:
    """``0.8, 0.9`` or ``0.8:0.98:0.02`` (first:last:step), mixed as one likes. Raises
    ValueError."""
    parts = [part for part in re.split(r"[\s,;]+", re.sub(r"\s*:\s*", ":", text)) if part]
    found = [value for part in parts for value in _range(part, name)]
    if len(found) > LONGEST_LIST:
        raise ValueError(
            f"The list of {name} has {len(found)} numbers; it must have at most {LONGEST_LIST}."
        )
    return tuple(map(float, found))


def _range(part: str, name: str) -> list[Decimal]:
    try:
        bounds = [Decimal(number) for number in part.split(":")]
    except InvalidOperation:
        raise ValueError(
            f"{part[:40]!r} among the {name} is not a number; write 0.8, 0.9 or 0.8:0.98:0.02."
        ) from None
    if not all(bound.is_finite() and abs(bound) < 10**15 for bound in bounds) or len(
        bounds
    ) not in (1, 3):
        raise ValueError(
            f"{part[:40]!r} among the {name} is neither a number nor a range; write 0.8, 0.9 or 0.8:0.98:0.02."
        )
    if len(bounds) == 1:
        return bounds
    first, last, step = bounds
    if step <= 0 or last < first or (last - first) / step > LONGEST_LIST:
        raise ValueError(
            f"The range {part[:40]} of {name} must rise from first to last in 1 to {LONGEST_LIST} steps above 0."
        )
    return [first + place * step for place in range(int((last - first) / step) + 1)]
