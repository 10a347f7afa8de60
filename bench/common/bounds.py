"""The lower bound of a pass: the bytes that it must read over the bandwidth of the memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from mars_core.decoder import synchronise


def weight_bytes(model: Any) -> int:
    """Of the weights that a pass of a model or a head reads: an embedding table is read one row a token, unless the output layer
    shares it."""
    weights = [*model.parameters(), *(each for name, each in model.named_buffers() if name.endswith("packed"))]
    table = model.embed_tokens if hasattr(model, "embed_tokens") else model.get_input_embeddings()
    output = model.lm_head if hasattr(model, "lm_head") else model.get_output_embeddings()
    unread = 0 if getattr(output, "weight", None) is table.weight else int(table.weight.nbytes)
    return sum(int(each.nbytes) for each in weights if not each.is_meta) - unread


def bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second: on a CPU a buffer of ``size`` bytes is read, on CUDA it is copied (read and written)."""
    source = torch.ones(max(1, size // 4), device=device)
    if device.type != "cuda":
        return source.nbytes / timed(source.sum, device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / timed(lambda: target.copy_(source), device)


def timed(work: Callable[[], object], device: torch.device, repeats: int = 50) -> float:
    """Seconds, the median of ``repeats`` calls."""
    return median(seconds(work, device) for _ in range(repeats))


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of one call, until the device has done it."""
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started
