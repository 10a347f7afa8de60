"""Attention of few rows over grouped key heads: query heads folded into rows beside ``enable_gqa``, to choose between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import torch
from torch import Tensor

from bench.common.report import Figure
from bench.cuda.trial import Trial
from mars_core.decoder import synchronise
from mars_core.decoder.layer import Heads, _attend
from mars_core.engine import capture

ROWS = (16, 64)
WIDTHS = (512, 2048, 8192)
LAYERS = 8  # each with keys and values of its own, so that they come from memory as in a model
REPEATS = 30


@torch.inference_mode()
def attention(trial: Trial) -> Iterator[Figure]:
    for width in (64, 128) if trial.tiny else WIDTHS:
        for rows in ROWS:
            folded, grouped = (_seconds(trial, rows, width, fold=fold) for fold in (True, False))
            note = f"{1e6 * folded:.1f} µs folded, {1e6 * grouped:.1f} µs with enable_gqa"
            yield Figure(f"folded / enable_gqa, {rows} rows, width {width}", folded / grouped, "×", note)


def _seconds(trial: Trial, rows: int, width: int, *, fold: bool) -> float:
    """Of one layer's attention in a replayed graph. What ``_attend`` does follows from the rows of the mask."""
    heads = Heads(8, 2, 16, 0.25) if trial.tiny else Heads(32, 8, 128, 128**-0.5)
    source = torch.Generator(trial.device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=source, device=trial.device, dtype=trial.dtype)

    queries = normal(1, rows, heads.query, heads.size)
    stored = normal(LAYERS, 2, 1, heads.key, width, heads.size)
    seen = torch.ones(rows, width, dtype=torch.bool, device=trial.device).tril(width - rows)
    mask = torch.where(seen, 0.0, torch.finfo(trial.dtype).min).to(trial.dtype)
    if fold:
        mask = mask.repeat_interleave(heads.query // heads.key, 0)
    captured = capture.Captured(
        lambda: [_attend(queries, keys, values, mask, heads) for keys, values in stored], trial.device
    )
    times = []
    for _ in range(REPEATS):
        synchronise(trial.device)
        started = time.perf_counter()
        captured.replay()
        synchronise(trial.device)
        times.append((time.perf_counter() - started) / LAYERS)
    return median(times)
