"""The form with which a study is started from the page: its fields, and the plan that they
describe. Fields can hold anything: what cannot be read gets one clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluation.format import plural
from evaluation.item import Suite
from evaluation.study.plan import BASELINE, Lane, Models, Plan, with_placebos
from evaluation.suites.read import BUILT_IN, read_suite
from evaluation.suites.typed import ARROW, BLOCK, TYPED, split_prompts, typed_suite
from mars_core.demo.corpus import held_out
from mars_core.models import BUNDLED_PAIR, PairSpec
from mars_core.rules import PLAIN, RULES, Parameter
from mars_core.types import DrafterConfig, RuleConfig
from ui.jobs.services import Services
from ui.kit.labels import parameter_title, rule_title
from ui.settings.admission import chosen_pair
from ui.settings.drafters import taken
from ui.settings.fields import Fields, default_theta, suggestion
from ui.settings.form import (
    RunForm,
    read_drafter,
    read_integer,
    read_number,
    read_processors,
    read_stop,
    read_thinking,
    rule_named,
)
from ui.settings.values import Values, parse, read
from ui.tabs.study.lists import named_numbers, numbers

LONGEST = 160  # tokens: what the answers of the built-in suites need
MAX_RUNS = 2000
RULE_CHOICES = [
    (rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE
]
SUITES = (*BUILT_IN, TYPED)  # none of them executes code
# Prompts or problems at first: they give ratios an interval, and with them SmolLM2-135M is done in
# less than five minutes on two cores.
EXAMPLES = 7
QUESTIONS = """\
What is the capital of France? => Paris
What is 7 + 8? => 15
How many days are in a week? => 7
Which planet is the closest to the Sun? => Mercury
What is the opposite of hot? => cold
Who wrote Romeo and Juliet? => Shakespeare
Which ocean is the largest? => Pacific"""  # that a small model answers


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyForm(RunForm):
    """``problems``: the first items of a built-in suite; ``prompts``: those of the typed one.

    ``values``: a list of ``parameter``, for every rule that has it; ``others``: of the other
    parameters one value each. ``ks`` and ``temperatures`` are lists, too, as text. strict is always
    there.
    """

    suite: str
    problems: float | None
    prompts: str = ""
    rules: list[str]
    parameter: str = "theta"
    values: str
    others: str = ""
    placebos: bool = True
    temperatures: str
    ks: str
    repeats: float | None = 1

    def plan(self, spec: PairSpec) -> Plan:
        """Raises ValueError with one sentence."""
        suite, drafter, ks = self._suite(), read_drafter(replace(self, k=1)), self._ks()
        drafters = [replace(drafter, k=k) for k in ks] or [drafter]
        rules = rules_of(self)
        if not rules:
            raise ValueError(
                "No rule is chosen; choose at least one, which is compared with strict."
            )
        lanes = [Lane(rule, each) for each in drafters for rule in (RuleConfig(BASELINE), *rules)]
        none = [Lane(RuleConfig(PLAIN), DrafterConfig(PLAIN))] if PLAIN in self.rules else []
        plan = Plan(
            self._name(suite),
            Models(spec.key, spec.target, spec.draft, spec.head, spec.classifier),
            (suite,),
            with_placebos((*none, *lanes)) if self.placebos else (*none, *lanes),
            temperatures=numbers(self.temperatures, "temperature"),
            repeats=read_integer(self.repeats, "repeats"),
            seed=read_integer(self.seed, "seed"),
            top_k=read_integer(self.top_k, "top-k"),
            top_p=read_number(self.top_p, "top-p"),
            processors=read_processors(self),
            max_new_tokens=read_integer(self.max_new_tokens, "max new tokens"),
            system=self.system,
            chat=bool(self.chat),
            thinking=read_thinking(self.thinking),
            stop=read_stop(self),
            limit=None if suite.name == TYPED else len(suite.items),
        )
        if plan.runs > MAX_RUNS:
            raise ValueError(
                f"The study has {plan.runs:,} runs; from the page it must be at most {MAX_RUNS:,}: use the command line."
            )
        return plan

    def _suite(self) -> Suite:
        if self.suite == TYPED:
            return typed_suite(split_prompts(self.prompts))
        if self.suite not in SUITES:
            raise ValueError(
                f"The suite is {str(self.suite)[:80]!r}; it must be one of {', '.join(SUITES)}."
            )
        return read_suite(self.suite, read_integer(self.problems, "the number of problems"))

    def _ks(self) -> tuple[int, ...]:
        """Empty where the drafter has no K, as a tree."""
        if "k" not in taken(self.drafter, self.shape):
            return ()
        if not (ks := numbers(self.ks, "K")):
            raise ValueError("The list of K is empty; give at least one number.")
        return tuple(read_integer(k, "K") for k in ks)

    def _name(self, suite: Suite) -> str:
        rules, items = ", ".join(self.rules), suite.items
        if suite.name == TYPED:
            first = " ".join(items[0].turns[0].split())
            return f"{rules}, {plural(len(items), 'prompt')}: {first}"[:120]
        return f"{suite.name}, {plural(len(items), 'problem')}: {rules}"[:200]


def rules_of(form: StudyForm) -> list[RuleConfig]:
    """Every rule, with each of the values where it has that parameter. Raises ValueError."""
    chosen = [name for name in form.rules if name not in (PLAIN, BASELINE)]
    parameters = {name: {each.name for each in rule_named(name).parameters} for name in chosen}
    known = set().union(*parameters.values())
    others = named_numbers(form.others)
    if form.parameter in others:
        raise ValueError(f"{form.parameter} is varied and also fixed; leave one out.")
    for name in others:
        if name not in known:
            raise ValueError(f"No chosen rule has a parameter {name[:40]!r}.")
    title = parameter_title(form.parameter)
    values = numbers(form.values, title) if form.parameter in known else ()
    if form.parameter in known and not values:
        raise ValueError(f"The list of {title} is empty; give at least one number.")
    rules = []
    for name in chosen:
        fixed = {other: others[other] for other in others.keys() & parameters[name]}
        varied = [{form.parameter: value} for value in values if form.parameter in parameters[name]]
        rules += [RuleConfig(name, RULES[name].values(fixed | each)) for each in varied or [{}]]
    return rules


def parameters_of(rules: Sequence[str]) -> dict[str, Parameter]:
    """Of the rules that are chosen, by name."""
    return {each.name: each for rule in rules if rule in RULES for each in RULES[rule].parameters}


def read_study(value: str | None) -> StudyForm:
    return StudyForm(**read(StudyForm, parse(value)))


def thresholds(values: Values) -> list[RuleConfig]:
    """The rules that the fields ask for. Raises ValueError."""
    return rules_of(StudyForm(**read(StudyForm, values)))


def describe(fields: Fields) -> None:
    """The fields by name of StudyForm."""
    _suite_fields(fields)
    _rule_fields(fields)
    fields.bar(LONGEST, lists=True)
    fields.number("repeats", "Repeats", 1)
    fields.advanced()


def _suite_fields(fields: Fields) -> None:
    titles = [*((suite, suite) for suite in BUILT_IN), ("Prompts of your own", TYPED)]
    bundled = fields.spec is not None and fields.spec.key == BUNDLED_PAIR.key
    fields.choice("suite", "Suite", titles, TYPED, width=160, redraws=True)
    typed = fields.by_name["suite"].value == TYPED
    fields.number("problems", "Problems", EXAMPLES, visible=not typed)
    examples = (f"{each.question} {ARROW} {each.answer}" for each in held_out(EXAMPLES))
    fields.text(
        "prompts",
        "Prompts, one a line",
        "\n".join(examples) if bundled else QUESTIONS,
        kind="lines",
        width=600,
        visible=typed,
        help=f"Write “prompt {ARROW} answer” to have the texts scored. For prompts of several lines put a line {BLOCK} between two.",
    )


def _rule_fields(fields: Fields) -> None:
    fields.many(
        "rules",
        "Rules, beside strict",
        [*RULE_CHOICES, (rule_title(PLAIN), PLAIN)],
        ("mars", PLAIN),
        redraws=True,
    )
    known = parameters_of(fields.by_name["rules"].value)
    choices = [(parameter_title(name), name) for name in known]
    fields.choice("parameter", "Parameter", choices, "theta", redraws=True)
    varied = fields.by_name["parameter"].value
    if fields.values.get("parameter", varied) != varied:  # the values are those of another one
        fields.values = {name: each for name, each in fields.values.items() if name != "values"}
    fields.text(
        "values",
        "Values",
        suggestion(known[varied], fields.spec) if known else "",
        placeholder="0.84, 0.9 or 0.8:0.98:0.02",
        width=260,
        help="" if known else "These rules have no parameter.",
        live=True,
    )
    fields.check(
        "placebos",
        "Placebos",
        True,
        help="For each rule random relaxation of as many tokens, and once the rule that keeps every draft.",
    )
    defaults = {name: each.default for name, each in known.items() if name != varied}
    if "theta" in defaults:
        defaults["theta"] = default_theta(fields.spec).value
    fields.text(
        "others",
        "Other parameters of the rules",
        ", ".join(f"{name} = {value:g}" for name, value in defaults.items()),
        placeholder="name = value, …",
        width=200,
    )


def admitted(services: Services, form: StudyForm) -> tuple[PairSpec, Plan]:
    """The pair and the plan of a form, if both may be used here. Raises ValueError."""
    spec = chosen_pair(services, form)
    plan = form.plan(spec)
    check_size(services, plan, plan.runs)
    return spec, plan


def check_size(services: Services, plan: Plan, runs: int) -> None:
    """Whether so many runs and these prompts are within the limits. Raises ValueError."""
    services.limits.check_study(runs)
    for suite in plan.suites:
        for item in suite.items:
            services.limits.check_prompt(*item.turns, plan.system, *plan.stop)
