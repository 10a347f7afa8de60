"""A large study made quickly: some tasks run by a worker, the others copied within the database. Knows no measurement."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, insert, literal, select, update
from sqlalchemy.orm import DeclarativeBase

from evaluation.scoring.names import CONTAINS
from evaluation.study.engine import InProcess
from evaluation.study.plan import Lane, Models, Plan
from evaluation.study.worker import Saved, Worker
from evaluation.suites.item import Item, Suite
from mars_core.models import PairSpec
from mars_core.session import Session
from mars_core.types import DrafterConfig, RuleConfig
from storage import RunStore
from storage.database import WRITING, clock, open_database, parse_url
from storage.records import new_id
from storage.schema import Comparison, Run, Step, Token
from storage.study_schema import StudyResult, StudyTask

THETAS = (0.84, 0.9, 0.96)
DRAFTER = DrafterConfig("model", k=5)
LANES = (
    Lane(RuleConfig("none"), DrafterConfig("none")),
    Lane(RuleConfig("strict"), DRAFTER),
    *(Lane(RuleConfig("mars", {"theta": theta}), DRAFTER) for theta in THETAS),
)
TEMPERATURES, REPEATS = (0.0, 1.0), 2
TASKS_A_WRITE = 20


def plan_of(pair: PairSpec, tasks: int, tokens: int) -> Plan:
    """``tasks``, rounded down to whole items; all lanes of each."""
    rng = random.Random(0)
    words = [f"t{number}" for number in range(1, 100)]
    items = tasks // (len(TEMPERATURES) * REPEATS)
    suite = Suite(
        "synthetic",
        tuple(Item(str(number), (" ".join(rng.choices(words, k=8)),), (rng.choice(words),)) for number in range(items)),
        metrics=(CONTAINS,),
    )
    models = Models(pair.key, pair.target, pair.draft, pair.head)
    return Plan(
        "scale", models, (suite,), LANES, TEMPERATURES, REPEATS, max_new_tokens=tokens, chat=False
    )  # fmt: skip


def run_tasks(store: RunStore, study_id: str, plan: Plan, session: Session, tasks: int) -> None:
    """Run the first ``tasks``, and no more."""
    worker = Worker(store, study_id, plan, session, InProcess(session), "bench")
    with closing(worker.events()) as events:
        for event in events:
            if not isinstance(event, Saved) and store.study_progress(study_id).done == tasks:
                return


def copy_tasks(url: str, study_id: str, done: int, tasks: int) -> None:
    """Make tasks ``done`` to ``tasks`` copies of those before them."""
    engine = open_database(parse_url(url))
    rng = random.Random(1)
    with engine.connect().execution_options(**{WRITING: True}) as connection:
        if engine.dialect.name == "sqlite":
            connection.connection.cursor().execute("PRAGMA synchronous = OFF")
        for start in range(done, tasks, TASKS_A_WRITE):
            with connection.begin():
                for task in range(start, min(start + TASKS_A_WRITE, tasks)):
                    _copy_task(connection, study_id, task % done, task, rng)
    engine.dispose()


def _copy_task(connection: Connection, study_id: str, source: int, task: int, rng: random.Random) -> None:
    comparison_id = new_id()
    here = StudyTask.study_id == study_id
    (old,) = connection.execute(select(StudyTask.comparison_ids).where(here, StudyTask.task == source)).scalar_one()
    _copy(connection, Comparison, "id", old, {"id": comparison_id, "created_at": clock(connection)})
    found = select(StudyResult.__table__).where(StudyResult.study_id == study_id, StudyResult.task == source)
    for row in connection.execute(found).mappings().all():
        run_id = new_id()
        _copy(connection, Run, "id", row["run_ids"][0], {"id": run_id, "comparison_id": comparison_id})
        for table in (Step, Token):
            _copy(connection, table, "run_id", row["run_ids"][0], {"run_id": run_id})
        connection.execute(
            insert(StudyResult), dict(row) | {"task": task, "run_ids": [run_id]} | _varied(dict(row), rng)
        )
    ended = {"done_at": clock(connection), "comparison_ids": [comparison_id]}
    connection.execute(update(StudyTask).where(here, StudyTask.task == task).values(ended))


def _copy(connection: Connection, table: type[DeclarativeBase], key: str, old: str, new: Mapping[str, Any]) -> None:
    """The rows whose ``key`` is ``old``, with the values of ``new`` in place of their own."""
    columns = table.__table__.c
    values = [literal(new[column.name], column.type) if column.name in new else column for column in columns]
    rows = select(*values).where(columns[key] == old)
    connection.execute(insert(table).from_select([column.name for column in columns], rows))


def _varied(row: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Times, scores and agreement as different as those of other prompts would be."""
    data, relative = dict(row["data"]), dict(row["relative"])
    for name in ("wall_s", "draft_s", "verify_s"):
        data[name] *= rng.uniform(0.8, 1.25)
    data["scores"] = {name: float(rng.random() < 0.7) for name in data["scores"]}
    relative |= {name: rng.random() for name in ("bleu", "chrf", "rouge_l")}
    return {"data": data, "relative": relative}
