"""The fields of a study: what stands in them at first, and which are visible. No gradio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from display.names import parameter_title, rule_title
from evaluation.plan.lane import BASELINE
from evaluation.suites.read import BUILT_IN
from evaluation.suites.typed import QUESTIONS, TYPED
from mars_core.models import BUNDLED_PAIR, PairSpec
from mars_core.rules import PLAIN, RULES, Parameter
from mars_core.settings import KINDS
from mars_core.types import RuleConfig, number_text
from ui.kit.labels import drafter_title
from ui.settings.fields import Fields
from ui.settings.parameters import suggestion
from ui.settings.values import EnteredValues
from ui.tabs.study.form import (
    ADVISE,
    COMPARE,
    IN_FORM,
    StudyForm,
    answers_to,
    examples,
    rules_of,
    values_by_name,
)

LONGEST = 160  # tokens: what the answers of the built-in suites need
RULE_CHOICES = [
    (rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE
]
PARAMETERS = {each.name for rule in RULES.values() for each in rule.parameters}
PURPOSES = (("Compare rules", COMPARE), ("Find the fastest setting within a margin", ADVISE))
ADVICE_EXAMPLES = 250  # that can support a recovery of 98 %, within MAX_RUNS


def thresholds(values: EnteredValues) -> list[RuleConfig]:
    """Return the rules whose values the fields hold. Raises ValueError."""
    form = StudyForm(values)
    return [] if form.advises else rules_of(form)


def describe(fields: Fields) -> None:
    """Describe the fields by name of StudyForm."""
    section: dict[str, Any] = {"section": "purpose"}
    advise = (
        fields.add("purpose", "radio", "Purpose", COMPARE, choices=PURPOSES, **section) == ADVISE
    )
    _suite_fields(fields, advise=advise)
    _rule_fields(fields, advise=advise)
    # a drafter is needed
    drafters = [(drafter_title(each), each) for each in fields.drafters[:-1]]
    fields.run(
        LONGEST,
        KINDS | IN_FORM,
        drafter={"choices": drafters},
        placebos={"default": False, "visible": not advise},
    )


def _suite_fields(fields: Fields, *, advise: bool) -> None:
    titles = [*((suite, suite) for suite in BUILT_IN), ("Prompts of your own", TYPED)]
    bundled = fields.spec is not None and fields.spec.key == BUNDLED_PAIR.key
    many = "demo_arithmetic" if bundled else "instructions"
    section: dict[str, Any] = {"section": "suite"}
    suite = many if advise else TYPED
    typed = fields.add("suite", "choice", "Suite", suite, choices=titles, **section) == TYPED
    amount = ADVICE_EXAMPLES if advise else len(QUESTIONS)
    fields.add("problems", "number", "Problems", amount, visible=not typed, **section)
    section["visible"] = typed
    fields.add(
        "separator",
        "text",
        "Line between prompts",
        placeholder="none: one prompt a line",
        help="For prompts of several lines: a line that is in none of them.",
        **section,
    )
    prompts, answers = examples(bundled=bundled)
    section["section"] = "prompts"
    asked = fields.add("prompts", "lines", "Prompts", prompts, width=460, **section)
    scored = "May be empty. With them the texts are scored."
    label = "Right answers, one a line"
    right = fields.add("references", "lines", label, answers, help=scored, **section)
    field = fields.by_name["references"]
    fields.by_name["references"] = replace(field, value=answers_to(asked, right))


def _rule_fields(fields: Fields, *, advise: bool) -> None:
    """``advise``: for rules with a margin threshold, whose values are chosen later."""
    known_rules = [each for each in RULE_CHOICES if RULES[each[1]].margin_threshold or not advise]
    chosen = fields.add(
        "rules",
        "many",
        "Rules, beside strict",
        ("mars",) if advise else ("mars", PLAIN),
        choices=[*known_rules, (rule_title(PLAIN), PLAIN)],
        section="rules",
    )
    known = {each.name: each for name in chosen for each in RULES[name].parameters}
    section: dict[str, Any] = {"section": "values", "visible": not advise}
    lines = fields.add(
        "parameters",
        "lines",
        "Parameters, one a line",
        also="|".join([*known, *map(parameter_title, known)]),
        width=300,
        help="Several values, such as 0.84, 0.9 or 0.8:0.98:0.02, are a sweep."
        if known
        else "These rules have no parameter.",
        **section,
    )
    field = fields.by_name["parameters"]
    shown = replace(field, value=_parameter_lines(known, lines, fields.spec))
    fields.by_name["parameters"] = shown


def _parameter_lines(known: Mapping[str, Parameter], typed: str, spec: PairSpec | None) -> str:
    """Return what is typed, as far as it can be read with a line for every parameter of the chosen
    rules and for none of other rules: θ, else the first, with several values that are worth
    trying."""
    others = PARAMETERS - known.keys()
    try:
        values = values_by_name(typed)
    except ValueError:  # which the estimate says
        return typed
    if known.keys() <= values.keys() and others.isdisjoint(values):
        return typed
    varied = "theta" if "theta" in known else next(iter(known), "")
    lines = {name: number_text(each.default) for name, each in known.items()}
    if known:
        lines[varied] = suggestion(known[varied], spec)
    lines |= {name: each for name, each in values.items() if name not in others}
    return "\n".join(f"{name} = {each}" for name, each in lines.items())
