"""The fields of a study: what stands in them at first, and which are visible. No gradio."""

from __future__ import annotations

from dataclasses import replace

from evaluation.plan.lane import BASELINE
from evaluation.suites.read import BUILT_IN
from evaluation.suites.typed import QUESTIONS, TYPED
from mars_core.models import BUNDLED_PAIR
from mars_core.rules import PLAIN, RULES
from mars_core.types import RuleConfig
from ui.kit.labels import parameter_title, rule_title
from ui.settings.fields import Fields
from ui.settings.parameters import default_theta, suggestion
from ui.settings.values import EnteredValues
from ui.tabs.study.form import (
    ADVISE,
    COMPARE,
    answers_to,
    examples,
    rules_of,
    study_form,
)

LONGEST = 160  # tokens: what the answers of the built-in suites need
RULE_CHOICES = [
    (rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE
]
PURPOSES = (("Compare rules", COMPARE), ("Find the fastest setting within a margin", ADVISE))
ADVICE_EXAMPLES = 250  # that can support a recovery of 98 %, within MAX_RUNS


def thresholds(values: EnteredValues) -> list[RuleConfig]:
    """Return the rules whose values the fields hold. Raises ValueError."""
    form = study_form(values)
    return rules_of(form) if form.purpose == COMPARE else []


def describe(fields: Fields) -> None:
    """Describe the fields by name of StudyForm."""
    fields.choice("purpose", "Purpose", PURPOSES, COMPARE, kind="radio", redraws=True)
    fields.number(
        "margin", "Margin", 0.98, step=0.01, help="The share of strict’s score that is enough."
    )
    advise = fields.by_name["purpose"].value == ADVISE
    _suite_fields(fields, advise=advise)
    _rule_fields(fields, advise=advise)
    fields.bar(LONGEST, lists=True)
    fields.number("repeats", "Repeats", 1)
    fields.advanced()


def _suite_fields(fields: Fields, *, advise: bool) -> None:
    titles = [*((suite, suite) for suite in BUILT_IN), ("Prompts of your own", TYPED)]
    bundled = fields.spec is not None and fields.spec.key == BUNDLED_PAIR.key
    many = "demo_arithmetic" if bundled else "instructions"
    fields.choice("suite", "Suite", titles, many if advise else TYPED, width=160, redraws=True)
    typed = fields.by_name["suite"].value == TYPED
    amount = ADVICE_EXAMPLES if advise else len(QUESTIONS)
    fields.number("problems", "Problems", amount, visible=not typed)
    prompts, answers = examples(bundled=bundled)
    fields.text("prompts", "Prompts", prompts, kind="lines", width=460, visible=typed, redraws=True)
    fields.text(
        "references",
        "Right answers, one a line",
        answers,
        kind="lines",
        width=200,
        visible=typed,
        help="May be empty. With them the texts are scored.",
    )
    right = fields.by_name["references"]
    value = answers_to(fields.by_name["prompts"].value, right.value)
    fields.by_name["references"] = replace(right, value=value)
    fields.text(
        "separator",
        "Line between prompts",
        placeholder="none: one prompt a line",
        width=160,
        visible=typed,
        help="For prompts of several lines: a line that is in none of them.",
    )


def _rule_fields(fields: Fields, *, advise: bool) -> None:
    """``advise``: for rules with a margin threshold, whose values are chosen later."""
    known_rules = [each for each in RULE_CHOICES if RULES[each[1]].margin_threshold or not advise]
    fields.many(
        "rules",
        "Rules, beside strict",
        [*known_rules, (rule_title(PLAIN), PLAIN)],
        ("mars",) if advise else ("mars", PLAIN),
        redraws=True,
    )
    chosen = fields.by_name["rules"].value
    known = {each.name: each for name in chosen for each in RULES[name].parameters}
    choices = [(parameter_title(name), name) for name in known]
    fields.choice("parameter", "Parameter", choices, "theta", redraws=True, visible=not advise)
    varied = fields.by_name["parameter"].value
    if fields.values.get("parameter", varied) != varied:  # the values are those of another one
        fields.values = {name: each for name, each in fields.values.items() if name != "values"}
    fields.text(
        "values",
        "Values",
        suggestion(known[varied], fields.spec) if known else "",
        placeholder="0.84, 0.9 or 0.8:0.98:0.02",
        also=parameter_title(varied) if varied else "",
        width=260,
        help="" if known else "These rules have no parameter.",
        live=True,
        visible=not advise,
    )
    fields.check(
        "placebos",
        "Placebos",
        False,
        visible=not advise,
        help="For each rule as many relaxed tokens at random places, drawn several times, and once the rule that keeps every draft.",
    )
    defaults = {name: each.default for name, each in known.items() if name != varied}
    if "theta" in defaults:
        defaults["theta"] = default_theta(fields.spec).value
    fields.text(
        "others",
        "Other parameters of the rules",
        ", ".join(f"{name} = {value:g}" for name, value in defaults.items()),
        placeholder="name = value, …",
        also="other parameters",
        width=200,
        visible=not advise,
    )
