"""Workers may be killed, stopped, overtaken or refused: in the end every lane of every task is
there once, as a single run would be."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from evaluation.advise.certificate import Candidate, CandidateOutcome, certify
from evaluation.advise.conduct import in_sequence
from evaluation.advise.tuning import shuffled
from evaluation.item import Item, Suite
from evaluation.plan.lane import with_placebos
from evaluation.plan.purpose import Advice, Prediction
from evaluation.study.engine import InProcess, config_of
from evaluation.study.events import LaneEnded, LaneProgress
from evaluation.study.result import read_relative, read_result
from evaluation.study.runner import Runner
from evaluation.study.worker import Work
from mars_core.session import Session
from mars_core.types import RuleConfig, RunConfig, Status, Trace
from storage import RunStore
from tests.unit.children import Child
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.study.working import (
    MARS,
    STRICT,
    check_complete,
    new_study,
    run_study,
    small_plan,
    work_on,
    worked,
)


def _in_order(lanes: int) -> list[int]:
    return list(range(lanes))


def test_a_study_runs_to_its_end_and_says_what_single_runs_say(
    store: RunStore, session: Session
) -> None:
    plan = small_plan(session, temperatures=(0.0, 1.0))
    study = run_study(store, plan, session)
    check_complete(store, study, plan)
    for stored in store.results(study):
        task = plan.task(stored.task)
        result, relative = read_result(stored.data), read_relative(stored.relative or {})
        assert result.status is Status.COMPLETED
        run = session.start(config_of(plan, session, task, stored.lane))
        for _ in run:
            pass
        first, *others = store.records(stored.run_ids)
        assert first.text == run.trace().text
        for second in others:  # it knows the lane's first answer
            loaded = next(
                run for run in store.load(second.comparison_id).runs if run.id == second.id
            )
            (turn,) = loaded.trace.config.prompt.history
            expect(turn, user="Hello there", answer=first.text)
        assert result.turns == len(stored.run_ids) == len(plan.item(task).turns)
        assert result.new_tokens == sum(
            record.summary.new_tokens for record in store.records(stored.run_ids)
        )
        assert result.steps == sum(record.summary.steps for record in store.records(stored.run_ids))
        if (
            plan.lanes[stored.lane].rule.name == "strict"
        ):  # the text of strict is that of the target alone
            expect(relative, same=True, same_as_none=True, divergence=None)
        else:
            assert relative.same == (relative.divergence is None)


def test_every_lane_is_warmed_up_before_the_first_run_and_says_how_far_it_is(
    store: RunStore, session: Session
) -> None:
    plan = small_plan(session)
    calls: list[tuple[str, str]] = []

    class Noted(InProcess):
        def warm_up(self, config: RunConfig) -> None:
            calls.append(("warm-up", config.rule.name))

        def run(self, config: RunConfig) -> Generator[int, None, Trace | None]:
            calls.append(("run", config.rule.name))
            return (yield from InProcess.run(self, config))

    runner = Runner(plan, session, Noted(session))
    work = Work(store, new_study(store, plan))
    events = work.run(runner, deque(range(plan.tasks)))
    first: list[int] = []
    for event in events:
        if isinstance(event, LaneEnded):
            break
        first += [event.tokens] if isinstance(event, LaneProgress) else []
    assert first == sorted(first) and first[-1] == event.result.new_tokens
    deque(events)
    assert calls[:3] == [("warm-up", name) for name in ("none", "strict", "mars")]
    assert {kind for kind, _ in calls[3:]} == {"run"}


@pytest.mark.parametrize("turn", [0, 1])
def test_a_lane_that_lost_a_turn_is_no_baseline_any_more(
    store: RunStore, session: Session, turn: int
) -> None:
    plan = small_plan(session, lanes=(STRICT, MARS), suites=small_plan(session).suites[1:])
    study = new_study(store, plan)
    events = worked(store, study, plan, session, _in_order)
    next(event for event in events if isinstance(event, LaneEnded))
    events.close()
    store.delete(store.task_results(study, 0)[0].comparison_ids[turn])
    store.purge(datetime.now(UTC))
    deque(worked(store, study, plan, session, _in_order))
    strict, mars = store.results(study)
    assert strict.relative is mars.relative is None
    assert len(mars.run_ids) == 2


def test_a_placebo_that_relaxes_nothing_is_compared_where_its_task_goes_on_later(
    store: RunStore, session: Session
) -> None:
    never = replace(MARS, rule=RuleConfig("mars", {"theta": 1.0}))
    plan = small_plan(session, lanes=with_placebos((STRICT, never), 1))
    study = new_study(store, plan)
    events = worked(store, study, plan, session)
    next(event for event in events if isinstance(event, LaneEnded) and not event.traces)
    events.close()
    assert any(result.relative is None for result in store.results(study))
    deque(worked(store, study, plan, session), maxlen=0)
    check_complete(store, study, plan)


def test_a_lane_that_another_worker_saved_meanwhile_is_not_written_twice(
    store: RunStore, session: Session
) -> None:
    plan = small_plan(session)
    study = new_study(store, plan)
    events = worked(store, study, plan, session)
    next(event for event in events if isinstance(event, LaneEnded))
    deque(worked(store, study, plan, session), maxlen=0)
    assert not any(isinstance(event, LaneEnded) and event.task == 0 for event in events)
    check_complete(store, study, plan)


@pytest.mark.parametrize("database", ["url", "postgres_url"])
def test_workers_killed_at_random_leave_nothing_lost_and_nothing_twice(
    database: str, session: Session, request: pytest.FixtureRequest
) -> None:
    chance, url = random.Random(7), request.getfixturevalue(database)
    # more than the workers can do before the last of them is killed
    plan = small_plan(session, repeats=6)
    with RunStore(url) as store:
        study = new_study(store, plan)
    results = 0
    for _ in range(2):
        workers = [Child(work_on, url, study, session) for _ in range(2)]
        with RunStore(url) as store:
            while store.study_progress(study).results <= results:
                assert any(worker.process.is_alive() for worker in workers)
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.08))
            for worker in workers:
                worker.kill()
            results = store.study_progress(study).results
    assert 0 < results < plan.tasks * len(plan.lanes)
    workers = [Child(work_on, url, study, session) for _ in range(2)]
    assert [(worker.rest(), worker.process.exitcode) for worker in workers] == [([], 0)] * 2
    with RunStore(url) as store:
        check_complete(store, study, plan)


def test_a_candidate_is_decided_after_the_same_prompts_wherever_the_study_stopped(
    store: RunStore, session: Session
) -> None:
    """No prompt has a score above 0, so the test is given up once the others are not enough."""
    items = tuple(Item(str(n), (f"{n} + 1?",), ("never said",)) for n in range(20))
    plan = small_plan(
        session,
        suites=(Suite("sums", items, metrics=("contains,none",)),),
        lanes=(STRICT, MARS),
        margin=0.5,
        max_new_tokens=1,
        advice=Advice(0.1, ("mars",), 4, 2.0, (Prediction(0.1, 2.1, 0.1),)),
    )
    whole, stopped = (new_study(store, plan) for _ in range(2))

    runner = Runner(plan, session, InProcess(session))

    def work(study: str) -> Candidate:
        for wave in in_sequence(Work(store, study), runner):
            for events in wave:
                deque(events, maxlen=0)
        (candidate,) = certify(plan, store.results(study)).candidates
        return candidate

    one = work(whole)
    assert one.outcome is CandidateOutcome.NOT_DECIDED and one.done == 16
    for task in shuffled(plan)[:7]:
        for lane, result in store.task_results(whole, task).items():
            store.save_result(stopped, task, lane, (), result.data, order=lane, worker="")
    assert work(stopped) == one
    compared = [result.relative for result in store.results(stopped) if result.run_ids]
    assert compared and None not in compared
