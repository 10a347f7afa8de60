"""The form with which a study is started from the page, and the plan that its fields describe.
Fields can hold anything: what cannot be read gets one clear sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from operator import eq
from typing import Any, NamedTuple

from display.format import plural
from evaluation.advise.certificate import compared
from evaluation.advise.plans import advisable
from evaluation.advise.predict import MOST_CANDIDATES
from evaluation.item import Suite
from evaluation.options import planned
from evaluation.plan.lane import BASELINE, Lane, with_placebos
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.suites.read import ARITHMETIC, BUILT_IN, read_suite
from evaluation.suites.typed import QUESTIONS, TYPED, split_prompts, typed_suite
from mars_core.models import PairSpec
from mars_core.numbers import (
    check_lanes,
    number_of,
    quoted,
    read_integer,
    read_integers,
    read_number,
    read_numbers,
)
from mars_core.rules import PLAIN, RULES
from mars_core.settings import KINDS, Settings, rule_named
from mars_core.text.files import lines_of
from mars_core.types import MAX_DRAFT, DrafterConfig, RuleConfig
from ui.jobs.services import Services
from ui.kit.labels import parameter_title
from ui.settings.admission import chosen_pair
from ui.settings.drafters import TREE, taken
from ui.settings.values import EnteredValues, as_text, parse, read_settings

MAX_RUNS = 2000
SUITES = (*BUILT_IN, TYPED)  # none of them executes code
COMPARE, ADVISE = "compare", "advise"
ALPHA = 0.05  # of the tests of settings, as of mars advise


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyForm:
    """``purpose``: to compare the rules with these values, or to find values of them, which then
    are not read. ``problems``: the first items of a built-in suite; ``prompts``: those of the typed
    one, each a line or between lines that are ``separator``; ``references``: their right answers, a
    line each.

    ``values``: a list of ``parameter``, for every rule that has it; ``others``: of the other
    parameters one value each. ``ks`` and ``temperatures`` are lists, too, as text. strict is always
    there. ``entered``: the fields that a comparison has too.
    """

    entered: EnteredValues
    purpose: str = COMPARE
    margin: float | None = 0.98
    suite: str
    problems: float | None
    prompts: str = ""
    separator: str = ""
    references: str = ""
    rules: list[str]
    parameter: str = "theta"
    values: str
    others: str = ""
    placebos: bool = False
    temperatures: str
    ks: str
    repeats: float | None = 1

    def plan(self, spec: PairSpec) -> Plan:
        """Raises ValueError with one sentence."""
        suite, settings = self.chosen_suite(), self.settings()
        known = taken(
            as_text(self.entered.get("drafter")), as_text(self.entered.get("shape", TREE))
        )
        ks = read_integers(self.ks, "k", 1, MAX_DRAFT) if "k" in known else (None,)
        drafters = [replace(settings, k=k).config(spec) for k in ks]
        rules = rules_of(self)
        if not rules:
            raise ValueError(
                "No rule is chosen; choose at least one, which is compared with strict."
            )
        check_lanes(len(drafters) * (1 + len(rules)))
        lanes = [Lane(rule, each) for each in drafters for rule in (RuleConfig(BASELINE), *rules)]
        placebos = self.placebos and self.purpose == COMPARE
        none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in self.rules else []
        return Plan(
            self._name(suite),
            Models(spec.key, spec.target, spec.draft, spec.head, spec.classifier),
            (suite,),
            with_placebos((*none, *lanes)) if placebos else (*none, *lanes),
            temperatures=read_numbers(self.temperatures, "temperature"),
            repeats=read_integer(self.repeats, "repeats"),
            seed=settings.seed,
            max_new_tokens=settings.max_new_tokens,
            **planned(settings),
            margin=read_number(self.margin, "margin"),
            limit=None if suite.name == TYPED else len(suite.items),
        )

    def chosen_suite(self) -> Suite:
        """Raises ValueError."""
        if self.suite == TYPED:
            prompts = split_prompts(self.prompts, self.separator)
            _check_runs(len(prompts))
            answers = lines_of(answers_to(self.prompts, self.references).rstrip())
            return typed_suite(prompts, answers)
        if self.suite not in SUITES:
            raise ValueError(
                f"The suite is {str(self.suite)[:80]!r}; it must be one of {', '.join(SUITES)}."
            )
        return read_suite(self.suite, read_integer(self.problems, "the number of problems"))

    def settings(self) -> Settings:
        """Return the settings of all runs. Raises ValueError."""
        return read_settings(self.entered, "", *(KINDS.keys() - {"k", "temperature", "repeats"}))

    def _name(self, suite: Suite) -> str:
        rules, items = ", ".join(self.rules), suite.items
        if self.purpose == ADVISE:
            rules = f"the fastest of {rules}"
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


def rules_of(form: StudyForm) -> list[RuleConfig]:
    """Return every rule, with each of the values where it has that parameter. Raises ValueError."""
    chosen = [name for name in form.rules if name not in (PLAIN, BASELINE)]
    parameters = {name: {each.name for each in rule_named(name).parameters} for name in chosen}
    if form.purpose == ADVISE:
        return [RuleConfig(name, RULES[name].values({})) for name in chosen]
    known = set().union(*parameters.values())
    others = _named_numbers(form.others)
    if form.parameter in others:
        raise ValueError(
            f"The other parameters fix {form.parameter}, which is varied; leave one out."
        )
    for name in others:
        if name not in known:
            raise ValueError(f"The other parameters have {name[:40]!r}, which no chosen rule has.")
    title = parameter_title(form.parameter)
    values = read_numbers(form.values, title) if form.parameter in known else ()
    check_lanes(len(chosen) * max(1, len(values)))
    rules = []
    for name in chosen:
        fixed = {other: others[other] for other in others.keys() & parameters[name]}
        varied = [{form.parameter: value} for value in values if form.parameter in parameters[name]]
        rules += [RuleConfig(name, RULES[name].values(fixed | each)) for each in varied or [{}]]
    return rules


def _named_numbers(text: str) -> dict[str, float]:
    """``name = value``, comma separated. Raises ValueError."""
    values = {}
    for part in filter(str.strip, text.replace("\n", ",").split(",")):
        name, equals, value = map(str.strip, part.partition("="))
        if not equals or not name:
            raise ValueError(
                f"{quoted(part.strip())} among the other parameters is not name = value; separate them by commas."
            )
        values[name] = read_number(value, name)
    return values


def read_study(value: str | None) -> StudyForm:
    return study_form(parse(value))


def study_form(values: EnteredValues) -> StudyForm:
    """Read the form: a malformed number becomes None, which is refused by name; a malformed text is
    empty."""
    readers: dict[str, Callable[[Any], Any]] = {
        "str": as_text,
        "bool": bool,
        "float | None": number_of,
        "list[str]": lambda value: (
            [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
        ),
    }
    known = {
        each.name: readers[str(each.type)](values.get(each.name))
        for each in fields(StudyForm)
        if each.type in readers and (each.name in values or each.default is MISSING)
    }
    return StudyForm(entered=values, **known)


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
    settings = form.settings()
    spec = chosen_pair(services, settings)
    services.limits.check_length(settings.max_new_tokens)
    plan = form.plan(spec)
    runs = plan.runs
    if form.purpose not in (COMPARE, ADVISE):
        raise ValueError(f"The purpose is {form.purpose[:80]!r}; it must be {COMPARE} or {ADVISE}.")
    if form.purpose == ADVISE:
        tuning, study, _ = advisable(plan, ALPHA)
        lanes = len(plan.lanes) - len(compared(plan)) + MOST_CANDIDATES
        runs = tuning.tasks + study.tasks * lanes
    _check_runs(runs)
    check_size(services, plan, runs)
    return StudyJob(spec, plan, runs, form.purpose == ADVISE)


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
    services.limits.check_study(runs)
    for lane in plan.lanes:
        services.limits.check_drafts(lane.drafter)
    for suite in plan.suites:
        for item in suite.items:
            services.limits.check_prompt(*item.turns, plan.system, *plan.stop)
