"""Several processes on one study, as ``accelerate launch`` starts them: who plans, who reports, and on which device. Knows no models."""

from __future__ import annotations

import os
from dataclasses import dataclass


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
    """The first process's word, told to all. Every process of the launch must call it."""
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
