"""The processes of ``accelerate launch``: rank of this one, and gathering of results."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
from lm_eval.api.model import TemplateLM

_MAX_WAIT = timedelta(weeks=52)  # one process may be slower than the others by hours


class Distributed(TemplateLM):  # type: ignore[misc]  # lm-eval ships no types
    """A model of lm-eval, one per process. A single process uses lm-eval's own methods, which gather nothing."""

    def join(self, device: str) -> str:
        """Joins the launched processes, if there are several. The device of this process: ``device``, or assigned by accelerate."""
        if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
            return device
        from accelerate import Accelerator
        from accelerate.utils import InitProcessGroupKwargs

        group = InitProcessGroupKwargs(timeout=_MAX_WAIT)
        accelerator = Accelerator(cpu=device == "cpu", kwargs_handlers=[group])
        self._rank, self._world_size = accelerator.process_index, accelerator.num_processes
        if self.world_size > 1:
            self.all_gather, self.barrier = accelerator.gather, accelerator.wait_for_everyone
        place = accelerator.device
        return "cpu" if place.type == "cpu" else str(place)  # accelerate numbers CPUs

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """The values of all processes in order, at process ``dst``; None at the others."""
        if self.world_size == 1:
            return [obj]
        values: list[Any] | None = [None] * self.world_size if self.rank == dst else None
        torch.distributed.gather_object(obj, values, dst=dst)
        return values
