"""A study with results drawn at random, known to the last number, and a store that has nothing
else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np

from evaluation.item import Item, Suite
from evaluation.plan.lane import Lane
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan
from evaluation.report.measure import measure
from evaluation.report.measured import Measured
from evaluation.report.values import Report
from evaluation.study.result import LaneResult, Relative
from mars_core.types import ModelRef, RuleConfig, Status
from storage import StoredJudgement, StoredResult, StoredStudy, StoredVote
from tests.unit.evaluation import saved

START = datetime(2026, 11, 21, tzinfo=UTC)
NUMBERS, STORIES = "exact_match,flexible-extract", "bleu,none"
NONE, STRICT, MARS, HARM = range(4)
LANES = (
    *saved.LANES,
    Lane(RuleConfig("threshold", {"single": 0.1, "accumulated": 0.1}), saved.MODEL),
)


def study_plan(items: int = 40, repeats: int = 3, **changed: Any) -> Plan:
    """``items`` sums of two categories, and half as many stories."""
    sums = tuple(
        Item(f"sum {n}", (f"{n} + 1 =",), (str(n + 1),), ("small", "large")[n % 2])
        for n in range(items)
    )
    stories = tuple(Item(f"story {n}", (f"Tell {n}.",), ("Once.",)) for n in range(items // 2))
    suites = (
        Suite("sums", sums, metrics=(NUMBERS,)),
        Suite("stories", stories, metrics=(STORIES,)),
    )
    models = Models("drawn", ModelRef("target"), ModelRef("draft"))
    plan = Plan("drawn", models, suites, LANES, (0.0, 1.0), repeats=repeats)
    return replace(plan, **changed)


# Of what strict gets right a lane loses this share; below a tenth it gains as much. By its name.
LOSES = {"mars(theta=0.9)": 0.04, LANES[HARM].name: 0.3}


def drawn_results(
    plan: Plan,
    seed: int = 0,
    *,
    loses: Mapping[str, float] = LOSES,
    tasks: int | None = None,
) -> list[StoredResult]:
    """A lane that loses much writes longer too."""
    generator, results = np.random.default_rng(seed), []
    ease = generator.uniform(0.4, 1.0, plan.items)
    for number in range(plan.tasks if tasks is None else tasks):
        task = plan.task(number)
        right = float(generator.random() < ease[number % plan.items])
        words = int(generator.integers(20, 60))
        for lane, settings in enumerate(plan.lanes):
            lost = loses.get(settings.name, 0.0)
            part = bool(generator.random() < 2 * lost)
            score = _score(generator, task.suite, right, lost)
            scores = dict.fromkeys(plan.suites[task.suite].metrics, score)
            tokens = words + 8 * (lost > 0.1) + 3 * part
            speed = 0.0 if lane == plan.none else 3.0 + 0.5 * lane
            result = _result(generator, speed, tokens, scores, lossy=lost > 0)
            relative = _relative(generator, part)
            results.append(stored(number, lane, result, relative, worker=f"w{number % 2}"))
    return results


def stored(
    task: int, lane: int, result: LaneResult, relative: Relative | None, *, worker: str = "w"
) -> StoredResult:
    at = START + timedelta(seconds=task)
    data = None if relative is None else relative.as_dict()
    return StoredResult(
        task, lane, (f"{task:016x}{lane:016x}",), worker, at, result.as_dict(), data
    )


def _score(generator: np.random.Generator, suite: int, right: float, loses: float) -> float:
    if suite == 0:
        lost = right and generator.random() < loses
        return 0.0 if lost else max(right, float(0 < loses < 0.1 and generator.random() < 0.04))
    value = 0.3 + 0.2 * right + 0.1 * generator.random()
    return float(value * (1 - loses * generator.random()))


def _result(
    generator: np.random.Generator,
    speed: float,
    tokens: int,
    scores: dict[str, float],
    *,
    lossy: bool,
) -> LaneResult:
    """``speed``: tokens a step, 0 without drafts."""
    steps = int(np.ceil(tokens / speed)) if speed else tokens
    relaxed = (tokens - steps) // 9 * lossy
    return LaneResult(
        status=Status.COMPLETED,
        ended=bool(generator.random() < 0.95),
        prompt_tokens=7,
        new_tokens=tokens,
        characters=4 * tokens,
        steps=steps,
        drafted=5 * steps if speed else 0,
        accepted=tokens - steps - relaxed,
        relaxed=relaxed,
        wall_s=0.01 * steps * float(generator.uniform(0.9, 1.1)),
        tv_sum=float(generator.random()) if lossy else 0.0,
        log_likelihood=-0.8 * tokens - float(generator.random()),
        drafted_at=(steps,) * 5 if speed else (),
        kept_at=tuple(steps // (n + 2) for n in range(5)) if speed else (),
        scores=scores,
        overshoot_max=1.0 + relaxed,
        looped=float(tokens % 7 == 0),
        loop_relaxed=float(tokens % 14 == 0),
        loops_left=float(tokens % 3),
        loops_left_by_bonus=float(tokens % 3 == 2),
        answered=float(tokens % 5 != 0),
        reasoning_tokens=tokens // 4,
        reasoning_s=0.002 * steps,
    )


def _relative(generator: np.random.Generator, part: bool) -> Relative:
    if not part:
        return Relative(True, True, None, "", 1.0, 1.0, 1.0)
    near = generator.uniform(0.2, 0.9, 3)
    return Relative(False, False, int(generator.integers(0, 20)), "relaxed", *map(float, near))


def reported(plan: Plan, results: Sequence[StoredResult], **stored: Any) -> Report:
    """``stored``: the other fields of the store."""
    return measure(FakeStore(plan, results, **stored), "study")  # type: ignore[arg-type]


@dataclass
class FakeStore:
    """What ``measure`` asks of a store."""

    plan: Plan
    stored: Sequence[StoredResult]
    environment: dict[str, dict[str, str]] = field(default_factory=dict)  # of a worker
    cast: tuple[StoredVote, ...] = ()
    judged: tuple[StoredJudgement, ...] = ()

    def study(self, study_id: str) -> StoredStudy:
        done = len({row.task for row in self.stored})
        return StoredStudy(
            study_id, START, self.plan.name, self.plan.tasks, done, self.plan.as_dict()
        )

    def results(self, _: str) -> tuple[StoredResult, ...]:
        return tuple(self.stored)

    def votes(self) -> tuple[StoredVote, ...]:
        return self.cast

    def judgements(self, _: str) -> tuple[StoredJudgement, ...]:
        return self.judged

    def counterfactuals(self, _: Sequence[str]) -> dict[str, Any]:
        return {}

    def records(self, run_ids: Sequence[str], **_: bool) -> tuple[Any, ...]:
        workers = {row.run_ids[0]: row.worker for row in self.stored if row.run_ids}
        return tuple(self._record(run_id, workers.get(run_id, "")) for run_id in run_ids)

    def _record(self, run_id: str, worker: str) -> Any:
        drafter = SimpleNamespace(model=self.plan.models.draft)
        config = SimpleNamespace(
            environment=self.environment.get(worker, {"device": "cpu"}),
            target=self.plan.models.target,
            drafter=drafter,
        )
        return SimpleNamespace(id=run_id, config=config)


def row_of(report: Report, lane: int, group: str = "sums", temperature: float = 1.0) -> Measured:
    return next(
        one
        for one in report.measured
        if (one.group, one.temperature, one.lane) == (group, temperature, lane)
    )
