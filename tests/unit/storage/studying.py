"""What the tests of studies share: a study whose tasks have been worked off, a lease that has run
out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select, update

from mars_core.types import Exchange, PromptConfig, Trace
from storage import Claim, Preferred, RunStore
from storage.schema import Base, StudyTask
from tests.traces import make_trace

LEASE_S = 600.0
DATA: Mapping[str, Any] = {
    "status": "completed",
    "tau": 2.5,
    "scores": {"exact_match,none": 1.0},
    "tv_max": "nan",
}


def claimed(store: RunStore, study_id: str, worker: str = "w") -> Claim:
    claim = store.claim_task(study_id, worker, LEASE_S)
    assert claim is not None
    return claim


def begun(store: RunStore, tasks: int = 1) -> Claim:
    """The first task of a new study."""
    return claimed(store, store.new_study("", {}, tasks))


def saved(
    store: RunStore,
    claim: Claim,
    lane: int = 0,
    traces: Sequence[Trace] = (make_trace(new_tokens=1),),
    data: Mapping[str, Any] = DATA,
    **more: Any,
) -> tuple[str, ...]:
    """The runs of the saved result of a lane."""
    return store.save_result(claim, lane, traces, data, **{"order": lane, **more})


def worked_off(store: RunStore, study_id: str) -> Claim:
    """The next task, done in two lanes."""
    claim = claimed(store, study_id)
    for lane in range(2):
        saved(store, claim, lane)
    store.finish_task(claim, {lane: {"same": True, "bleu": "nan"} for lane in range(2)})
    return claim


def conversation(rule: str, answers: tuple[str, ...]) -> list[Trace]:
    """One run a turn; each has the answers of its own lane before it."""
    traces = []
    for turn in range(len(answers) + 1):
        history = tuple(Exchange(f"turn {number}", answers[number]) for number in range(turn))
        traces.append(
            make_trace(
                rule=rule, new_tokens=9, prompt=PromptConfig(f"turn {turn}", history=history)
            )
        )
    return traces


STRICT, MARS, NONE = (
    conversation(rule, (answer,))
    for rule, answer in (("strict", "a"), ("mars", "b"), ("none", "c"))
)  # of two turns


def judge(
    store: RunStore, study_id: str, task: int, lane: int, choice: Preferred, **more: Any
) -> None:
    values = {"swapped": False, "judge": "j", "choice": choice, **more}
    store.add_judgement(study_id, task, lane, **values)


def run_out(store: RunStore, claim: Claim) -> None:
    """Let the lease of a claim end."""
    task = update(StudyTask).filter_by(study_id=claim.study_id, task=claim.task)
    with store._write("not changed") as connection:
        connection.execute(task.values(claimed_until=datetime(2020, 1, 1, tzinfo=UTC)))


def counts(store: RunStore) -> dict[str, int]:
    """Table → rows."""
    with store.read() as connection:
        return {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in Base.metadata.tables.items()
        }
