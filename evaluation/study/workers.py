"""Who works on a study: names that tell machine and process, so that the tasks of a dead process can be taken back at once."""

from __future__ import annotations

import platform

import psutil

from storage import RunStore


def own_name() -> str:
    """``machine:process:start``: the start tells a process from a later one with the same number."""
    return _name(psutil.Process())


def free_dead(store: RunStore, study_id: str) -> int:
    """Give back what dead processes of this machine held; how many tasks. Those of other machines come back when their claim runs out."""
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
