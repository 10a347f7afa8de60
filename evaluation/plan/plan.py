"""The plan of a study: items × seeds × temperatures, each a task of all lanes. Plans are validated
on construction.

A task is one item with one seed at one temperature; a lane is a rule with its parameters and a
drafter. All lanes of a task have the same prompt and seed, so every number of a lane is paired with
its baseline's. A sweep is a plan whose lanes are one rule at several values of a parameter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from display.names import drafts_label
from evaluation.item import Item, Suite
from evaluation.plan.lane import BASELINE, Lane
from evaluation.plan.models import Models, Served
from evaluation.plan.purpose import Advice, Matching
from evaluation.plan.stored import plain, read
from evaluation.plan.valid import check_plan
from mars_core.rules import PLAIN
from mars_core.settings import KINDS
from mars_core.settings.kind import Flag, Number, Whole
from mars_core.settings.setting import checked, setting
from mars_core.types import Processors, PromptConfig, Sampling

PLAN = "plan.json"  # of a report, for ``mars eval run --plan``
EQUIVALENCE = 0.05  # scores that differ by at most this share count as equal


class Task(NamedTuple):
    """One item with one seed at one temperature. ``batch``: how many runs are decoded together."""

    suite: int
    item: int
    repeat: int
    temperature: float
    batch: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Those that a plan has under their names. ``margin``: the share of the baseline's score that
    must be kept, e.g. 0.98. ``alone``: of tasks in batches."""

    repeats: int = setting(
        1,
        Whole("number of seeds per item", 1, 1000, option="seeds", section="run", title="Repeats"),
    )
    seed: int = setting(0, replace(KINDS["seed"], help="the first seed", title="First seed"))
    max_new_tokens: int = setting(
        256, replace(KINDS["max_new_tokens"], help="maximum number of new tokens per turn")
    )
    margin: float = setting(
        0.98,
        Number(
            "required recovery, the share of strict’s score that is enough; chosen before the run",
            *(0.5, 1, 0.01),
            section="purpose",
        ),
    )
    equivalence: float = setting(
        EQUIVALENCE,
        Number(
            "scores that differ from random relaxation's by at most this share count as equal, "
            "chosen before the run",
            *(0.001, 0.5),
        ),
    )
    execute_code: bool = setting(
        False,
        Flag(
            "run code written by the models in a sandbox, to score it (limits: docs/evaluation.md)"
        ),
    )
    limit: int | None = setting(None, Whole("use only the first items of every suite", 1))
    alone: int = setting(
        0,
        Whole(
            "with --batch: decode N random tasks alone, for their times",
            0,
            metavar="N",
            option="time-alone",
        ),
    )
    interventions: int = setting(
        0,
        Whole(
            "afterwards relax up to N rejected tokens of each text of strict, each alone, to see "
            "what follows",
            *(0, 10**6),
            metavar="N",
        ),
    )


@dataclass(frozen=True, slots=True)
class Plan(PlanSettings):
    """Everything needed to repeat a study."""

    name: str
    models: Models
    suites: tuple[Suite, ...]
    lanes: tuple[Lane, ...]
    temperatures: tuple[float, ...] = (0.0,)
    top_k: int = 0
    top_p: float = 1.0
    processors: Processors = field(default_factory=Processors)
    system: str = ""
    chat: bool = True
    thinking: bool | None = None  # PromptConfig.thinking
    stop: tuple[str, ...] = ()
    skip_long: bool = False  # of earlier versions: whether items that did not fit were left out
    served: Served | None = None  # None: the runs are those of this program
    batch: int = 1  # runs that are decoded together, the largest of ``loads``
    loads: tuple[int, ...] = ()  # several sizes, ascending: every task in a batch of each
    auto: bool = False  # ``batch`` is the largest size; that of most tokens a second is used
    advice: Advice | None = None  # the lanes are candidates, of which one is chosen
    matching: Matching | None = None  # the lanes are rules at equal τ
    averages: int = 0  # draws for which one lane stands, of ``averaged``

    def __post_init__(self) -> None:
        checked(self)
        check_plan(self)

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
            *(item.turns[0], self.system, self.chat, self.stop),
            thinking=self.thinking,
            structure=item.structure,
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

    def title(self, lane: Lane) -> str:
        """Return the rule, with its drafter if the plan has several."""
        several = len({each.drafts for each in self.lanes} - {""}) > 1
        return (
            f"{lane.title} ({drafts_label(lane.drafts)})" if several and lane.drafts else lane.title
        )

    @property
    def suite_names(self) -> frozenset[str]:
        return frozenset(suite.name for suite in self.suites)

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
