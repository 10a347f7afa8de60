"""From the fields of the Sweep tab to a plan. Fields can hold anything: what cannot be read gets one clear sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from evaluation.format import count, plural
from evaluation.study.plan import Models, Plan
from evaluation.study.sweep import Case, Grid, ks_of, pairs_planned, runs_planned, sweep_name, sweep_plan, values_of
from mars_core.demo.corpus import held_out
from mars_core.models import PairSpec
from mars_core.rules import RULES, Parameter
from ui.kit.labels import parameter_title
from ui.settings.form import TREE, RunForm, read_drafter, read_number, read_stop, read_thinking, read_whole

BLOCK = "---"  # a line of its own: prompts of several lines stand between two
ANSWER = "=>"
PAPER_THETAS = (0.84, 0.88, 0.9, 0.94, 0.98)  # within the range that the paper sweeps
LONGEST_LIST = 200
EXAMPLES = 8  # problems a press


@dataclass(frozen=True, slots=True, kw_only=True)
class ListsForm(RunForm):
    """The fields of sweeps and studies as they are; ``ks`` and ``temperatures`` are lists as text."""

    temperatures: str
    ks: str
    repeats: float | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepForm(ListsForm):
    """``values`` is a list as text."""

    prompts: str
    rule: str
    parameter: str
    values: str
    others: str = ""  # name = value, comma separated


def read_plan_of(form: SweepForm, spec: PairSpec) -> Plan:
    """The plan that the fields describe. Raises ValueError with one sentence."""
    ks = read_ks(form)
    names = {parameter.name for parameter in RULES[form.rule].parameters} if form.rule in RULES else set()
    grid = Grid(
        rule=form.rule,
        parameter=form.parameter if names else "",
        values=numbers(form.values, parameter_title(form.parameter)) if names else (),
        ks=ks,
        drafter=read_drafter(replace(form, k=ks[0] if ks else 1)),
        others=_others(form),
    )
    cases = read_cases(form.prompts)
    return sweep_plan(
        Models(spec.key, spec.target, spec.draft, spec.head),
        cases,
        grid,
        sweep_name(grid, cases) if cases else "",
        **plan_settings(form),
    )


def plan_settings(form: ListsForm) -> dict[str, Any]:
    """The fields of Plan that do not depend on what is varied. Raises ValueError."""
    return {
        "temperatures": numbers(form.temperatures, "temperature"),
        "max_new_tokens": read_whole(form.max_new_tokens, "max new tokens"),
        "seed": read_whole(form.seed, "seed"),
        "repeats": read_whole(form.repeats, "repeats"),
        "top_k": read_whole(form.top_k, "top-k"),
        "top_p": read_number(form.top_p, "top-p"),
        "system": form.system,
        "chat": bool(form.chat),
        "thinking": read_thinking(form.thinking),
        "stop": read_stop(form),
    }


def read_ks(form: ListsForm) -> tuple[int, ...]:
    """Empty for a tree. Raises ValueError."""
    tree = form.drafter == "eagle3" and form.shape == TREE
    return () if tree else tuple(read_whole(k, "K") for k in numbers(form.ks, "K"))


def estimate(plan: Plan) -> str:
    """What will be run, in words."""
    ks, values = ks_of(plan), values_of(plan)
    factors = [plural(plan.items, "prompt")]
    factors += [plural(plan.repeats, "repeat")] if plan.repeats > 1 else []
    factors += [plural(len(plan.temperatures), "temperature")] if len(plan.temperatures) > 1 else []
    factors += [f"{count(len(ks))} K"] if len(ks) > 1 else []
    factors += [plural(len(values), "value")] if values else []
    runs = runs_planned(plan)
    return (
        f"{' × '.join(factors)} = {plural(pairs_planned(plan), 'comparison')} with strict, "
        f"{plural(runs, 'run')}, at most {count(runs * plan.max_new_tokens)} new tokens."
    )


def read_cases(text: str) -> tuple[Case, ...]:
    """One prompt a line; or, where a line is ``---``, one between two such lines. ``prompt => answer`` gives a reference."""
    blocks = re.split(rf"^\s*{BLOCK}\s*$", text, flags=re.MULTILINE)
    return tuple(_case(block) for block in (blocks if len(blocks) > 1 else text.splitlines()) if block.strip())


def _case(text: str) -> Case:
    prompt, arrow, answer = text.rpartition(ANSWER)
    if not arrow:
        return Case(text.strip())
    if not prompt.strip() or not answer.strip():
        side = "before" if not prompt.strip() else "after"
        raise ValueError(f"There is nothing {side} {ANSWER} in a prompt; write it as prompt {ANSWER} answer.")
    return Case(prompt.strip(), answer.strip())


def write_cases(cases: Sequence[Case]) -> str:
    """The text that ``read_cases`` reads as these."""
    texts = [f"{case.prompt} {ANSWER} {case.reference}" if case.reference else case.prompt for case in cases]
    return f"\n{BLOCK}\n".join(texts) if any("\n" in text for text in texts) else "\n".join(texts)


def examples(press: int) -> tuple[Case, ...]:
    """The next word problems with answers, of those that the bundled pair never saw as questions; ``press`` from 0."""
    problems = held_out()
    start = EXAMPLES * press % len(problems)
    return tuple(Case(item.question, str(item.answer)) for item in problems[start : start + EXAMPLES])


def numbers(text: str, name: str) -> tuple[float, ...]:
    """``0.8, 0.9`` or ``0.8:0.98:0.02`` (first:last:step), mixed as one likes. Raises ValueError."""
    parts = [part for part in re.split(r"[\s,;]+", re.sub(r"\s*:\s*", ":", text)) if part]
    found = [value for part in parts for value in _range(part, name)]
    if len(found) > LONGEST_LIST:
        raise ValueError(f"The list of {name} has {len(found)} numbers; it must have at most {LONGEST_LIST}.")
    return tuple(map(float, found))


def _range(part: str, name: str) -> list[Decimal]:
    try:
        bounds = [Decimal(number) for number in part.split(":")]
    except InvalidOperation:
        raise ValueError(f"{part[:40]!r} among the {name} is not a number; write 0.8, 0.9 or 0.8:0.98:0.02.") from None
    if not all(bound.is_finite() and abs(bound) < 10**15 for bound in bounds) or len(bounds) not in (1, 3):
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


def suggestion(parameter: Parameter) -> str:
    """Values worth trying: the paper's for θ, else five around the default."""
    if parameter.name == "theta":
        return ", ".join(f"{value:g}" for value in PAPER_THETAS)
    wide = [parameter.default * factor for factor in (0.25, 0.5, 1, 1.5, 2)]
    fitting = [min(max(value, parameter.low), parameter.high) for value in wide]
    rounded = [float(round(value)) if parameter.whole else float(f"{value:.3g}") for value in fitting]
    return ", ".join(f"{value:g}" for value in dict.fromkeys(rounded))


def other_parameters(rule: str, varied: str) -> str:
    """The rule's other parameters at their defaults, as the field writes them."""
    others = [parameter for parameter in RULES[rule].parameters if parameter.name != varied]
    return ", ".join(f"{parameter.name} = {parameter.default:g}" for parameter in others)


def _others(form: SweepForm) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in filter(str.strip, re.split(r"[,\n]", form.others)):
        name, equals, value = (side.strip() for side in part.partition("="))
        if not equals or not name:
            raise ValueError(f"{part.strip()[:40]!r} is not a parameter; write name = value, comma separated.")
        (found[name],) = numbers(value, name) or (read_number(None, name),)
    return found
