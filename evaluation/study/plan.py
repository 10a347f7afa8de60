"""The plan of a study: items × seeds × temperatures, each a task of all lanes. Plans are validated
on construction.

A task is one item with one seed at one temperature; a lane is a rule with its parameters and a
drafter. All lanes of a task have the same prompt and seed, so every number of a lane is paired with
its baseline's. A sweep is a plan whose lanes are one rule at several values of a parameter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluation.item import Item, Suite
from evaluation.study.purpose import Advice, Matching
from evaluation.study.stored import plain, read
from mars_core.drafting import described
from mars_core.models import CATALOG, PairSpec, custom_pair
from mars_core.numbers import MAX_LANES
from mars_core.rules import PLAIN, RULES, shift_kind
from mars_core.rules.placebo import ALWAYS, PLACEBO, RANDOM
from mars_core.settings.recorded import model_name
from mars_core.settings.setting import Number, Whole, checked, setting
from mars_core.settings.table import LARGEST_SEED
from mars_core.types import (
    DrafterConfig,
    ModelRef,
    Parameters,
    Processors,
    PromptConfig,
    RuleConfig,
    Sampling,
    ShiftKind,
    number_text,
    value_text,
)

if TYPE_CHECKING:
    from mars_core.models import Pair

BASELINE = "strict"
PLAN = "plan.json"  # of a report, for ``mars eval run --plan``
EQUIVALENCE = 0.05  # scores that differ by at most this share count as equal
# the drafter of served runs, and their rule where none was requested or it is not known
SERVER = "server"
SHARPENED = "sharpened"  # the rule of lanes that are strict at a lower temperature
SCALES = (0.8, 0.6, 0.4, 0.2)  # of that temperature, by default
MAX_CONCURRENCY = 1024
MAX_BATCH = 256
PLACEBO_SEEDS = 8  # draws of each placebo, by default
MOST_SEEDS = 64
MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a study: a pair of the catalog by its ``key``, or the user's own."""

    key: str
    target: ModelRef
    draft: ModelRef | None = None
    head: ModelRef | None = None
    classifier: ModelRef | None = None

    def spec(self, catalog: Sequence[PairSpec] = CATALOG) -> PairSpec:
        """Return the pair. Raises ModelError, and ValueError for the model of a server."""
        if self.key == SERVER:
            raise ValueError("This study runs on a server; continue it with: mars eval resume")
        known = next((spec for spec in catalog if spec.key == self.key), None)
        refs = self.target, self.draft, self.head, self.classifier
        target, *others = (ref and model_name(ref) for ref in refs)
        return known or custom_pair(target or "", *others)

    @classmethod
    def of(cls, pair: Pair) -> Models:
        return cls(
            pair.spec.key, pair.target_ref, pair.draft_ref, pair.head_ref, pair.classifier_ref
        )


