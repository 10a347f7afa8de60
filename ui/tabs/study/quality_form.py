"""The form with which a study is started from the page: its fields, the plan that they describe,
and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluation.format import about, count, plural
from evaluation.study.plan import BASELINE, Lane, Models, Plan
from evaluation.study.sweep import MAX_RUNS, runs_planned
from evaluation.suites.demo import ARITHMETIC, BUILT_IN
from evaluation.suites.read import read_suite
from mars_core.models import PairSpec
from mars_core.rules import PLAIN, RULES
from mars_core.types import DrafterConfig, RuleConfig
from ui.jobs.services import Services
from ui.kit.labels import rule_title
from ui.settings.fields import Fields, Values, default_theta, parse, read
from ui.settings.form import read_drafter, read_whole
from ui.tabs.study.lists import RULE_CHOICES, ListsForm, numbers, plan_settings, read_ks

LONGEST = 160  # tokens: what the answers of the built-in suites need
SUITES = tuple(BUILT_IN)  # none of them executes code


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyForm(ListsForm):
    """``problems``: the first items of the suite; ``thetas``: a list as text, for every rule with a
    θ; strict is always there."""

    suite: str
    problems: float | None
    rules: list[str]
    thetas: str

    def plan(self, spec: PairSpec) -> Plan:
        if self.suite not in SUITES:
            raise ValueError(
                f"The suite is {str(self.suite)[:80]!r}; it must be one of {', '.join(SUITES)}."
            )
        limit = read_whole(self.problems, "the number of problems")
        suite, drafter = read_suite(self.suite, limit), read_drafter(replace(self, k=1))
        drafters = [replace(drafter, k=k) for k in read_ks(self)] or [drafter]
        if drafter.tree is None and not read_ks(self):
            raise ValueError("The list of K is empty; give at least one number.")
        rules = [rule for name in self.rules for rule in _rules(name, self.thetas)]
        if not rules:
            raise ValueError(
                "No rule is chosen; choose at least one, which is compared with strict."
            )
        lanes = [Lane(rule, each) for each in drafters for rule in (RuleConfig(BASELINE), *rules)]
        none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in self.rules else []
        name = f"{self.suite}, {plural(len(suite.items), 'problem')}: {', '.join(self.rules)}"[:200]
        models = Models(spec.key, spec.target, spec.draft, spec.head)
        plan = Plan(name, models, (suite,), (*none, *lanes), limit=limit, **plan_settings(self))
        runs = runs_planned(plan)
        if runs > MAX_RUNS:
            raise ValueError(
                f"The study has {runs:,} runs; from the page it must be at most {MAX_RUNS:,}: use the command line."
            )
        return plan

    def estimate(self, plan: Plan, services: Services) -> str:
        """And how long that takes at the pace of the latest jobs."""
        runs = runs_planned(plan)
        tokens, most = runs * plan.max_new_tokens, services.limits.seconds
        seconds = tokens * services.queue.pace_s
        parts = [plural(plan.items, "problem"), plural(len(plan.lanes), "lane")]
        parts += [plural(plan.repeats, "seed")] if plan.repeats > 1 else []
        parts += (
            [plural(len(plan.temperatures), "temperature")] if len(plan.temperatures) > 1 else []
        )
        stops = f" It stops after {most} s and can be resumed." if most and seconds > most else ""
        words = f"{' × '.join(parts)} = {plural(runs, 'run')}, at most {count(tokens)} new tokens"
        return f"{words}: {about(seconds)}.{stops}"


def _rules(name: str, thetas: str) -> list[RuleConfig]:
    """One for each θ where the rule has one; the other parameters at their defaults."""
    if name in (PLAIN, BASELINE):
        return []
    if name not in RULES:
        raise ValueError(f"The rule is {str(name)[:80]!r}; it must be one of {', '.join(RULES)}.")
    if not any(parameter.name == "theta" for parameter in RULES[name].parameters):
        return [RuleConfig(name, RULES[name].values({}))]
    found = numbers(thetas, "θ")
    if not found:
        raise ValueError("The list of θ is empty; give at least one number.")
    return [RuleConfig(name, RULES[name].values({"theta": theta})) for theta in found]


def read_study(value: str | None) -> StudyForm:
    return StudyForm(**read(StudyForm, parse(value)))


def thresholds(values: Values) -> list[RuleConfig]:
    """The rules that the fields ask for. Raises ValueError."""
    form = StudyForm(**read(StudyForm, values))
    return [rule for name in form.rules for rule in _rules(name, form.thetas)]


def describe(own: Fields) -> None:
    """The fields by name of StudyForm."""
    own.choice("suite", "Suite", [(suite, suite) for suite in SUITES], ARITHMETIC, width=160)
    own.number("problems", "Problems", 10)
    own.text(
        "thetas",
        "θ",
        f"{default_theta(own.spec).value:g}",
        placeholder="0.84, 0.9, 0.96",
        live=True,
    )
    own.many(
        "rules",
        "Rules, beside strict",
        [*RULE_CHOICES, (rule_title(PLAIN), PLAIN)],
        ("mars", PLAIN),
        redraws=True,
    )
    own.bar(LONGEST, lists=True)
    own.number("repeats", "Repeats", 1)
    own.sampling()
