"""The lower bound of the time of a pass: the bytes that it must read / memory bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from mars_core.decoder import synchronise


def weight_bytes(model: Any) -> int:
    """Bytes of the weights read by a pass of a model or a head: of an embedding table one row per
    token, unless the output layer shares it."""
    weights = [
        *model.parameters(),
        *(each for name, each in model.named_buffers() if name.endswith("packed")),
    ]
    table = model.embed_tokens if hasattr(model, "embed_tokens") else model.get_input_embeddings()
    output = model.lm_head if hasattr(model, "lm_head") else model.get_output_embeddings()
    unread = 0 if getattr(output, "weight", None) is table.weight else int(table.weight.nbytes)
    return sum(int(each.nbytes) for each in weights if not each.is_meta) - unread


def bandwidth(device: torch.device, size: int) -> float:
    """Bytes per second: on a CPU a buffer of ``size`` bytes is read, on CUDA it is copied (read and
    written)."""
    source = torch.ones(max(1, size // 4), device=device)
    if device.type != "cuda":
        return source.nbytes / timed(source.sum, device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / timed(lambda: target.copy_(source), device)


def timed(work: Callable[[], object], device: torch.device, repeats: int = 50) -> float:
    """Median seconds of ``repeats`` calls."""
    return median(seconds(work, device) for _ in range(repeats))


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, including the device's work."""
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started