@dataclass(frozen=True, slots=True)
class Lane:
    """One way of decoding. ``imitates``, of a lane ``placebo``: in each task as many rejections
    are relaxed as this rule relaxed there with the same drafter, at random places, which differ by
    the parameter ``draw``. (Of a lane ``random``, in studies of earlier versions: each rejected
    token with one probability, which gives as many in the mean.)"""

    rule: RuleConfig
    drafter: DrafterConfig
    imitates: RuleConfig | None = None

    @property
    def is_control(self) -> bool:
        """Whether it is there to judge other rules by: a placebo, the rule that keeps every draft,
        strict at a lower temperature."""
        return self.rule.name in (PLACEBO.name, RANDOM.name, ALWAYS.name, SHARPENED)

    @property
    def scale(self) -> float:
        """What the temperature of a task is multiplied with: 1 but in a lane ``SHARPENED``."""
        return float(self.rule.parameters["scale"]) if self.rule.name == SHARPENED else 1.0

    @property
    def relaxes(self) -> bool:
        """Whether it is judged for what it relaxes."""
        rule = RULES.get(self.rule.name)
        return rule is not None and not (rule.lossless or self.is_control)

    @property
    def best(self) -> int:
        """Of a placebo: only rejections of so many best tokens of the target are relaxed; 0: all."""
        return int(self.rule.parameters.get("best", 0)) if self.imitates else 0

    @property
    def first_draw(self) -> Lane:
        """The lane that stands for all draws of a placebo, where they are averaged."""
        if self.imitates is None or not self.rule.parameters.get("draw"):
            return self
        return replace(self, rule=RuleConfig(self.rule.name, {"best": self.best, "draw": 0}))

    @property
    def rule_name(self) -> str:
        if self.imitates is None:
            return self.rule.name
        among = f" among the {self.best} best" if self.best else ""
        return f"{self.rule.name}{among} as {self.imitates.name}"

    @property
    def parameters(self) -> Parameters:
        """Of the rule, or of the one that it imitates."""
        return (self.imitates or self.rule).parameters

    @property
    def name(self) -> str:
        """The rule with its parameters, for tables."""
        parameters = ", ".join(
            f"{name}={value_text(value)}" for name, value in self.parameters.items()
        )
        return f"{self.rule_name}({parameters})" if parameters else self.rule_name

    @property
    def drafts(self) -> str:
        """The drafter, for tables: ``model K=5``, ``model K=5 sampled``, ``eagle3 12/6/2 greedy``,
        ``server``; empty for none."""
        drafter = self.drafter
        if drafter.kind in (PLAIN, SERVER):
            return drafter.kind.removeprefix(PLAIN)
        tree, plain = drafter.tree, drafter.mode is described(drafter.kind).modes[0]
        shape = f"{tree.tokens}/{tree.depth}/{tree.top_k}" if tree else f"K={drafter.k}"
        return f"{drafter.kind} {shape}" + ("" if plain else f" {drafter.mode.value}")

    @property
    def family(self) -> str:
        """The drafter, whatever its K."""
        return self.drafts.replace(f" K={self.drafter.k}", "")

    def tv_kind(self, temperature: float) -> ShiftKind:
        """Return what TV and KL of its runs are."""
        unknown = self.drafter.kind == SERVER or self.rule.name == SHARPENED
        return (
            ShiftKind.UNKNOWN if unknown else shift_kind(self.rule.name, self.drafter, temperature)
        )


def with_placebos(lanes: Sequence[Lane], seeds: int = PLACEBO_SEEDS) -> tuple[Lane, ...]:
    """Return the lanes and after them, for each that may relax, its placebos: as many rejections at
    random places, drawn ``seeds`` times, among all and, for a rule that admits only the target's
    best tokens, among these; and once for each drafter the rule that keeps every draft. Raises
    ValueError."""
    _check_range("placebo_seeds", seeds, 1, MOST_SEEDS)
    relaxed = [lane for lane in lanes if lane.relaxes]
    added = [
        Lane(RuleConfig(PLACEBO.name, {"best": best, "draw": draw}), lane.drafter, lane.rule)
        for lane in relaxed
        for best in dict.fromkeys((0, RULES[lane.rule.name].relaxes or 0))
        for draw in range(seeds)
    ]
    for drafter in dict.fromkeys(lane.drafter for lane in relaxed):
        every_draft = Lane(RuleConfig(ALWAYS.name), drafter)
        added += [every_draft] * (every_draft not in lanes)
    return (*lanes, *added)


def with_sharpened(lanes: Sequence[Lane], scales: Sequence[float] = SCALES) -> tuple[Lane, ...]:
    """Return the lanes and after them, for each drafter of a rule that may relax, strict at these
    shares of the temperature: what likelier tokens alone do to the score (true truncation,
    2607.26627)."""
    drafters = dict.fromkeys(lane.drafter for lane in lanes if lane.relaxes)
    added = [
        Lane(RuleConfig(SHARPENED, {"scale": scale}), drafter)
        for drafter in drafters
        for scale in scales
    ]
    return (*lanes, *added)


class Task(NamedTuple):
    """One item with one seed at one temperature. ``batch``: how many runs are decoded together."""

    suite: int
    item: int
    repeat: int
    temperature: float
    batch: int = 1


