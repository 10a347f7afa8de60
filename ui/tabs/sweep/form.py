"""The form of a sweep: its fields, the plan that they describe. Fields can hold anything: what
cannot be read gets one clear sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evaluation.format import count, plural
from evaluation.study.plan import Models, Plan
from evaluation.study.sweep import (
    Case,
    Grid,
    ks_of,
    pairs_planned,
    runs_planned,
    sweep_name,
    sweep_plan,
    values_of,
)
from mars_core.demo.corpus import HELD_OUT, held_out
from mars_core.models import PairSpec
from mars_core.rules import RULES, Parameter
from mars_core.types import RuleConfig
from ui.jobs.services import Services
from ui.kit.labels import parameter_title
from ui.settings.fields import Fields, Values, parse, read
from ui.settings.form import read_drafter, read_number
from ui.tabs.study.lists import RULE_CHOICES, ListsForm, numbers, plan_settings, read_ks

BLOCK = "---"  # a line of its own: prompts of several lines stand between two
ANSWER = "=>"
PAPER_THETAS = (0.84, 0.88, 0.9, 0.94, 0.98)  # within the range that the paper sweeps
EXAMPLES = 8  # problems a press
FIRST_RULE = "mars"
LONGEST = 96  # new tokens, unless something else is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepForm(ListsForm):
    """``values`` is a list as text."""

    prompts: str
    rule: str
    parameter: str
    values: str
    others: str = ""  # name = value, comma separated

    def plan(self, spec: PairSpec) -> Plan:
        ks = read_ks(self)
        varies = self.rule in RULES and RULES[self.rule].parameters
        grid = Grid(
            rule=self.rule,
            parameter=self.parameter if varies else "",
            values=numbers(self.values, parameter_title(self.parameter)) if varies else (),
            ks=ks,
            drafter=read_drafter(replace(self, k=ks[0] if ks else 1)),
            others=_others(self),
        )
        cases = read_cases(self.prompts)
        models, name = (
            Models(spec.key, spec.target, spec.draft, spec.head),
            sweep_name(grid, cases) if cases else "",
        )
        return sweep_plan(models, cases, grid, name, **plan_settings(self))

    def estimate(self, plan: Plan, _: Services) -> str:
        ks, values = ks_of(plan), values_of(plan)
        factors = [plural(plan.items, "prompt")]
        factors += [plural(plan.repeats, "repeat")] if plan.repeats > 1 else []
        factors += (
            [plural(len(plan.temperatures), "temperature")] if len(plan.temperatures) > 1 else []
        )
        factors += [f"{count(len(ks))} K"] if len(ks) > 1 else []
        factors += [plural(len(values), "value")] if values else []
        runs = runs_planned(plan)
        return (
            f"{' × '.join(factors)} = {plural(pairs_planned(plan), 'comparison')} with strict, "
            f"{plural(runs, 'run')}, at most {count(runs * plan.max_new_tokens)} new tokens."
        )


def read_sweep(prompts: str | None, value: str | None) -> SweepForm:
    return SweepForm(**read(SweepForm, parse(value)) | {"prompts": prompts or ""})


def thresholds(values: Values) -> list[RuleConfig]:
    """The rule with each value that the fields ask for. Raises ValueError."""
    form = SweepForm(**read(SweepForm, values) | {"prompts": ""})
    others = _others(form)
    return [
        RuleConfig(form.rule, {**others, form.parameter: value})
        for value in numbers(form.values, form.parameter)
    ]


def describe(own: Fields) -> None:
    """The fields by name of SweepForm; which parameter of the rule is varied, and the others."""
    own.choice("rule", "Rule, against strict", RULE_CHOICES, FIRST_RULE, width=180, redraws=True)
    rule = own.by_name["rule"].value
    parameters = RULES[rule].parameters
    own.choice(
        "parameter",
        "Parameter",
        [(parameter_title(each.name), each.name) for each in parameters],
        redraws=True,
    )
    varied = next(
        (each for each in parameters if each.name == own.by_name["parameter"].value), None
    )
    own.text(
        "values",
        "Values",
        suggestion(varied) if varied else "",
        placeholder="0.84, 0.9 or 0.8:0.98:0.02",
        width=260,
        help="" if varied else "This rule has none.",
        live=True,
    )
    others = other_parameters(rule, varied.name) if varied else ""
    own.text(
        "others", "Other parameters of the rule", others, placeholder="name = value, …", width=200
    )
    own.bar(LONGEST, lists=True)
    own.number("repeats", "Repeats", 1)
    own.advanced()


def read_cases(text: str) -> tuple[Case, ...]:
    """One prompt a line; or, where a line is ``---``, one between two such lines. ``prompt =>
    answer`` gives a reference."""
    blocks = re.split(rf"^\s*{BLOCK}\s*$", text, flags=re.MULTILINE)
    return tuple(
        _case(block)
        for block in (blocks if len(blocks) > 1 else text.splitlines())
        if block.strip()
    )


def _case(text: str) -> Case:
    prompt, arrow, answer = text.rpartition(ANSWER)
    if not arrow:
        return Case(text.strip())
    if not prompt.strip() or not answer.strip():
        side = "before" if not prompt.strip() else "after"
        raise ValueError(
            f"There is nothing {side} {ANSWER} in a prompt; write it as prompt {ANSWER} answer."
        )
    return Case(prompt.strip(), answer.strip())


def write_cases(cases: Sequence[Case]) -> str:
    """The text that ``read_cases`` reads as these."""
    texts = [
        f"{case.prompt} {ANSWER} {case.reference}" if case.reference else case.prompt
        for case in cases
    ]
    return f"\n{BLOCK}\n".join(texts) if any("\n" in text for text in texts) else "\n".join(texts)


def examples(press: int) -> tuple[Case, ...]:
    """The next word problems with answers, of those that the bundled pair never saw as questions;
    ``press`` from 0."""
    start = EXAMPLES * press % HELD_OUT
    problems = held_out(start + EXAMPLES)[start:HELD_OUT]
    return tuple(Case(item.question, str(item.answer)) for item in problems)


def suggestion(parameter: Parameter) -> str:
    """Values worth trying: the paper's for θ, else five around the default."""
    if parameter.name == "theta":
        return ", ".join(f"{value:g}" for value in PAPER_THETAS)
    wide = [parameter.default * factor for factor in (0.25, 0.5, 1, 1.5, 2)]
    fitting = [min(max(value, parameter.low), parameter.high) for value in wide]
    rounded = [
        float(round(value)) if parameter.whole else float(f"{value:.3g}") for value in fitting
    ]
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
            raise ValueError(
                f"{part.strip()[:40]!r} is not a parameter; write name = value, comma separated."
            )
        (found[name],) = numbers(value, name) or (read_number(None, name),)
    return found
