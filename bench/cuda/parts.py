"""The parts of the measurement in the order of their worth: each is a process of its own, with a limit of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from bench.common.report import Figure
from bench.cuda.attention import attention
from bench.cuda.speed import speed
from bench.cuda.suite import tests
from bench.cuda.switches import exactness, graphs, meter
from bench.cuda.texts import texts
from bench.cuda.trial import Trial
from bench.cuda.upkeep import loading, memory


class Part(NamedTuple):
    measure: Callable[[Trial], Iterator[Figure]]
    limit_s: float
    title: str


PARTS: Mapping[str, Part] = {
    "tests": Part(tests, 150, "Tests marked cuda"),
    "qwen": Part(partial(speed, key="qwen"), 75, "Shapes of Qwen3-0.6B → 4B"),
    "graphs": Part(graphs, 50, "Captured steps beside eager ones, 4B"),
    "texts": Part(texts, 60, "Texts that are not the target's own, 4B"),
    "llama": Part(partial(speed, key="llama"), 90, "Shapes of Llama-3.2-1B → 3.1-8B"),
    "memory": Part(memory, 45, "Memory after 50 runs, 4B"),
    "exactness": Part(exactness, 45, "What exact passes cost, 4B"),
    "attention": Part(attention, 30, "Attention of few rows: 32 query and 8 key heads of 128"),
    "meter": Part(meter, 45, "What telemetry costs, 4B"),
    "loading": Part(loading, 45, "Loading from disk"),
}
