"""Workers may be killed, stopped, overtaken or refused: in the end every lane of every task is
there once, as a single run would be."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict, deque
from collections.abc import Generator
from datetime import UTC, datetime
from statistics import fmean

import pytest

from evaluation.advise.certificate import Candidate, CandidateOutcome, certify
from evaluation.advise.conduct import in_sequence
from evaluation.advise.tuning import shuffled
from evaluation.item import Item, Suite
from evaluation.plan.lane import with_placebos
from evaluation.plan.purpose import Advice, Prediction
from evaluation.report.files import markdown_of
from evaluation.report.measure import measure
from evaluation.study.engine import InProcess, config_of
from evaluation.study.events import LaneEnded, LaneProgress
from evaluation.study.result import LaneResult, read_relative, read_result
from evaluation.study.runner import Runner
from evaluation.study.worker import LaneSaved, Work, Worker
from mars_core.session import Session
from mars_core.types import RunConfig, Status, Trace
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
    worker_of,
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


def test_a_placebo_imitates_the_run_of_its_task(store: RunStore, session: Session) -> None:
    """It runs after it, each turn with the number of that turn; where that is 0 it is strict's run,
    which is not stored again. Without a completed run to imitate it fails."""
    plan = small_plan(session, lanes=with_placebos((STRICT, MARS), 2), temperatures=(0.0,))
    study = new_study(store, plan)
    mars, placebos, always = 1, range(2, 6), 6
    orders = {1: [0], 7: [*placebos, always, mars, 0]}  # of tasks that run alone, of lanes
    events = worker_of(store, study, plan, session, order=orders.__getitem__).events()
    saved = [event for event in events if isinstance(event, LaneSaved)]
    check_complete(store, study, plan)
    decoded = 0
    for task in range(plan.tasks):
        lanes = {event.lane: event for event in saved if event.task == task}
        assert list(lanes) == [always, mars, 0, *placebos]
        due = [trace.summary.relaxed for trace in lanes[mars].traces]
        for number in placebos:
            result, traces = lanes[number].result, lanes[number].traces
            assert result.due == sum(due)
            if not any(due):
                assert traces == () and result.relaxed == 0 and math.isnan(result.wall_s)
                assert result.new_tokens == lanes[0].result.new_tokens
                continue
            decoded += 1
            rules = [trace.config.rule for trace in traces]
            assert {rule.name for rule in rules} == {"placebo"}
            assert [rule.parameters["relaxed"] for rule in rules] == due
            assert {rule.parameters["best"] for rule in rules} == {plan.lanes[number].best}
            assert all(
                trace.summary.relaxed <= most for trace, most in zip(traces, due, strict=True)
            )
            assert result.relaxed == sum(trace.summary.relaxed for trace in traces)
        assert all(trace.summary.rejected == 0 for trace in lanes[always].traces)
    assert decoded
    rows = {(row.task, row.lane): read_relative(row.relative or {}) for row in store.results(study)}
    for event in saved:
        if event.lane in placebos and not event.traces:
            assert rows[event.task, event.lane].same
    for batch in (1, 2):  # its runs have been deleted
        stored = {0: (), mars: (), always: (), **dict.fromkeys(placebos[1:], ())}
        events = Runner(plan, session, InProcess(session), batch).run({0: stored})
        (ended,) = (event for event in events if isinstance(event, LaneEnded))
        assert ended.lane == placebos[0]
        assert "mars(theta=0.5) has no completed run here" in ended.result.error


def test_a_report_says_how_closely_placebos_imitate_their_rule(
    store: RunStore, session: Session
) -> None:
    """As many tokens of each text, less what was due where the text ended first."""
    plan = small_plan(session, lanes=with_placebos((STRICT, MARS), 2), temperatures=(0.0,))
    study = run_study(store, plan, session)
    report, results = measure(store, study), defaultdict[int, list[LaneResult]](list)
    for row in store.results(study):
        results[row.lane].append(read_result(row.data))
    for row in (each for each in report.placebos if each.group == "all"):
        ranked = row.among == "the two best"
        draws = [results[lane] for lane in plan.placebos(row.lane, ranked=ranked)]
        for rule, *drawn in zip(results[row.lane], *draws, strict=True):
            assert {each.due for each in drawn} == {rule.relaxed}
            assert all(0 <= each.relaxed <= rule.relaxed for each in drawn)
        every = [each for draw in draws for each in draw]
        assert row.rule_relaxed == pytest.approx(fmean(each.relaxed for each in results[1]))
        assert row.relaxed == pytest.approx(fmean(each.relaxed for each in every))
        assert row.shortfall == pytest.approx(fmean(each.due - each.relaxed for each in every))
        assert 0 <= row.same <= 1
    assert [row.among for row in report.placebos[-2:]] == ["all", "the two best"]
    assert "Random relaxation of as many tokens" in markdown_of(report)


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
    events = Worker(work, runner, deque(range(plan.tasks))).events()
    first: list[int] = []
    for event in events:
        if isinstance(event, LaneSaved):
            break
        first += [event.tokens] if isinstance(event, LaneProgress) else []
    assert first == sorted(first) and first[-1] == event.result.new_tokens
    deque(events)
    assert calls[:3] == [("warm-up", name) for name in ("none", "strict", "mars")]
    assert {kind for kind, _ in calls[3:]} == {"run"}


def test_every_lane_is_reported_and_compared_as_soon_as_it_can_be(
    store: RunStore, session: Session
) -> None:
    plan = small_plan(session, lanes=(STRICT, MARS))
    study = new_study(store, plan)
    saved = []
    for event in worker_of(store, study, plan, session, _in_order).events():
        if isinstance(event, LaneSaved):
            saved.append((event.task, event.lane))
            if saved == [(0, 0), (0, 1)]:  # the task is not done
                strict, mars = store.results(study)
                assert strict.relative is not None and mars.relative is not None
                assert strict.comparison_ids == mars.comparison_ids != ()
    assert saved == [(task, lane) for task in range(plan.tasks) for lane in (0, 1)]


@pytest.mark.parametrize("turn", [0, 1])
def test_a_lane_that_lost_a_turn_is_no_baseline_any_more(
    store: RunStore, session: Session, turn: int
) -> None:
    plan = small_plan(session, lanes=(STRICT, MARS), suites=small_plan(session).suites[1:])
    study = new_study(store, plan)
    events = worker_of(store, study, plan, session, _in_order).events()
    next(event for event in events if isinstance(event, LaneSaved))
    events.close()
    store.delete(store.task_results(study, 0)[0].comparison_ids[turn])
    store.purge(datetime.now(UTC))
    deque(worker_of(store, study, plan, session, _in_order).events())
    strict, mars = store.results(study)
    assert strict.relative is not None and mars.relative is None
    assert len(mars.run_ids) == 2


def test_a_lane_that_another_worker_saved_meanwhile_is_not_written_twice(
    store: RunStore, session: Session
) -> None:
    plan = small_plan(session)
    study = new_study(store, plan)
    events = worker_of(store, study, plan, session).events()
    next(event for event in events if isinstance(event, LaneSaved))
    deque(worker_of(store, study, plan, session).events(), maxlen=0)
    assert not any(isinstance(event, LaneSaved) and event.task == 0 for event in events)
    check_complete(store, study, plan)


def test_workers_killed_at_random_leave_nothing_lost_and_nothing_twice(
    url: str, session: Session
) -> None:
    """On PostgreSQL: tests/unit/storage/test_workers.py."""
    chance = random.Random(7)
    plan = small_plan(
        session, repeats=6
    )  # more than the workers can do before the last of them is killed
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

    def work(study: str) -> Candidate:
        for wave in in_sequence(Work(store, study), plan, session, InProcess(session)):
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
