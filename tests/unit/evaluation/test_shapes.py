"""A stored study as files of Spec-Bench: what its readers make of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.item import Item, Suite
from evaluation.plan.models import Models
from evaluation.plan.plan import Plan, Task
from evaluation.report.shapes import write_answers
from mars_core.types import (
    Exchange,
    ModelRef,
    PromptConfig,
    Status,
    StopReason,
    Trace,
)
from storage import RunStore
from tests.traces import make_trace
from tests.unit.evaluation import saved

SUMS = tuple(Item(f"{81 + at}", (f"{at} + 1?",), (f"{at + 1}",)) for at in range(3))
TALK = (
    Item("a/1", ("Hi", "And?"), category="writing"),
    Item("a/2", ("Grüße </script>",), category="roleplay"),
)
SUITES = (Suite("gsm8k", SUMS), Suite("talk", TALK))
MODELS = Models("bundled", ModelRef("some/where/target"), saved.MODEL.model)
PLAN = Plan("a study", MODELS, SUITES, saved.LANES, (0.0, 1.0), repeats=2)


def traces_of(number: int, lane: int) -> list[Trace]:
    """All turns of a task: prompts and lengths of their own; every first turn ends by a stop
    string."""
    task, rule = PLAN.task(number), "none" if lane == 0 else saved.LANES[lane].rule.name
    history: tuple[Exchange, ...] = ()
    traces = []
    for turn, text in enumerate(PLAN.item(task).turns):
        prompt = PromptConfig(text, stop=("##",), history=history)
        tokens = 11 + 3 * turn + task.item
        trace = make_trace(
            rule=rule, new_tokens=tokens, seed=number, temperature=task.temperature, prompt=prompt
        )
        if not turn:
            trace = replace(trace, text=f"{trace.text}##", stop_reason=StopReason.STOP_STRING)
        if (number, lane) == (0, 2):
            trace = replace(trace, status=Status.FAILED, error="Out of memory.")
        traces.append(trace)
        history = (*history, Exchange(text, trace.text))
    return traces


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunStore, str]]:
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('shapes')}/runs.db") as store:
        yield store, saved.save_study(store, PLAN, traces_of)


def of(paths: tuple[Path, ...], *words: str) -> Path:
    (path,) = (path for path in paths if all(word in str(path) for word in words))
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def answer_files(
    study: tuple[RunStore, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ...]:
    return write_answers(*study, tmp_path_factory.mktemp("answers"))


def test_spec_bench_reads_speed_and_lengths(answer_files: tuple[Path, ...]) -> None:
    """What its speed.py takes from a row, held against the traces."""
    path = of(answer_files, "gsm8k/", "mars_theta", "-1.")
    assert path.parent.name == "model_answer" and path.suffix == ".jsonl"
    rows = lines(path)
    assert [row["question_id"] for row in rows] == [81, 82, 83]
    for item, row in enumerate(rows):
        assert row["category"] == "gsm8k" and row["model_id"] == path.stem and row["tstamp"] > 0
        for repeat, choice in enumerate(row["choices"]):
            number = next(
                n for n in range(PLAN.tasks) if PLAN.task(n) == Task(0, item, repeat, 1.0)
            )
            (trace,) = traces_of(number, 2)
            assert choice["index"] == repeat and choice["turns"] == [trace.text.removesuffix("##")]
            assert choice["accept_lengths"] == [len(step.emitted) for step in trace.steps]
            assert (
                sum(choice["new_tokens"])
                == sum(choice["accept_lengths"])
                == trace.summary.new_tokens
            )
            assert choice["wall_time"] == [trace.summary.wall_s]
            assert choice["decoding_steps"] == [len(trace.steps)] == [choice["idxs"][0] + 1]


def test_every_turn_of_a_conversation_is_in_its_row(answer_files: tuple[Path, ...]) -> None:
    path = of(answer_files, "talk/", "none", "-0.")
    rows = lines(path)
    assert [(row["question_id"], row["category"]) for row in rows] == [
        ("a/1", "writing"),
        ("a/2", "roleplay"),
    ]
    choice = rows[0]["choices"][0]
    assert len(choice["turns"]) == len(choice["new_tokens"]) == len(choice["wall_time"]) == 2
    assert choice["accept_lengths"] == [1] * sum(choice["new_tokens"])  # decoded token by token


def test_answers_that_failed_or_were_deleted_are_left_out(
    study: tuple[RunStore, str], tmp_path: Path
) -> None:
    store, study_id = study
    number = next(n for n in range(PLAN.tasks) if PLAN.task(n) == Task(0, 1, 0, 1.0))
    (run_id,) = store.task_results(study_id, number)[2].run_ids
    (record,) = store.records([run_id])
    store.delete(record.comparison_id)
    try:
        written = write_answers(store, study_id, tmp_path)
    finally:
        store.restore(record.comparison_id)
    every = {(item, repeat) for item in range(len(SUMS)) for repeat in range(PLAN.repeats)}
    for name, missing in (("-0.", (0, 0)), ("-1.", (1, 0))):  # the first has failed
        rows = lines(of(written, "gsm8k/", "mars_theta", name))
        left = {(item, each["index"]) for item, row in enumerate(rows) for each in row["choices"]}
        assert left == every - {missing}
