"""Runs in batches have the tokens of single runs, and say nothing of the time of a single run."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.item import Item, Suite
from evaluation.plan.lane import Lane
from evaluation.report.files import markdown_of, results_table
from evaluation.report.measure import measure
from evaluation.report.shapes import write_answers
from evaluation.study.batch import _taken, batch_of, decode
from evaluation.study.events import LaneEnded
from evaluation.study.result import read_result
from mars_core.session import Session
from mars_core.types import DrafterConfig, RuleConfig, RunConfig
from storage import RunStore
from storage.export import csv_text
from tests.unit.evaluation.study.working import (
    NONE,
    STRICT,
    check_complete,
    new_study,
    run_study,
    small_plan,
    worked,
)

NGRAM = Lane(RuleConfig("strict"), DrafterConfig("ngram", None, 4))


def _texts(store: RunStore, study_id: str) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    return {
        (row.task, row.lane): [store.traces(row.run_ids)[run].token_ids for run in row.run_ids]
        for row in store.results(study_id)
    }


def test_a_study_in_batches_has_the_tokens_of_single_runs(
    store: RunStore, session: Session, tmp_path: Any
) -> None:
    lanes, times = (NONE, STRICT, NGRAM), (0.0, 1.0)
    single = small_plan(session, lanes=lanes, temperatures=times, max_new_tokens=8)
    plan = replace(single, batch=3, alone=2)
    study = run_study(store, plan, session)
    check_complete(store, study, plan)
    assert _texts(store, study) == _texts(store, run_study(store, single, session))
    for row in store.results(study):
        result, alone = read_result(row.data), row.task in plan.alone_tasks
        assert result.batch == (1 if alone else 3)
        assert [math.isnan(each) for each in (result.wall_s, result.ttft_s)] == [not alone] * 2
        assert alone is math.isnan(result.batch_s) and not result.batch_s <= 0
        for trace in store.traces(row.run_ids).values():
            assert trace.config.environment.get("batch") == (None if alone else "3")
            times_of = [trace.summary.tokens_per_s, *(step.elapsed_s for step in trace.steps)]
            assert {math.isnan(each) for each in times_of} == {not alone}
    report = measure(store, study)
    assert [(row.temperature, row.load, row.lane) for row in report.loads] == [
        (temperature, 3, lane) for temperature in times for lane in plan.lanes
    ]
    assert sum(row.answers for row in report.loads) == (plan.tasks - 2) * len(lanes)
    assert all(row.tokens_per_s.value > 0 and math.isnan(row.ttft_s) for row in report.loads)
    text = markdown_of(report)
    assert "Tokens a second of a batch" in text
    assert "the 2 tasks whose runs were decoded alone" in text
    assert write_answers(store, study, tmp_path)


def test_times_are_those_of_the_tasks_that_ran_alone(store: RunStore, session: Session) -> None:
    for alone in (1, 0):
        plan = replace(small_plan(session, max_new_tokens=4), batch=2, alone=alone)
        report = measure(store, run_study(store, plan, session))
        (row, *_) = (row for row in report.measured if row.lane == 2 and row.group == "all")
        for speed in (row.tokens_per_s, row.speedup, row.speedup_strict, row.speedup_strict_mean):
            assert math.isnan(speed.value) is (not alone)
        assert row.runs == plan.tasks and row.tau.value >= 1


def test_every_task_is_decoded_in_a_batch_of_each_size(
    store: RunStore, session: Session, tmp_path: Path
) -> None:
    other = replace(STRICT, drafter=replace(STRICT.drafter, k=2))
    single = small_plan(session, lanes=(NONE, STRICT, other), max_new_tokens=8)
    plan = replace(single, batch=3, loads=(1, 3))
    study = new_study(store, plan)
    for saved in (4, None):  # it is stopped after some results, and goes on
        events = worked(store, study, plan, session)
        deque(islice((one for one in events if isinstance(one, LaneEnded)), saved), maxlen=0)
        events.close()
    check_complete(store, study, plan)
    texts = _texts(store, study)
    for (task, lane), ids in texts.items():
        assert ids == texts[task // 2 * 2, lane]  # of the run that was decoded alone
    report = measure(store, study)
    assert {row.runs for row in report.measured if row.group == "all"} == {single.tasks}
    assert [(row.load, row.lane, row.answers) for row in report.loads] == [
        (load, lane, single.tasks) for load in plan.loads for lane in plan.lanes
    ]
    for row in report.loads:
        assert math.isnan(row.over_none.value) is (row.lane == plan.lanes[0])
        assert math.isnan(row.latency_s) is (row.load == 3)
    rows = csv.DictReader(io.StringIO(csv_text(results_table(store, study))))
    assert [row["batch"] for row in rows] == (["1"] * 3 + ["3"] * 3) * single.tasks
    written = write_answers(store, study, tmp_path)
    answers = [json.loads(line) for path in written for line in path.read_text().splitlines()]
    assert {len(answer["choices"]) for answer in answers} == {1}
    text = markdown_of(report)
    assert "Batch of: 3" in text and "another text" not in text


def test_a_batch_whose_size_is_compared_is_full_until_its_last_run_has_ended() -> None:
    waiting, running = deque(SimpleNamespace(config=name) for name in "ab"), dict[int, Any]()
    taken = _taken(waiting, running, cycle("xy"))  # type: ignore[arg-type]
    assert [next(taken) for _ in range(5)] == [*"abxyx"] and [*running] == [0, 1]
    running.clear()
    assert next(taken, None) is None
    waiting.append(SimpleNamespace(config="c"))
    assert list(_taken(waiting, running, cycle(()))) == ["c"]  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 2])
def test_what_is_stopped_goes_on_and_what_cannot_be_started_fails(
    store: RunStore, session: Session, batch: int
) -> None:
    long = Suite("long", (Item("x", ("word " * 5000,)), Item("y", ("short",))))
    plan = replace(small_plan(session), suites=(long,), repeats=2, batch=batch)
    study = new_study(store, plan)
    for saved in (5, None):
        events = worked(store, study, plan, session)
        deque(islice((one for one in events if isinstance(one, LaneEnded)), saved), maxlen=0)
        events.close()
        assert saved in (None, store.study_progress(study).results)
    errors = {row.task: read_result(row.data).error for row in store.results(study)}
    for task, error in errors.items():
        assert ("context" in error) is (plan.item(plan.task(task)).id == "x")
    assert store.study_progress(study).done == plan.tasks
    assert store.reopen_failed(study) == 2


class _Rows:
    """A batch in which a step takes a second; a run has as many steps as its seed says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("evaluation.study.batch.time.perf_counter", lambda: self.now)

    def together(
        self, configs: Iterable[RunConfig], slots: int, *, began: Callable[[int, Any], None]
    ) -> Iterator[tuple[int, Any]]:
        numbered = enumerate(configs)
        rows = {}
        while True:
            for number, config in islice(numbered, slots - len(rows)):
                began(number, config)
                rows[number] = [config.seed, config]
            if not rows:
                return
            self.now += 1
            for number in list(rows):
                rows[number][0] -= 1
                if not rows[number][0]:
                    yield number, SimpleNamespace(trace=lambda: None)
                    del rows[number]


def test_the_time_of_a_step_is_divided_among_the_runs_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evaluation.study.batch.without_times", lambda trace: trace)
    rows = _Rows(monkeypatch)
    configs = [SimpleNamespace(seed=steps) for steps in (4, 1, 2, 3)]
    seconds = {}
    for number, _, each in decode(rows, configs, 2):  # type: ignore[arg-type]
        seconds[number] = each
        rows.now += 100  # what is done with a result is not the batch's
    assert seconds == {0: 2.0, 1: 0.5, 2: 1.0, 3: 0.5 + 2}


@pytest.mark.parametrize(
    ("text", "free", "slots"), [("auto", 10**12, 16), ("auto", 0, 1), ("7", 0, 7)]
)
def test_auto_is_what_the_memory_holds(
    session: Session, text: str, free: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mars_core.models.memory.free_bytes", lambda _: free)
    assert batch_of(text, session.pair, 100) == slots
