"""The fields with which a study is started from the page, the plan that they describe, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import gradio as gr

from evaluation.format import about, count, plural
from evaluation.study.plan import BASELINE, Lane, Models, Plan
from evaluation.study.sweep import MAX_RUNS, runs_planned
from evaluation.suites.demo import ARITHMETIC, BUILT_IN
from evaluation.suites.read import read_suite
from mars_core.models import PairSpec
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, RuleConfig
from ui.jobs.services import Services
from ui.kit.components import text_panel
from ui.kit.events import PRIVATE
from ui.kit.labels import rule_title
from ui.settings.fields import Fields, parse, read
from ui.settings.form import read_drafter, read_whole
from ui.settings.panel import SettingsPanel, pair_choices
from ui.tabs.study.running import admitted
from ui.tabs.sweep.form import ListsForm, numbers, plan_settings, read_ks

LONGEST = 160  # tokens: what the answers of the built-in suites need
SUITES = tuple(BUILT_IN)  # none of them executes code
OFFERED = [(rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE] + [
    (rule_title(PLAIN), PLAIN)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyForm(ListsForm):
    """``problems``: the first items of the suite; ``thetas``: a list as text, for every rule with a θ; strict is always there."""

    suite: str
    problems: float | None
    rules: list[str]
    thetas: str


def read_study(form: StudyForm, spec: PairSpec) -> Plan:
    """The plan that the fields describe. Raises ValueError with one sentence."""
    if form.suite not in SUITES:
        raise ValueError(f"The suite is {str(form.suite)[:80]!r}; it must be one of {', '.join(SUITES)}.")
    limit = read_whole(form.problems, "the number of problems")
    suite, drafter = read_suite(form.suite, limit), read_drafter(replace(form, k=1))
    drafters = [replace(drafter, k=k) for k in read_ks(form)] or [drafter]
    if drafter.tree is None and not read_ks(form):
        raise ValueError("The list of K is empty; give at least one number.")
    rules = [rule for name in form.rules for rule in _rules(name, form)]
    if not rules:
        raise ValueError("No rule is chosen; choose at least one, which is compared with strict.")
    lanes = [Lane(rule, each) for each in drafters for rule in (RuleConfig(BASELINE), *rules)]
    none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in form.rules else []
    plan = Plan(
        f"{form.suite}, {plural(len(suite.items), 'problem')}: {', '.join(form.rules)}"[:200],
        Models(spec.key, spec.target, spec.draft, spec.head),
        (suite,),
        (*none, *lanes),
        limit=limit,
        **plan_settings(form),
    )
    if runs_planned(plan) > MAX_RUNS:
        raise ValueError(
            f"The study has {runs_planned(plan):,} runs; from the page it must be at most {MAX_RUNS:,}: use the command line."
        )
    return plan


def _rules(name: str, form: StudyForm) -> list[RuleConfig]:
    """One for each θ where the rule has one; the other parameters at their defaults."""
    if name in (PLAIN, BASELINE):
        return []
    if name not in RULES:
        raise ValueError(f"The rule is {str(name)[:80]!r}; it must be one of {', '.join(RULES)}.")
    if not any(parameter.name == "theta" for parameter in RULES[name].parameters):
        return [RuleConfig(name, RULES[name].values({}))]
    thetas = numbers(form.thetas, "θ")
    if not thetas:
        raise ValueError("The list of θ is empty; give at least one number.")
    return [RuleConfig(name, RULES[name].values({"theta": theta})) for theta in thetas]


def admitted_study(services: Services, form: StudyForm) -> tuple[PairSpec, Plan]:
    """The pair and the plan of a form, if they may be used here. Raises ValueError."""
    return admitted(services, form, partial(read_study, form))


def estimated(services: Services, form: StudyForm) -> str:
    """How much the study will run and how long that takes at the pace of the latest jobs; or why it cannot."""
    try:
        _, plan = admitted_study(services, form)
    except ValueError as error:
        return str(error)
    runs = runs_planned(plan)
    tokens, most = runs * plan.max_new_tokens, services.limits.seconds
    seconds = tokens * services.queue.pace_s
    parts = [plural(plan.items, "problem"), plural(len(plan.lanes), "lane")]
    parts += [plural(plan.repeats, "seed")] if plan.repeats > 1 else []
    parts += [plural(len(plan.temperatures), "temperature")] if len(plan.temperatures) > 1 else []
    stops = f" It stops after {most} s and can be resumed." if most and seconds > most else ""
    return f"{' × '.join(parts)} = {plural(runs, 'run')}, at most {count(tokens)} new tokens: {about(seconds)}.{stops}"


@dataclass(frozen=True, slots=True)
class StudyFields:
    """The settings and the button."""

    panel: SettingsPanel
    run: gr.Button
    note: gr.HTML


def read_fields(value: str | None) -> StudyForm:
    return StudyForm(**read(StudyForm, parse(value)))


def build_study_fields(services: Services) -> StudyFields:
    """The components in a fold, with their events."""

    def describe(own: Fields, spec: PairSpec | None) -> None:
        own.choice("suite", "Suite", [(suite, suite) for suite in SUITES], ARITHMETIC, width=160)
        own.number("problems", "Problems", 10)
        own.text("thetas", "θ", "0.9", placeholder="0.84, 0.9, 0.96")
        own.many("rules", "Rules, beside strict", OFFERED, ("mars", PLAIN))
        own.bar(pair_choices(services), spec, services.limits, lists=True, longest=LONGEST)
        own.number("repeats", "Repeats", 1)

    with gr.Accordion("Start a study", open=False, elem_id="study-start", elem_classes=["mars-panel"]):
        panel = SettingsPanel(services, "study", describe)
        with gr.Row(elem_classes=["mars-ask-line"]):
            note = text_panel("mars-page mars-sweep-estimate")
            run = gr.Button("Start the study", variant="primary", elem_id="study-run", min_width=150, scale=0)
    panel.wire()
    panel.component.change(lambda value: estimated(services, read_fields(value)), panel.component, note,
                           trigger_mode="always_last", **PRIVATE)  # fmt: skip
    return StudyFields(panel, run, note)
