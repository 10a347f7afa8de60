"""The processes that work on one study: what a launcher says about this one, how it is named, which of them are dead, their pace."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import deque
from dataclasses import dataclass

import psutil

from evaluation.format import about
from storage import RunStore, StudyProgress, WorkerProgress

WINDOW = 120  # looks at the count of results from which the pace is taken


@dataclass(frozen=True, slots=True)
class Place:
    """This process among those started together. ``local``: its number on this machine."""

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0


def place() -> Place:
    """From the environment that torch's launchers set; a process that was started alone is the first of one."""
    rank, world, local = (int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return Place(rank, max(world, 1), local)


def share(place: Place, word: str) -> str:
    """The first process's ``word``, in every process. Every process of the launch must call it."""
    if place.world == 1:
        return word
    import torch
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    state = PartialState(cpu=not torch.cuda.is_available())
    words = [word]
    broadcast_object_list(words, from_process=0)
    state.destroy_process_group()  # from here on every worker stands alone: one that dies must not stop the others
    return str(words[0])


def device_of(local: int, processes: int, asked: str) -> str:
    """The device of process ``local``: where there are several and GPUs, one each in turn."""
    import torch

    if asked not in ("auto", "cuda") or processes == 1 or not torch.cuda.is_available():
        return asked
    return f"cuda:{local % torch.cuda.device_count()}"


def own_name() -> str:
    """``machine:process:start``: the start distinguishes a process from a later one with the same number."""
    return _name(psutil.Process())


def free_dead(store: RunStore, study_id: str) -> int:
    """Give back the tasks of dead processes of this machine; how many. Those of other machines come back when their claim expires."""
    holders = {claim.worker for claim in store.claims(study_id)}
    return sum(store.release_worker(study_id, worker) for worker in holders if _dead(worker))


def _dead(worker: str) -> bool:
    machine, _, process = worker.rpartition(":")[0].rpartition(":")
    if machine != platform.node() or not process.isdecimal():
        return False
    try:
        found = psutil.Process(int(process))
        return _name(found) != worker or found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _name(process: psutil.Process) -> str:
    return f"{platform.node()}:{process.pid}:{process.create_time():.0f}"


class Pace:
    """The pace of this session: results a second over the last looks, whatever happened before a pause."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)

    def line(self, progress: StudyProgress, lanes: int) -> str:
        """For people: ``312/1,800 tasks · 6,552 results · 8.1 results/s · about 27 min to go · 2 workers: 4.0, 4.1/s``."""
        self._seen.append((time.monotonic(), progress.results))
        pace = self.results_a_second
        parts = [f"{progress.done:,}/{progress.tasks:,} tasks", f"{progress.results:,} results"]
        if pace > 0:
            parts.append(f"{pace:.3g} results/s")
            parts.append(f"{about((progress.tasks * lanes - progress.results) / pace)} to go")
        active = [worker for worker in progress.workers if worker.claimed and worker.results > 1]
        rates = ", ".join(f"{rate(worker):.3g}" for worker in active)
        if active:
            parts.append(f"{len(active)} worker{'s' * (len(active) > 1)}" + (f": {rates}/s" if rates else ""))
        return " · ".join(parts)

    @property
    def results_a_second(self) -> float:
        """Results a second; nan before there are two looks."""
        if len(self._seen) < 2:
            return math.nan
        (start, before), (now, count) = self._seen[0], self._seen[-1]
        return (count - before) / (now - start) if now > start else math.nan


def rate(worker: WorkerProgress) -> float:
    """Results a second of one worker, from its first to its last; nan before there are two."""
    if worker.first_at is None or worker.last_at is None or worker.results < 2:
        return math.nan
    seconds = (worker.last_at - worker.first_at).total_seconds()
    return (worker.results - 1) / seconds if seconds > 0 else math.nan
