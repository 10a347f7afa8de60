"""What the tests of studies share: a study whose tasks have been worked off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, select

from mars_core.types import Exchange, PromptConfig, Trace
from storage import Preferred, RunStore
from storage.schema import Base
from tests.traces import make_trace

DATA: Mapping[str, Any] = {
    "status": "completed",
    "tau": 2.5,
    "scores": {"exact_match,none": 1.0},
    "tv_max": "nan",
}


class OpenTask(NamedTuple):
    study_id: str
    task: int = 0
    worker: str = "w"


def begun(store: RunStore) -> OpenTask:
    """The task of a new study."""
    return OpenTask(store.new_study("", {}, 1))


def saved(
    store: RunStore,
    at: OpenTask,
    lane: int = 0,
    traces: Sequence[Trace] = (make_trace(new_tokens=1),),
    data: Mapping[str, Any] = DATA,
    **more: Any,
) -> tuple[str, ...]:
    """The runs of the saved result of a lane."""
    more = {"order": lane, "worker": at.worker, **more}
    return store.save_result(at.study_id, at.task, lane, traces, data, **more)


def worked_off(store: RunStore, study_id: str) -> OpenTask:
    """The next task, done in two lanes."""
    at = OpenTask(study_id, store.open_tasks(study_id)[0])
    for lane in range(2):
        saved(store, at, lane)
    store.finish_task(study_id, at.task, {n: {"same": True, "bleu": "nan"} for n in range(2)})
    return at


def conversation(rule: str, answers: tuple[str, ...]) -> list[Trace]:
    """One run a turn; each has the answers of its lane before it."""
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


def counts(store: RunStore) -> dict[str, int]:
    """Table → rows."""
    with store.read() as connection:
        return {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in Base.metadata.tables.items()
        }
