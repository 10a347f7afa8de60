"""The worker processes of a study: rank from the launcher, names, detection of dead workers,
progress."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass

import psutil
from tqdm import tqdm

from storage import RunStore, StudyProgress, WorkerProgress


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """The rank of this process among those started together. ``local``: its rank on this
    machine."""

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        return self.rank == 0


def process_rank() -> ProcessRank:
    """The rank from the environment variables of torch's launchers; without a launcher the first of
    one."""
    rank, world, local = (
        int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    )
    return ProcessRank(rank, max(world, 1), local)


def share(process_rank: ProcessRank, word: str) -> str:
    """Broadcasts the first process's ``word``. Every process of the launch must call it."""
    if process_rank.world == 1:
        return word
    import torch
    from accelerate import PartialState
    from accelerate.utils import broadcast_object_list

    state = PartialState(cpu=not torch.cuda.is_available())
    words = [word]
    broadcast_object_list(words, from_process=0)
    # workers are independent from here on: one that dies must not stop the others
    state.destroy_process_group()
    return str(words[0])


def device_of(local: int, processes: int, device: str) -> str:
    """The device of process ``local``: with several processes and GPUs, one GPU each in turn."""
    import torch

    if device not in ("auto", "cuda") or processes == 1 or not torch.cuda.is_available():
        return device
    return f"cuda:{local % torch.cuda.device_count()}"


def own_name() -> str:
    """``machine:process:start``: the start distinguishes a process from a later one with the same
    number."""
    return _name(psutil.Process())


def free_dead(store: RunStore, study_id: str) -> int:
    """Releases the tasks of dead processes of this machine; returns their number. Claims of other
    machines expire."""
    holders = {claim.worker for claim in store.claims(study_id)}
    return sum(store.release_worker(study_id, worker) for worker in holders if _dead(worker))


def _dead(worker: str) -> bool:
    machine, _, process = worker.rpartition(":")[0].rpartition(":")
    if machine != platform.node() or not process.isdecimal():
        return False
    try:
        running = psutil.Process(int(process))
        return _name(running) != worker or running.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _name(process: psutil.Process) -> str:
    return f"{platform.node()}:{process.pid}:{process.create_time():.0f}"


def progress_line(progress: StudyProgress, lanes: int, before: int, seconds: float) -> str:
    """The tasks that are done, tqdm's meter of results with rate and remaining time, and the rates
    of the workers.

    ``before``: number of results when this session began, ``seconds`` ago.
    """
    rates = [
        f"{rate(worker):.3g}/s"
        for worker in progress.workers
        if worker.claimed and worker.results > 1
    ]
    line: str = tqdm.format_meter(
        progress.results,
        progress.tasks * lanes,
        seconds,
        initial=before,
        unit=" results",
        prefix=f"{progress.done:,}/{progress.tasks:,} tasks",
        postfix=f"workers: {', '.join(rates)}" if rates else None,
    )
    return line


def rate(worker: WorkerProgress) -> float:
    """Results per second of one worker, from its first to its last; nan for fewer than two."""
    if worker.first_at is None or worker.last_at is None or worker.results < 2:
        return math.nan
    seconds = (worker.last_at - worker.first_at).total_seconds()
    return (worker.results - 1) / seconds if seconds > 0 else math.nan
