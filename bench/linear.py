"""``python -m bench.linear``: packed linear layers beside the library's own, for the rows of decoding steps, with the bandwidth floor."""

from __future__ import annotations

import random
import sys
import time
from statistics import median

import torch
from torch import nn

from bench.machine import RESULTS, machine, stem
from bench.profile import read_bandwidth
from mars_core.decoder.linear import PackedLinear

SHAPES = ((512, 256), (1280, 256), (256, 640), (2048, 2048), (8192, 2048), (2048, 8192))  # out, in
ROWS = (1, 6, 25, 512)
COPIES, TURNS = 12, 15  # different matrices, so that none is in the nearest caches


def microseconds(out: int, width: int, rows: int) -> tuple[float, float]:
    """Median of one product: the library's, packed."""
    plain = [nn.Linear(width, out, bias=False).requires_grad_(False) for _ in range(COPIES)]
    packed = [PackedLinear(layer.weight, None) for layer in plain]
    x = torch.randn(1, rows, width)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for way in random.sample((0, 1), 2):
            started = time.perf_counter()
            for layer in (plain, packed)[way]:
                layer(x)
            times[way].append(1e6 * (time.perf_counter() - started) / COPIES)
    return median(times[0]), median(times[1])


def main() -> int:
    bandwidth = read_bandwidth(torch.device("cpu"), 1 << 28)
    lines = [
        "# Linear layers on a CPU, float32", "", "- command: `python -m bench.linear`",
        *(f"- {name}: {value}" for name, value in machine(torch.device("cpu")).items()),
        f"- floor: the bytes of the weight over {bandwidth / 1e9:.0f} GB/s", "",
        "| out × in | rows | library, µs | packed, µs | ratio | floor, µs |", "|---|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    with torch.inference_mode():
        for out, width in SHAPES:
            for rows in ROWS:
                plain, packed = microseconds(out, width, rows)
                floor = 4e6 * out * width / bandwidth
                lines.append(
                    f"| {out} × {width} | {rows} | {plain:.0f} | {packed:.0f} | {plain / packed:.2f}× | {floor:.0f} |"
                )
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    stem(RESULTS, "linear", "cpu").with_suffix(".md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
