"""A small study on a tiny pair, and what a process does that works on it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from evaluation.item import Item, Suite
from evaluation.plan.lane import Lane
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan, read_plan
from evaluation.study.engine import InProcess
from evaluation.study.launch import follow, in_threads
from evaluation.study.runner import Runner
from evaluation.study.worker import Work, WorkerEvent
from mars_core.jobs import execution_order
from mars_core.session import Session
from mars_core.types import DrafterConfig, RuleConfig
from storage import RunStore

HERE = "--device=cpu --dtype=float32 --threads=1"  # more threads would stay for later tests
SUITE = '{"question_id": 1, "category": "c", "turns": ["What is 1 + 1?"], "reference": ["2"]}\n'
NONE = Lane(RuleConfig("none"), DrafterConfig("none"))
STRICT = Lane(RuleConfig("strict"), DrafterConfig("model", None, 4))
MARS = Lane(RuleConfig("mars", {"theta": 0.5}), DrafterConfig("model", None, 4))


def small_plan(session: Session, **changed: Any) -> Plan:
    """Two suites, one with two turns; texts of at most 16 tokens."""
    pair = session.pair
    suites = (
        Suite(
            "sums",
            tuple(Item(str(n), (f"{n} + 1?",), (str(n + 1),)) for n in range(2)),
            metrics=("contains,none",),
        ),
        Suite("talk", (Item("t", ("Hello there", "Say it again")),)),
    )
    models = Models.of(pair)
    lanes = (NONE, STRICT, MARS)
    plan = Plan("small", models, suites, lanes, (1.0,), max_new_tokens=16, chat=False)
    return replace(plan, **changed)


def work_on(_pipe: object, url: str, study_id: str, session: Session) -> None:
    """What a worker process does."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    with RunStore(url) as store:
        work, plan = Work(store, study_id), read_plan(store.study(study_id).plan)
        waves = in_threads(work, Runner(plan, session, InProcess(session), plan.batch))
        follow(work, plan, waves, quiet=True)


def new_study(store: RunStore, plan: Plan) -> str:
    return store.new_study(plan.name, plan.as_dict(), plan.tasks)


def worked(
    store: RunStore,
    study_id: str,
    plan: Plan,
    session: Session,
    order: Callable[[int], list[int]] = execution_order,
) -> Generator[WorkerEvent, None, None]:
    """Runs every open task in this process."""
    runner = Runner(plan, session, InProcess(session), plan.batch, order)
    return Work(store, study_id).run(runner, deque(store.open_tasks(study_id)))


def run_study(store: RunStore, plan: Plan, session: Session) -> str:
    """The id of a new study that is done."""
    study_id = new_study(store, plan)
    deque(worked(store, study_id, plan, session), maxlen=0)
    return study_id


def study_in(folder: Path, plan: Plan, session: Session) -> Path:
    """A closed database with one study that is done."""
    path = folder / "runs.db"
    with RunStore(f"sqlite:///{path}") as store:
        run_study(store, plan, session)
    return path


def check_complete(store: RunStore, study_id: str, plan: Plan) -> None:
    """Every lane of every task is there once, its runs are in the store, and the store has no run
    that nobody counts."""
    results = store.results(study_id)
    lanes = range(len(plan.lanes))
    assert Counter((result.task, result.lane) for result in results) == Counter(
        (task, lane) for task in range(plan.tasks) for lane in lanes
    )
    assert all(result.relative is not None for result in results)
    wanted = [run_id for result in results for run_id in result.run_ids]
    assert len(set(wanted)) == len(wanted)
    records = store.records(wanted)
    comparisons = {record.comparison_id for record in records}
    assert sum(len(store.load(comparison).runs) for comparison in comparisons) == len(wanted)
    assert store.count() == len(comparisons)


def planned(url: str) -> tuple[str, Plan]:
    with RunStore(url) as store:
        (head,) = store.studies()
        return head.id, read_plan(store.study(head.id).plan)


def planned_and_run(url: str) -> tuple[str, Plan]:
    """The only study, which is done."""
    study, plan = planned(url)
    with RunStore(url) as store:
        check_complete(store, study, plan)
    return study, plan
