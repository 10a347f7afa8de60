"""The processes of ``accelerate launch``: rank of this one, and gathering of results."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

_MAX_WAIT = timedelta(weeks=52)  # one process may be slower than the others by hours


class Processes:
    """``rank`` of ``size``. ``device``: the device of this process: ``device`` for a single process, else assigned by accelerate."""

    def __init__(self, device: str) -> None:
        self.rank, self.size = 0, 1
        self.device = device
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self._join(device)

    def _join(self, device: str) -> None:
        from accelerate import Accelerator
        from accelerate.utils import InitProcessGroupKwargs

        self._accelerator = Accelerator(
            cpu=device == "cpu", kwargs_handlers=[InitProcessGroupKwargs(timeout=_MAX_WAIT)]
        )
        self.rank, self.size = self._accelerator.process_index, self._accelerator.num_processes
        place = self._accelerator.device
        self.device = "cpu" if place.type == "cpu" else str(place)  # accelerate numbers CPUs

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, concatenated."""
        if self.size == 1:
            return tensor
        gathered: Tensor = self._accelerator.gather(tensor)
        return gathered

    def gather_objects(self, value: Any, to: int) -> list[Any] | None:
        """The values of all processes in order, at process ``to``; None at the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.rank == to else None
        torch.distributed.gather_object(value, values, dst=to)
        return values

    def wait(self) -> None:
        """A barrier for all processes."""
        if self.size > 1:
            self._accelerator.wait_for_everyone()
