"""A study on a Ray cluster: processes with one pair of models each, which Ray schedules on GPUs or
cores. Results are committed by this process as they come."""

from __future__ import annotations

import argparse
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import ray
from ray.exceptions import RayError, RayTaskError

from evaluation.plan.plan import Plan, read_plan
from evaluation.study.engine import InProcess
from evaluation.study.events import LaneEnded, LaneTraces, TaskEnded
from evaluation.study.launch import local_runner, open_session, threads_of
from evaluation.study.runner import chunk_of
from evaluation.study.worker import Work, WorkerEvent, process_name, taken

if TYPE_CHECKING:
    from mars_core.models import PairSpec

LOCAL = "local"  # the address of a new cluster on this machine
WAIT_S = 1.0
LOOK_S = 5.0  # between two looks for nodes that came
LOSSES = 3  # of processes with the same task, or while they load models, after which a study stops


class Process:
    """One process of the cluster. Its methods are generators, whose results come one by one."""

    def open(
        self, options: argparse.Namespace, plan: Mapping[str, Any], spec: PairSpec
    ) -> Iterator[None]:
        """Loads the models. Raises ModelError, ValueError."""
        session = open_session(options, spec)
        self.runner = local_runner(read_plan(plan), session, InProcess(session))
        yield from ()

    def run(self, tasks: Mapping[int, LaneTraces]) -> Iterator[tuple[LaneEnded | TaskEnded, str]]:
        """Yields results with the name of this process."""
        for event in self.runner.run(tasks):
            if isinstance(event, LaneEnded | TaskEnded):
                yield event, process_name()


class _Call(NamedTuple):
    """What a process does: ``tasks`` that have not ended; none while it loads the models."""

    process: Any
    tasks: list[int]


class Cluster:
    """The processes of a study. Use it as a context manager."""

    def __init__(self, options: argparse.Namespace, plan: Plan, spec: PairSpec) -> None:
        threads = threads_of(options)
        arguments = {"include_dashboard": False} if options.ray == LOCAL else {}
        ray.init(options.ray, log_to_driver=False, logging_level="ERROR", **arguments)
        self._gpus = options.device != "cpu" and any(_resources("GPU"))
        self._threads: int = threads or min(filter(None, _resources("CPU")), default=1)
        here = argparse.Namespace(**vars(options) | {"threads": self._threads})
        self._opening = here, plan.as_dict(), spec
        self._chunk = chunk_of(plan, plan.batch)
        self._idle: list[Any] = []
        self._calls: dict[Any, _Call] = {}  # by the stream of its results
        self._looked_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()

    def events(self, work: Work) -> Generator[WorkerEvent, None, None]:
        """Works until no task is left. Tasks of a process that is lost run again without what has
        been committed. Raises StorageError, what a process raises, and ChildProcessError after
        LOSSES."""
        left, losses = deque(work.store.open_tasks(work.study_id)), Counter[str]()
        while left or any(call.tasks for call in self._calls.values()):
            self._start_processes()
            while left and self._idle:
                tasks, process = taken(left, self._chunk), self._idle.pop()
                self._call(process, process.run, tasks, {task: work.traces(task) for task in tasks})
            work.go_on()
            yield None
            for stream in self._ready():
                call = self._calls[stream]
                try:
                    event, worker = ray.get(next(stream))
                except StopIteration:
                    del self._calls[stream]
                    self._idle.append(call.process)
                except RayTaskError as error:
                    raise error.cause from None
                except RayError as error:
                    del self._calls[stream]
                    ray.kill(call.process)
                    left.extendleft(reversed(call.tasks))
                    lost = f"with task {call.tasks[0]}" if call.tasks else "while it loaded models"
                    losses[lost] += 1
                    if losses[lost] == LOSSES:
                        why = str(error).partition("\n")[0]
                        raise ChildProcessError(
                            f"A process was lost {lost} {LOSSES} times: {why}"
                        ) from None
                else:
                    yield work.commit(event, worker)
                    if isinstance(event, TaskEnded):
                        call.tasks.remove(event.task)

    def _call(self, process: Any, method: Any, tasks: list[int], *arguments: Any) -> None:
        stream = method.options(num_returns="streaming").remote(*arguments)
        self._calls[stream] = _Call(process, tasks)

    def _ready(self) -> list[Any]:
        """Return the streams that have a result or an end, after a second at most."""
        streams = list(self._calls)
        if not streams:
            time.sleep(WAIT_S / 10)
            return []
        ray.wait(streams, num_returns=1, timeout=WAIT_S)
        ready: list[Any] = ray.wait(streams, num_returns=len(streams), timeout=0)[0]
        return ready

    def _start_processes(self) -> None:
        """Start processes for what is free in the cluster."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        each = {"num_gpus": 1} if self._gpus else {"num_cpus": self._threads}
        per_node = _resources("GPU") if self._gpus else _resources("CPU")
        free = sum(number // (1 if self._gpus else self._threads) for number in per_node)
        for _ in range(free - len(self._idle) - len(self._calls)):
            process = ray.remote(Process).options(scheduling_strategy="SPREAD", **each).remote()
            self._call(process, process.open, [], *self._opening)


def _resources(name: str) -> list[int]:
    """Return those of each node of the cluster."""
    return [int(node["Resources"].get(name, 0)) for node in ray.nodes() if node["Alive"]]
