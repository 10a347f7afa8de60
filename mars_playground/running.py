"""The runs of a comparison, also those of servers, for the command line and the Python interface."""

from __future__ import annotations

import os
from collections.abc import Generator

from evaluation.served.lane import with_servers
from evaluation.served.request import KEY
from mars_core.accelerators.perform import perform
from mars_core.jobs import Job, JobEvent
from mars_core.models import ModelPool


def all_runs(pool: ModelPool, job: Job) -> Generator[JobEvent, None, None]:
    """Yield the events of a job; a server is given the key of the environment."""
    key = os.environ.get(KEY, "")
    return with_servers(job, key, lambda own: perform(pool, own, lambda: False), lambda: False)
