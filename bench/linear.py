"""``python -m bench.linear``: packed linear layers compared with torch's, for the rows of decoding steps, with the lower bound."""

from __future__ import annotations

import random
import time
from argparse import Namespace
from statistics import median

import torch
from torch import nn

from bench.common.bounds import bandwidth
from bench.common.command import CPU, measurement
from bench.common.report import Report, Table
from mars_core.decoder.linear import PackedLinear

SHAPES = ((512, 256), (1280, 256), (256, 640), (2048, 2048), (8192, 2048), (2048, 8192))  # out, in
ROWS = (1, 6, 25, 512)
COPIES = 12  # different matrices, so that none stays in the CPU caches


def microseconds(out: int, width: int, rows: int, turns: int) -> tuple[float, float]:
    """Median of one product: torch's, packed."""
    plain = [nn.Linear(width, out, bias=False).requires_grad_(False) for _ in range(COPIES)]
    packed = [PackedLinear(layer.weight, None) for layer in plain]
    x = torch.randn(1, rows, width)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for way in random.sample((0, 1), 2):
            started = time.perf_counter()
            for layer in (plain, packed)[way]:
                layer(x)
            times[way].append(1e6 * (time.perf_counter() - started) / COPIES)
    return median(times[0]), median(times[1])


@measurement("linear", turns=15)
@torch.inference_mode()
def main(options: Namespace) -> Report:
    bytes_a_s, rows = bandwidth(CPU, 1 << 28), []
    for out, width in SHAPES:
        for count in ROWS:
            plain, packed = microseconds(out, width, count, options.turns)
            bound = 4e6 * out * width / bytes_a_s
            rows.append((f"{out} × {width}", count, plain, packed, f"{plain / packed:.2f}×", bound))
    table = Table(("out × in", "rows", "torch, µs", "packed, µs", "ratio", "lower bound, µs"), rows)
    notes = [f"lower bound: the bytes of the weight over {bytes_a_s / 1e9:.0f} GB/s"]
    data = {"heads": table.heads, "rows": rows}
    return Report("Linear layers on a CPU, float32", notes, tables=[table], data=data)
