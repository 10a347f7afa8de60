"""A study with results drawn at random, known to the last number, and a store that has nothing
else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np

from evaluation.item import Item, Suite
from evaluation.study.plan import Lane, Models, Plan
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
    plan = Plan("drawn", models, suites, LANES, (0.0, 1.0), repeats)
    return replace(plan, **changed)


def drawn_results(
    plan: Plan, seed: int = 0, *, harm: float = 0.3, tasks: int | None = None
) -> list[StoredResult]:
    """Lane HARM loses ``harm`` of what strict gets right and writes longer; MARS loses and gains 4
    %."""
    generator, results = np.random.default_rng(seed), []
    ease = generator.uniform(0.4, 1.0, plan.items)
    for number in range(plan.tasks if tasks is None else tasks):
        task = plan.task(number)
        item = number % plan.items
        right = float(generator.random() < ease[item])
        words = int(generator.integers(20, 60))
        for lane in range(len(plan.lanes)):
            loses = {MARS: 0.04, HARM: harm}.get(lane, 0.0)
            part = generator.random() < 2 * loses
            scores = _scores(generator, task.suite, right, loses)
            result = _result(
                generator, lane, words + (8 if lane == HARM else 0) + (3 if part else 0), scores
            )
            relative = _relative(generator, bool(part), lane)
            results.append(stored(number, lane, result, relative, worker=f"w{number % 2}"))
    return results


def stored(
    task: int, lane: int, result: LaneResult, relative: Relative | None, *, worker: str = "w"
) -> StoredResult:
    at = START + timedelta(seconds=task)
    data = None if relative is None else relative.as_dict()
    return StoredResult(task, lane, (f"run {task} {lane}",), worker, at, result.as_dict(), data)


def _scores(
    generator: np.random.Generator, suite: int, right: float, loses: float
) -> dict[str, float]:
    if suite == 0:
        lost = right and generator.random() < loses
        return {
            NUMBERS: 0.0 if lost else max(right, float(loses == 0.04 and generator.random() < 0.04))
        }
    value = 0.3 + 0.2 * right + 0.1 * generator.random()
    return {STORIES: value * (1 - loses * generator.random())}


def _result(
    generator: np.random.Generator, lane: int, tokens: int, scores: dict[str, float]
) -> LaneResult:
    steps = tokens if lane == NONE else int(np.ceil(tokens / (3.0 + 0.5 * lane)))
    drafted = 0 if lane == NONE else 5 * steps
    accepted = tokens - steps
    return LaneResult(
        status=Status.COMPLETED,
        ended=bool(generator.random() < 0.95),
        prompt_tokens=7,
        new_tokens=tokens,
        characters=4 * tokens,
        steps=steps,
        drafted=drafted,
        accepted=accepted - accepted // 9 * (lane > STRICT),
        relaxed=accepted // 9 * (lane > STRICT),
        wall_s=0.01 * steps * float(generator.uniform(0.9, 1.1)),
        tv_sum=0.0 if lane <= STRICT else float(generator.random()),
        log_likelihood=-0.8 * tokens - float(generator.random()),
        drafted_at=() if lane == NONE else (steps,) * 5,
        kept_at=() if lane == NONE else tuple(steps // (n + 2) for n in range(5)),
        scores=scores,
    )


def _relative(generator: np.random.Generator, part: bool, lane: int) -> Relative:
    if lane <= STRICT or not part:
        return Relative(True, True, None, "", 1.0, 1.0, 1.0)
    near = generator.uniform(0.2, 0.9, 3)
    return Relative(False, False, int(generator.integers(0, 20)), "relaxed", *map(float, near))


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
            study_id, START, self.plan.name, self.plan.as_dict(), self.plan.tasks, done
        )

    def results(self, _: str) -> tuple[StoredResult, ...]:
        return tuple(self.stored)

    def votes(self) -> tuple[StoredVote, ...]:
        return self.cast

    def judgements(self, _: str) -> tuple[StoredJudgement, ...]:
        return self.judged

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
