"""The form with which a study is started from the page, and the plan that its fields describe.
Fields can hold anything: what cannot be read gets one clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import eq
from typing import NamedTuple

from display.format import plural
from display.names import listed, parameter_title, rule_label, rule_title, value_text
from evaluation.advise.certificate import compared
from evaluation.advise.plans import advisable
from evaluation.advise.predict import MOST_CANDIDATES
from evaluation.item import Suite
from evaluation.options import COMMON, drafters_of, plan_of
from evaluation.plan.lane import BASELINE, lanes_of, with_placebos
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.settings import STUDY, StudySettings
from evaluation.suites.read import ARITHMETIC, BUILT_IN, read_suite
from evaluation.suites.typed import QUESTIONS, TYPED, split_prompts, typed_suite
from mars_core.models import PairSpec
from mars_core.numbers import (
    quoted,
    read_integer,
    read_numbers,
)
from mars_core.rules import PLAIN, RULES
from mars_core.settings import Settings, rule_named
from mars_core.settings.command_line import RuleValues, read_rules
from mars_core.settings.kind import Text
from mars_core.text.files import lines_of
from mars_core.types import RuleConfig, number_text
from ui.jobs.admission import chosen_pair
from ui.jobs.services import Services
from ui.public.limits import at_most
from ui.settings.values import EnteredValues, as_text, parse, read_settings, words_of

MAX_RUNS = 2000
SUITES = (*BUILT_IN, TYPED)  # none of them executes code
COMPARE, ADVISE = "compare", "advise"
IN_FORM = {name: kind for name, kind in STUDY.items() if kind.section}
ALPHA = 0.05  # of the tests of settings, as of mars advise


class StudyForm(NamedTuple):
    """The values of the form, whatever they are: what is malformed is empty, or refused by name."""

    entered: EnteredValues

    def text(self, name: str) -> str:
        return as_text(self.entered.get(name))

    @property
    def advises(self) -> bool:
        """Whether values of the rules are to be found, and are not read."""
        return self.text("purpose") == ADVISE

    def plan(self, spec: PairSpec) -> Plan:
        """Raises ValueError with one sentence."""
        suite, study, settings = self.chosen_suite(), self.study(), self.settings()
        drafters, rules = drafters_of(study, settings, spec), rules_of(self)
        if not rules:
            raise ValueError(
                "No rule is chosen; choose at least one, which is compared with strict."
            )
        lanes = lanes_of([RuleConfig(BASELINE), *rules], drafters, plain=PLAIN in study.rules)
        if study.placebos and not self.advises:
            lanes = with_placebos(lanes)
        limit = None if suite.name == TYPED else len(suite.items)
        named = replace(study, name=self._name(suite, rules, study), limit=limit)
        models = Models(spec.key, spec.target, spec.draft, spec.head, spec.classifier)
        return plan_of(named, settings, models, [suite], lanes)

    def study(self) -> StudySettings:
        """Return the settings of the study that the form has, with rules beside strict. Raises
        ValueError."""
        words = {"placebos": False, **words_of(self.entered, IN_FORM)}
        return StudySettings(**words, rules=self.entered.get("rules") or ())

    def chosen_suite(self) -> Suite:
        """Raises ValueError."""
        suite = Text("", SUITES).read(self.text("suite"), "The suite")
        if suite != TYPED:
            problems = read_integer(self.entered.get("problems"), "the number of problems")
            return read_suite(suite, problems)
        typed = self.text("prompts")
        prompts = split_prompts(typed, self.text("separator"))
        _check_runs(len(prompts))
        answers = answers_to(typed, self.text("references"))
        return typed_suite(prompts, lines_of(answers.rstrip()))

    def settings(self) -> Settings:
        """Return the settings of all runs. Raises ValueError."""
        return read_settings(self.entered, "", *COMMON)

    def _name(self, suite: Suite, chosen: Sequence[RuleConfig], study: StudySettings) -> str:
        items, alone = suite.items, [rule_title(PLAIN).lower()] if PLAIN in study.rules else []
        rules = listed([*rules_said(chosen), *alone])
        if self.advises:
            rules = f"the fastest of {listed([rule_title(each.name) for each in chosen])}"
        if suite.name == TYPED:
            first = " ".join(items[0].turns[0].split())
            return f"{rules}, {plural(len(items), 'prompt')}: {first}"[:120]
        return f"{suite.name}, {plural(len(items), 'problem')}: {rules}"[:200]


def examples(*, bundled: bool) -> tuple[str, str]:
    """Prompts and their right answers, as they are typed."""
    items = read_suite(ARITHMETIC, len(QUESTIONS)).items if bundled else ()
    problems = [(item.turns[0], item.references[0]) for item in items]
    prompts, answers = zip(*(problems or QUESTIONS), strict=True)
    return "\n".join(prompts), "\n".join(answers)


def answers_to(prompts: str, references: str) -> str:
    """Return the right answers. Those of examples follow the prompts: they are those of the
    examples of which one is in its place, or none."""
    known = [examples(bundled=bundled) for bundled in (True, False)]
    if references not in (answers for _, answers in known):
        return references
    lines = lines_of(prompts)
    return next(
        (answers for questions, answers in known if any(map(eq, lines, lines_of(questions)))), ""
    )


def rules_said(rules: Sequence[RuleConfig]) -> list[str]:
    """Name each rule once, with the values of its parameters: ``MARS θ = 0.84 / 0.9``."""
    values = dict[str, dict[str, dict[str, None]]]()  # by rule and parameter, each once
    for rule in rules:
        known = values.setdefault(rule.name, {})
        for name, value in rule.parameters.items():
            known.setdefault(name, {})[value_text(value)] = None
    return [
        rule_label(rule, {name: " / ".join(every) for name, every in known.items()})
        for rule, known in values.items()
    ]


def values_by_name(text: str) -> dict[str, str]:
    """Read ``name = values``, one a line. Raises ValueError."""
    texts = {}
    for line in filter(str.strip, lines_of(text)):
        name, _, values = map(str.strip, line.partition("="))
        if not name or not values:
            raise ValueError(f"{quoted(line)} among the parameters is not name = values.")
        texts[name] = values
    return texts


def rules_of(form: StudyForm) -> list[RuleConfig]:
    """Return every rule with each of the values of its parameters. Raises ValueError."""
    chosen = [name for name in form.study().rules if name not in (PLAIN, BASELINE)]
    if form.advises or not chosen:
        return [RuleConfig(name, rule_named(name).values({})) for name in chosen]
    known = {each.name for name in chosen for each in rule_named(name).parameters}
    texts = values_by_name(form.text("parameters"))
    if unknown := texts.keys() - known:
        raise ValueError(f"The parameters have {min(unknown)[:40]!r}, which no chosen rule has.")
    values = {name: read_numbers(text, parameter_title(name)) for name, text in texts.items()}
    sets = [f"{name}={','.join(map(number_text, each))}" for name, each in values.items()]
    rules = read_rules(chosen, RuleValues(set=tuple(sets)))
    return [replace(rule, parameters=RULES[rule.name].values(rule.parameters)) for rule in rules]


def read_study(value: str | None) -> StudyForm:
    return StudyForm(parse(value))


class StudyJob(NamedTuple):
    """A study that may run here. ``runs``: at most; ``advises``: the lanes of its plan are chosen
    first; ``study``: its id, where it goes on."""

    spec: PairSpec
    plan: Plan
    runs: int
    advises: bool = False
    study: str = ""


def admitted(services: Services, form: StudyForm) -> StudyJob:
    """Admit what a form requests, if it may be done here. Raises ValueError."""
    spec = chosen_pair(services, form.settings())
    services.limits.check_length(form.study().max_new_tokens)
    plan = form.plan(spec)
    runs = plan.runs
    Text("", (COMPARE, ADVISE)).read(form.text("purpose"), "The purpose")
    if form.advises:
        tuning, study, _ = advisable(plan, ALPHA)
        lanes = len(plan.lanes) - len(compared(plan)) + MOST_CANDIDATES
        runs = tuning.tasks + study.tasks * lanes
    _check_runs(runs)
    check_size(services, plan, runs)
    return StudyJob(spec, plan, runs, form.advises)


def _check_runs(runs: int) -> None:
    """Raises ValueError."""
    if runs > MAX_RUNS:
        raise ValueError(
            f"The study has {runs:,} runs; from the page it must be at most {MAX_RUNS:,}: use the "
            "command line."
        )


def check_size(services: Services, plan: Plan, runs: int) -> None:
    """Check whether so many runs, these drafts and prompts are within the limits. Raises
    ValueError."""
    at_most("The number of runs", runs, services.limits.study_runs)
    for lane in plan.lanes:
        services.limits.check_drafts(lane.drafter)
    for suite in plan.suites:
        for item in suite.items:
            services.limits.check_prompt(*item.turns, plan.system, *plan.stop)
