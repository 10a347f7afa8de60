"""The runs of a comparison, also those of servers, for the command line and the Python interface."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from evaluation.served.lane import with_servers
from mars_core.accelerators.perform import perform
from mars_core.jobs import Job, JobEvent
from mars_core.models import ModelPool


def all_runs(pool: ModelPool, job: Job, keys: Mapping[str, str]) -> Generator[JobEvent, None, None]:
    """Yield the events of a job; ``keys``: of servers."""
    return with_servers(job, keys, lambda own: perform(pool, own, lambda: False), lambda: False)