@dataclass(frozen=True, slots=True)
class Served:
    """``baseline_url``: of the strict lanes, if it is another server.

    ``concurrency``: numbers of requests in flight; the repeats of the study have these values in
    turn. Raises ValueError.
    """

    url: str
    model: str
    baseline_url: str = ""
    baseline_model: str = ""
    concurrency: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for load in self.concurrency:
            _check_range("concurrency", load, 1, MAX_CONCURRENCY)

    def of(self, *, baseline: bool) -> tuple[str, str]:
        """URL and model of a lane."""
        return (
            (self.baseline_url, self.baseline_model)
            if baseline and self.baseline_url
            else (self.url, self.model)
        )

    def load(self, repeat: int) -> int:
        """Requests in flight during a repeat."""
        return self.concurrency[repeat % len(self.concurrency)]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything needed to repeat a study. ``margin``: the share of the baseline's score that must
    be kept, e.g. 0.98."""

    name: str
    models: Models
    suites: tuple[Suite, ...]
    lanes: tuple[Lane, ...]
    temperatures: tuple[float, ...] = (0.0,)
    repeats: int = setting(1, Whole("number of seeds per item", 1, 1000))
    seed: int = setting(0, Whole("the first seed", 0, LARGEST_SEED))
    top_k: int = 0
    top_p: float = 1.0
    processors: Processors = field(default_factory=Processors)
    max_new_tokens: int = setting(256, Whole("maximum number of new tokens per turn", 1, 10**6))
    system: str = ""
    chat: bool = True
    thinking: bool | None = None  # PromptConfig.thinking
    stop: tuple[str, ...] = ()
    margin: float = setting(0.98, Number("required recovery, chosen before the run", 0.5, 1, 0.01))
    equivalence: float = setting(
        EQUIVALENCE,
        Number(
            "scores that differ from random relaxation's by at most this share count as equal, "
            "chosen before the run",
            *(0.001, 0.5),
        ),
    )
    execute_code: bool = False
    limit: int | None = setting(None, Whole("use only the first items of every suite", 1))
    skip_long: bool = False  # whether items that do not fit were left out
    served: Served | None = None  # None: the runs are those of this program
    batch: int = 1  # runs that are decoded together, the largest of ``loads``
    loads: tuple[int, ...] = ()  # several sizes, ascending: every task in a batch of each
    auto: bool = False  # ``batch`` is the largest size; that of most tokens a second is used
    alone: int = setting(
        0, Whole("with --batch: decode N random tasks alone, for their times", 0, metavar="N")
    )
    advice: Advice | None = None  # the lanes are candidates, of which one is chosen
    matching: Matching | None = None  # the lanes are rules at equal τ
    averages: int = 0  # draws for which one lane stands, of ``averaged``
    interventions: int = setting(
        0,
        Whole(
            "afterwards relax up to N rejected tokens of each text of strict, each alone, to see "
            "what follows",
            *(0, 10**6),
            metavar="N",
        ),
    )

    def __post_init__(self) -> None:
        checked(self)
        _check(self)

    @property
    def items(self) -> int:
        """Number of items of all suites."""
        return sum(len(suite.items) for suite in self.suites)

    @property
    def tasks(self) -> int:
        return self.items * self.repeats * len(self.temperatures) * (len(self.loads) or 1)

    @property
    def runs(self) -> int:
        """Lanes of all tasks; each is one run a turn."""
        return self.tasks * len(self.lanes)

    @property
    def waves(self) -> Iterator[tuple[int, int]]:
        """Groups of tasks that have the same requests in flight: the first task after each, and
        their number. Without a server one task is done at a time."""
        loads = self.served.concurrency if self.served else (1,)
        waves = self.repeats if len(loads) > 1 else 1
        for wave in range(waves):
            yield self.tasks * (wave + 1) // waves, loads[wave % len(loads)]

    @property
    def alone_tasks(self) -> frozenset[int]:
        return frozenset(random.Random(self.seed).sample(range(self.tasks), self.alone))

    def task(self, number: int) -> Task:
        """Task ``number``: repeats outermost, then temperatures, then items, then batches, so that
        an unfinished study is balanced."""
        number, load = divmod(number, len(self.loads) or 1)
        rest, item = divmod(number, self.items)
        repeat, temperature = divmod(rest, len(self.temperatures))
        suite = 0
        while item >= len(self.suites[suite].items):
            item -= len(self.suites[suite].items)
            suite += 1
        batch = self.loads[load] if self.loads else self.batch
        return Task(suite, item, repeat, self.temperatures[temperature], batch)

    def writes_anew(self, number: int) -> bool:
        """Return whether task ``number`` is in the smallest batch: larger ones write its texts
        again."""
        return not self.loads or number % len(self.loads) == 0

    def item(self, task: Task) -> Item:
        return self.suites[task.suite].items[task.item]

    def position(self, task: Task) -> int:
        """Return the number of its item over all suites."""
        return sum(len(suite.items) for suite in self.suites[: task.suite]) + task.item

    def prompt(self, item: Item) -> PromptConfig:
        """Return the first turn of an item."""
        return PromptConfig(
            item.turns[0], self.system, self.chat, self.stop, thinking=self.thinking
        )

    def seed_of(self, task: Task) -> int:
        """Return a separate seed for each item and repeat, so that items do not share their random
        draws."""
        return self.seed + task.repeat * self.items + self.position(task)

    def sampling(self, task: Task, lane: Lane) -> Sampling:
        temperature = task.temperature * lane.scale
        return Sampling(temperature, self.top_k, self.top_p, self.processors)

    def baseline(self, lane: int) -> int | None:
        """Return the number of the lane strict with the same drafter; of ``none`` the first strict
        one. None for a baseline itself."""
        here = self.lanes[lane]
        if here.rule.name == BASELINE:
            return None
        drafters = [each.drafter for each in self.lanes if each.rule.name == BASELINE]
        drafter = drafters[0] if here.rule.name == PLAIN else here.drafter
        return self._number(lambda each: each.rule.name == BASELINE and each.drafter == drafter)

    def imitated(self, lane: int) -> int:
        """Return the number of the lane that a lane with ``imitates`` imitates."""
        placebo = self.lanes[lane]
        assert placebo.imitates
        return self.lanes.index(Lane(placebo.imitates, placebo.drafter))

    def placebos(self, lane: int, *, ranked: bool = False) -> list[int]:
        """Return the numbers of the lanes that imitate this one, among all tokens or those of its
        ranks."""
        here = self.lanes[lane].rule, self.lanes[lane].drafter, ranked
        every = ((each.imitates, each.drafter, each.best > 0) for each in self.lanes)
        return [number for number, each in enumerate(every) if each == here]

    @property
    def draws(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the lanes that one lane of ``averaged`` stands for."""
        numbers: dict[str, list[int]] = {}
        for number, lane in enumerate(self.lanes):
            numbers.setdefault(repr(lane.first_draw), []).append(number)
        return tuple(map(tuple, numbers.values()))

    @property
    def averaged(self) -> Plan:
        """The plan of a report, in which one lane stands for all draws of a placebo."""
        lanes = tuple(self.lanes[each[0]].first_draw for each in self.draws)
        return replace(self, lanes=lanes, averages=self.placebo_seeds)

    @property
    def placebo_seeds(self) -> int:
        """Draws of each placebo; 0 without one."""
        drawn = [each for each in self.draws if self.lanes[each[0]].imitates]
        return self.averages or max(map(len, drawn), default=0)

    @property
    def scales(self) -> tuple[float, ...]:
        """Of the lanes at lower temperatures, in their order."""
        lanes = (lane for lane in self.lanes if lane.rule.name == SHARPENED)
        return tuple(dict.fromkeys(lane.scale for lane in lanes))

    def title(self, lane: Lane) -> str:
        """Return the rule, with its drafter if the plan has several."""
        several = len({each.drafts for each in self.lanes} - {""}) > 1
        return f"{lane.name} ({lane.drafts})" if several and lane.drafts else lane.name

    def setting(self, lane: Lane, group: str, temperature: float) -> str:
        """Return the title, with the suite and the temperature if the plan has several."""
        on = f" on {group}" if len(self.suites) > 1 else ""
        at = f" at temperature {temperature:g}" if len(self.temperatures) > 1 else ""
        return f"{self.title(lane)}{on}{at}"

    @property
    def none(self) -> int | None:
        """The number of the lane without drafts."""
        return self._number(lambda each: each.rule.name == PLAIN)

    def _number(self, wanted: Callable[[Lane], bool]) -> int | None:
        """Return the number of the first such lane."""
        return next((number for number, lane in enumerate(self.lanes) if wanted(lane)), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the store; ``read_plan`` is the inverse."""
        return plain(self)


def read_plan(stored: Mapping[str, Any]) -> Plan:
    """Read the plan of ``as_dict``, also after conversion to JSON and back. Raises ValueError if
    this version cannot read it."""
    return read(Plan, stored)


def _check(plan: Plan) -> None:
    if not plan.suites:
        raise ValueError("The list of suites is empty; give at least one.")
    names = [suite.name for suite in plan.suites]
    for suite in plan.suites:
        if names.count(suite.name) > 1:
            raise ValueError(f"Two suites are called {suite.name!r}; each needs a different name.")
        if not suite.items:
            raise ValueError(f"The suite {suite.name!r} has no item; it needs at least 1.")
    _check_lanes(plan)
    loads = len(plan.served.concurrency) if plan.served else 1
    if not loads or plan.repeats % loads:
        seeds = f"The number of seeds is {plan.repeats}"
        raise ValueError(f"{seeds}; it must be a multiple of {loads}, the values of concurrency.")
    for batch in (plan.batch, *plan.loads):
        _check_range("batch", batch, 1, 1 if plan.served else MAX_BATCH)
    if plan.loads and (sorted(set(plan.loads)) != [*plan.loads] or plan.loads[-1] != plan.batch):
        raise ValueError(f"The batches are {plan.loads}; each must be larger than the one before.")
    if not plan.temperatures:
        raise ValueError("The list of temperatures is empty; give at least one.")
    if len(set(plan.temperatures)) < len(plan.temperatures):
        raise ValueError("A temperature is listed twice; list each once.")
    for temperature in plan.temperatures:
        _check_range("temperature", temperature, 0, 100)
    _check_range("tasks (items × seeds × temperatures × batches)", plan.tasks, 1, MAX_TASKS)
    if plan.alone and plan.loads:
        raise ValueError(
            f"time_alone is {plan.alone}; with several batches it must be 0: one of them can be 1."
        )
    _check_range("time_alone", plan.alone, 0, plan.tasks)
    if plan.served:
        _check_range("interventions", plan.interventions, 0, 0)
    _check_range("seed", plan.seed, 0, LARGEST_SEED - plan.repeats * plan.items)


def _check_lanes(plan: Plan) -> None:
    if len(set(map(repr, plan.lanes))) < len(plan.lanes):
        raise ValueError(
            "Two lanes are the same; each rule with its parameters and drafter may be used once."
        )
    _check_range("lanes", len(plan.draws), 2, MAX_LANES)
    strict = [lane.drafter for lane in plan.lanes if lane.rule.name == BASELINE]
    if not strict:
        raise ValueError(
            f"{BASELINE} is not among the rules; every other rule is compared with it."
        )
    for lane in plan.lanes:
        if (lane.drafter.kind == SERVER) is not (plan.served is not None):
            raise ValueError(
                f"The drafter is {lane.drafter.kind!r}; it must be {SERVER!r} on a server and only "
                "there."
            )
        if lane.rule.name == SERVER and plan.served:
            continue
        if lane.rule.name == SHARPENED:
            _check_range("scale of sharpened", lane.scale, 0.01, 0.99)
            if not min(plan.temperatures):
                raise ValueError(f"{lane.name} lowers a temperature; each must be above 0.")
            continue
        if lane.rule.name not in RULES:
            raise ValueError(
                f"The rule is {lane.rule.name!r}; it must be one of {', '.join(RULES)}."
            )
        RULES[lane.rule.name].values(lane.rule.parameters)
        if lane.rule.name != PLAIN and lane.drafter not in strict:
            raise ValueError(
                f"{lane.name} drafts with {lane.drafts}, and there is no {BASELINE} lane with that "
                "drafter."
            )
        if lane.imitates and Lane(lane.imitates, lane.drafter) not in plan.lanes:
            raise ValueError(f"{lane.name} imitates a rule that no lane with its drafter has.")


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {number_text(value)}; it must be {low:,} to {high:,}.")
