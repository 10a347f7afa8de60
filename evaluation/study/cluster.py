"""A study on a Ray cluster: processes with one pair of models each, which Ray schedules on GPUs or
cores. Results are committed by this process as they come."""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import ray
from ray.exceptions import RayError, RayTaskError

from evaluation.plan.plan import Plan, read_plan
from evaluation.study.dispatch import LOSSES, CallReport, dispatch
from evaluation.study.engine import InProcess
from evaluation.study.events import LaneEnded, LaneTraces, TaskEnded
from evaluation.study.launch import local_runner, open_session, threads_of
from evaluation.study.runner import chunk_of
from evaluation.study.worker import Work, WorkerEvent, process_name

if TYPE_CHECKING:
    from mars_core.models import PairSpec

LOCAL = "local"  # the address of a new cluster on this machine
CALLS = 2  # that a process has at once, so that it does not wait for the next one
WAIT_S = 1.0
LOOK_S = 5.0  # between two looks for nodes that came


class Process:
    """One process of the cluster."""

    def open(self, options: argparse.Namespace, plan: Mapping[str, Any], spec: PairSpec) -> str:
        """Loads the models; returns the name of the process. Raises ModelError, ValueError."""
        session = open_session(options, spec)
        self.runner = local_runner(read_plan(plan), session, InProcess(session))
        return process_name()

    def run(self, tasks: Mapping[int, LaneTraces]) -> Iterator[LaneEnded | TaskEnded]:
        for event in self.runner.run(tasks):
            if isinstance(event, LaneEnded | TaskEnded):
                yield event


@dataclass(eq=False, slots=True)
class _Handle:
    """``opened``: the name of the process, once its models are loaded."""

    actor: Any
    opened: Any
    name: str = ""
    calls: set[int] = field(default_factory=set)


class Cluster:
    """The processes of a study. Use it as a context manager."""

    def __init__(self, options: argparse.Namespace, plan: Plan, spec: PairSpec) -> None:
        threads = threads_of(options)
        arguments = {"include_dashboard": False} if options.ray == LOCAL else {}
        ray.init(options.ray, log_to_driver=False, logging_level="ERROR", **arguments)
        self._gpus = options.device != "cpu" and any(_resources("GPU"))
        self._threads: int = threads or min(filter(None, _resources("CPU")), default=1)
        here = argparse.Namespace(**vars(options) | {"threads": self._threads})
        self.plan, self._opening = plan, (here, plan.as_dict(), spec)
        self._handles: list[_Handle] = []
        self._unopened = 0  # processes that were lost before they had their models
        self._streams: dict[Any, tuple[int, _Handle]] = {}  # the results of a call
        self._looked_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()

    def events(self, work: Work) -> Generator[WorkerEvent, None, None]:
        """Works until no task is left. Raises as ``dispatch``, and what a process raises."""
        tasks = work.store.open_tasks(work.study_id)
        return dispatch(work, self, tasks, chunk_of(self.plan, self.plan.batch))

    def room(self) -> int:
        self._look()
        return sum(CALLS - len(handle.calls) for handle in self._handles if handle.name)

    def start(self, call: int, tasks: Mapping[int, LaneTraces]) -> None:
        opened = (handle for handle in self._handles if handle.name)
        handle = min(opened, key=lambda each: len(each.calls))
        stream = handle.actor.run.options(num_returns="streaming").remote(tasks)
        self._streams[stream] = call, handle
        handle.calls.add(call)

    def reports(self) -> Iterator[CallReport]:
        streams = list(self._streams)
        if not streams:
            time.sleep(WAIT_S / 10)
            return
        ray.wait(streams, num_returns=1, timeout=WAIT_S)
        ready, _ = ray.wait(streams, num_returns=len(streams), timeout=0)
        for stream in ready:
            if stream not in self._streams:  # it was lost with its process
                continue
            call, handle = self._streams[stream]
            try:
                yield CallReport(call, handle.name, ray.get(next(stream)))
            except StopIteration:
                del self._streams[stream]
                handle.calls.remove(call)
                yield CallReport(call, handle.name, None)
            except RayTaskError as error:
                raise error.cause from None
            except RayError as error:
                yield from self._lost(handle, error)

    def _lost(self, handle: _Handle, error: RayError) -> Iterator[CallReport]:
        self._handles.remove(handle)
        ray.kill(handle.actor)
        self._streams = {
            stream: each for stream, each in self._streams.items() if each[1] is not handle
        }
        for call in handle.calls:
            yield CallReport(call, handle.name, None, lost=_first_line(error))

    def _look(self) -> None:
        """Starts processes for what is free in the cluster, and polls those that were started."""
        for handle in [each for each in self._handles if not each.name]:
            if ray.wait([handle.opened], timeout=0)[0]:
                try:
                    handle.name = ray.get(handle.opened)
                except RayTaskError as error:
                    raise error.cause from None
                except RayError as error:
                    self._handles.remove(handle)
                    self._unopened += 1
                    if self._unopened == LOSSES:
                        raise ChildProcessError(
                            f"{LOSSES} processes were lost while they loaded the models: "
                            f"{_first_line(error)}"
                        ) from None
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        each = {"num_gpus": 1} if self._gpus else {"num_cpus": self._threads}
        per_node = _resources("GPU") if self._gpus else _resources("CPU")
        free = sum(number // (1 if self._gpus else self._threads) for number in per_node)
        for _ in range(free - len(self._handles)):
            actor = ray.remote(Process).options(scheduling_strategy="SPREAD", **each).remote()
            self._handles.append(_Handle(actor, actor.open.remote(*self._opening)))


def _resources(name: str) -> list[int]:
    """Return those of each node of the cluster."""
    return [int(node["Resources"].get(name, 0)) for node in ray.nodes() if node["Alive"]]


def _first_line(error: RayError) -> str:
    return str(error).partition("\n")[0]
