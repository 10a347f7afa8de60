"""A page whose runs can be interrupted on any machine: where a prompt contains ``slowly`` a run
takes ``STEP_S`` a step, or until it is stopped; where it contains ``endlessly`` the engine's thread
computes and never looks. ``python -m tests.slow_runs`` is ``python app.py`` with such runs.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from mars_core.accelerators import Local
from mars_core.jobs import Job, JobEvent, Stop

WORD, ENDLESS = "slowly", "endlessly"
STEP_S = 0.2


@dataclass(frozen=True, slots=True)
class SlowStop:
    """Looked at once a step; each look takes ``STEP_S`` unless a stop is requested meanwhile."""

    stop: Stop

    def requested(self) -> bool:
        ends = time.monotonic() + STEP_S
        while not (requested := self.stop.requested()) and time.monotonic() < ends:
            time.sleep(0.01)
        return requested


def _compute_endlessly() -> None:
    vars(sys.modules["__main__"])["GRACE_S"] = 1.0  # of app.py: nothing else is left to be done
    os.write(1, b"computing endlessly\n")  # whatever the log keeps of what is printed
    while True:
        pass


class SlowLocal(Local):
    """``Local``, slow for jobs whose prompt requests it."""

    def run(self, job: Job, stop: Stop) -> Generator[JobEvent, None, None]:
        if any(ENDLESS in config.prompt.text for config in job.configs):
            self._engine.submit(_compute_endlessly)
        slow = any(WORD in config.prompt.text for config in job.configs)
        return super().run(job, SlowStop(stop) if slow else stop)


if __name__ == "__main__":
    import mars_core.accelerators

    mars_core.accelerators.Local = SlowLocal  # type: ignore[misc]
    del sys.argv[1:]  # the port, which PORT says too
    runpy.run_path(str(Path(__file__).parents[1] / "app.py"), run_name="__main__")
