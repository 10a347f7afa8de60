"""Runs tasks of a study: their lanes alone, or those with the same drafter in a batch. It knows
models, not the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING

from evaluation.plan.lane import MOST_SEEDS
from evaluation.plan.plan import Plan
from evaluation.scoring.metrics import scores
from evaluation.study.batch import converse_together, without_times
from evaluation.study.engine import (
    LaneEngine,
    LaneRun,
    Talk,
    config_of,
    converse,
)
from evaluation.study.events import (
    LaneEnded,
    LaneProgress,
    LaneTraces,
    RunnerEvent,
    Stopped,
    TaskEnded,
)
from evaluation.study.placebo import placebo_of
from evaluation.study.result import (
    answer,
    refused,
    relative_of,
    result_of,
    without_shifts,
)
from mars_core.jobs import RUN_FAILURES, execution_order
from mars_core.rules.placebo import PLACEBO
from mars_core.types import DrafterConfig, RuleConfig, Status, StopReason, Trace

if TYPE_CHECKING:
    from mars_core.session import Session

WARM_UP_TOKENS = 8
CHUNK = 4  # times as many tasks are run together as are in the batch at once
MAX_TRACES = 1000  # of these tasks, which are in memory together


@dataclass(slots=True)
class Runner:
    """One pair of models, or the client of a server. ``batch``: the plan's, where ``engine`` is
    this process; else tasks are run alone. ``filled``: where sizes of batches are compared, runs
    are repeated, without results, so that a batch is full to the end."""

    plan: Plan
    session: Session | None  # None for a study on servers
    engine: LaneEngine
    batch: int = 1
    order: Callable[[int], list[int]] = execution_order
    filled: bool = False
    _warm: set[tuple[int, int]] = field(default_factory=set, init=False)  # lanes, with the slots
    _ran: dict[int, dict[int, tuple[Trace, ...]]] = field(default_factory=dict, init=False)

    @property
    def chunk(self) -> int:
        return chunk_of(self.plan, self.batch)

    def run(self, tasks: Mapping[int, LaneTraces]) -> Generator[RunnerEvent, None, None]:
        """Runs the lanes that have no result yet; a lane whose runs were deleted has no traces.
        Closing it drops what is running. Raises Stopped."""
        self._ran = {
            task: {lane: traces for lane, traces in stored.items() if traces}
            for task, stored in tasks.items()
        }
        left = {task: len(self.plan.lanes) - len(stored) for task, stored in tasks.items()}
        for task in tasks:
            if not left[task]:
                yield self._task_ended(task)
        for slots, lanes in self._lots(tasks):
            yield from self._warm_up(lanes, slots)
            talks = map(self._talk, lanes)  # a placebo's after what it imitates has ended
            events: Generator[LaneProgress | Talk, None, None] = (
                converse(self.engine, talks) if slots == 1 else self._together(talks, slots)
            )
            with closing(events):
                for event in events:
                    if isinstance(event, LaneProgress):
                        yield event
                        continue
                    yield self._ended(event)
                    task = event.of.task
                    left[task] -= 1
                    if not left[task]:
                        yield self._task_ended(task)

    def _lots(self, tasks: Mapping[int, LaneTraces]) -> Iterator[tuple[int, Sequence[LaneRun]]]:
        """Lanes that run one after the other, or in so many slots of one batch; each task's in
        random order, but placebos after what they imitate."""
        groups = defaultdict[tuple[bool, int, DrafterConfig | int], list[LaneRun]](list)
        alone = self.plan.alone_tasks
        for task, stored in tasks.items():
            order = self.order(len(self.plan.lanes))
            positions = enumerate(sorted(order, key=self._imitates))
            lanes = [
                LaneRun(task, lane, position) for position, lane in positions if lane not in stored
            ]
            slots = 1 if task in alone else min(self.batch, self.plan.task(task).batch)
            if slots == 1:
                groups[False, 1, task] = lanes
                continue
            for lane in lanes:
                key = self._imitates(lane.lane), slots, self.plan.lanes[lane.lane].drafter
                groups[key].append(lane)
        lots = list(groups)
        for number in sorted(self.order(len(lots)), key=lambda number: lots[number][0]):
            yield lots[number][1], groups[lots[number]]

    def _imitates(self, lane: int) -> bool:
        return self.plan.lanes[lane].imitates is not None

    def _warm_up(self, lanes: Sequence[LaneRun], slots: int) -> Iterator[None]:
        """Kernels, caches and CUDA graphs exist before timed runs."""
        cold = {
            each.lane: each
            for each in lanes
            if (each.lane, slots) not in self._warm and not self._imitates(each.lane)
        }
        self._warm |= {(lane, slots) for lane in cold}
        plan = self.plan
        configs = [
            config_of(plan, self.session, plan.task(cold[lane].task), lane) for lane in sorted(cold)
        ]
        if slots == 1:
            for config in configs:
                self.engine.warm_up(config)
                yield None
        elif self.session and configs:
            short = [replace(config, max_new_tokens=WARM_UP_TOKENS) for config in configs]
            with suppress(*RUN_FAILURES):  # the run will raise it again
                for _ in self.session.together(islice(cycle(short), slots), slots):
                    yield None

    def _together(self, talks: Iterable[Talk], slots: int) -> Generator[Talk, None, None]:
        assert self.session is not None
        filled = self.filled or bool(self.plan.loads)
        return converse_together(self.session, talks, slots, filled=filled)

    def _rules(self, lane: LaneRun) -> tuple[RuleConfig, ...]:
        """Return the rules of the turns of a placebo; empty for other lanes. Raises ValueError
        where there are no runs to imitate."""
        from mars_core.engine.build import protected  # imported here because it loads transformers

        if not self._imitates(lane.lane):
            return ()
        plan, chosen = self.plan, self.plan.lanes[lane.lane]
        number = plan.imitated(lane.lane)
        if not (traces := self._completed(lane.task).get(number)):
            name = plan.lanes[number].name
            raise ValueError(f"{name} has no completed run here that could be imitated.")
        if chosen.rule.name != PLACEBO.name:
            raise ValueError(
                f"The lane {chosen.name} is a placebo with one probability, of an earlier version; "
                "only that version can run it."
            )
        assert self.session is not None
        ids = protected(self.session.pair, plan.processors.protect)
        seed = plan.seed_of(plan.task(lane.task)) % 2**32
        draw = seed * MOST_SEEDS + int(chosen.rule.parameters["draw"])
        return tuple(placebo_of(trace, chosen, draw, ids) for trace in traces)

    def _talk(self, lane: LaneRun) -> Talk:
        """Return the conversation of a lane; that of a placebo which relaxes nothing has ended: its
        text is the baseline's, whose runs are not stored again."""
        task = self.plan.task(lane.task)
        talk = Talk(lane, self.plan.item(task).turns)
        try:
            talk.rules = self._rules(lane)
            if talk.rules and not any(rule.parameters["relaxed"] for rule in talk.rules):
                talk.strict, talk.traces = True, self._strict(lane)
            else:
                first = talk.rules[0] if talk.rules else None
                talk.config = config_of(self.plan, self.session, task, lane.lane, first)
        except ValueError as error:
            talk.error = error
        return talk

    def _strict(self, lane: LaneRun) -> list[Trace]:
        """Return the runs of the baseline of a lane, without times."""
        baseline = self.plan.baseline(lane.lane)
        traces = None if baseline is None else self._completed(lane.task).get(baseline)
        if not traces:
            raise ValueError("Strict has no completed run here.")
        return list(map(without_times, traces))

    def _ended(self, talk: Talk) -> LaneEnded:
        lane, traces = talk.of, tuple(talk.traces)
        if talk.error:
            return LaneEnded(*lane, (), refused(talk.error))
        if not traces or traces[-1].status is Status.CANCELLED:
            raise Stopped(traces[-1].stop_reason if traces else StopReason.CANCELLED)
        plan, task = self.plan, self.plan.task(lane.task)
        texts = [answer(trace) for trace in traces]
        scored = (
            scores(plan.suites[task.suite], plan.item(task), texts, execute_code=plan.execute_code)
            if traces[-1].status is Status.COMPLETED
            else {}
        )
        self._ran[lane.task][lane.lane] = traces
        result = result_of(traces, scored, talk.seconds)
        if plan.lanes[lane.lane].scale < 1:  # its runs know the lower temperature alone
            result = without_shifts(result)
        if talk.strict:
            eligible = sum(float(rule.parameters["of"]) for rule in talk.rules)
            return LaneEnded(*lane, (), replace(result, due=0.0, eligible=eligible, batch=1))
        return LaneEnded(*lane, traces, result)

    def _completed(self, task: int) -> dict[int, tuple[Trace, ...]]:
        """Return the completed lanes of a task."""
        ran = self._ran[task].items()
        return {lane: each for lane, each in ran if each[-1].status is Status.COMPLETED}

    def _task_ended(self, task: int) -> TaskEnded:
        completed = self._completed(task)
        del self._ran[task]
        return TaskEnded(task, relatives_of(self.plan, completed))


def relatives_of(
    plan: Plan, completed: Mapping[int, Sequence[Trace]]
) -> dict[int, Mapping[str, object]]:
    """Return the values of all completed lanes of a task whose baseline is completed, relative to
    it."""
    none = None if plan.none is None else completed.get(plan.none)
    relatives = dict[int, Mapping[str, object]]()
    for lane, traces in completed.items():
        baseline = plan.baseline(lane)
        beside = traces if baseline is None else completed.get(baseline)
        if beside is not None:
            relatives[lane] = relative_of(traces, beside, none).as_dict()
    return relatives


def chunk_of(plan: Plan, batch: int) -> int:
    """Return how many tasks are run together."""
    in_memory, together = MAX_TRACES // len(plan.lanes), batch * (len(plan.loads) or 1)
    return 1 if batch == 1 else max(together, min(CHUNK * together, in_memory))
