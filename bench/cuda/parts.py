"""The parts of the measurement, most important first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bench.batches import compared, in_slots, together
from bench.common.decoding import COMPARED, DRAFTERS, Differences
from bench.common.report import Figures, MeasuredFigure
from bench.cuda.coupled import prompts
from bench.cuda.speed import beside, speed, telemetry
from bench.cuda.trial import CudaTrial
from mars_core.decoder import ANY_SHAPE


def texts(trial: CudaTrial) -> Figures:
    """Yield how often strict's text differs from the target's, and a continued run's from the
    original's: with exact passes, where chains, and with kernels trees, must never differ."""
    pair = trial.pair("qwen")
    for temperature in (0.0, 1.0):
        differences = Differences()
        methods = {name: trial.ours(pair, name, temperature) for name in DRAFTERS}
        for seed, prompt in enumerate(prompts(trial.size.texts)):
            differences.add(methods, prompt, seed, continued=methods, repeated="n-grams")
        passes = (
            "kernels" if pair.shapes.kernels else "exact passes" if pair.exact else "free passes"
        )
        where = f"T = {temperature:g}, {passes}"
        for name, method in methods.items():
            chain = method.drafter.tree is None
            most = 0.0 if pair.exact and (chain or pair.shapes.kernels) else None
            counts = {
                "strict is not none": differences.strict[name],
                "continued is not the rest of the text": differences.continued[name],
            }
            for title, count in counts.items():
                if name != "none" or not title.startswith("strict"):
                    of = f"of {differences.texts} texts"
                    yield MeasuredFigure(f"{title}: {name}, {where}", count, of, most=most)


def many(trial: CudaTrial) -> Figures:
    """Batches of several sizes."""
    pair, size = trial.pair("qwen"), trial.size
    work = prompts(size.slots[-1])
    for name in COMPARED:
        batched = in_slots(name, together(trial.ours(pair, name)), size.slots)
        yield from compared(batched, work, size.rounds, {})


class CudaPart(NamedTuple):
    measure: Callable[[CudaTrial], Figures]
    title: str


_GRAPHS = partial(beside, figure="graphs / eager", graphs=False, least=1.5)
_EXACT = partial(beside, figure="as loaded / free passes", shapes=ANY_SHAPE, inexact="any shape")
PARTS: dict[str, CudaPart] = {
    "qwen": CudaPart(partial(speed, key="qwen"), "Shapes of Qwen3-0.6B → 4B"),
    "batches": CudaPart(many, "Batches, 4B"),
    "graphs": CudaPart(_GRAPHS, "Captured steps beside eager ones, 4B"),
    "texts": CudaPart(texts, "Texts that are not the target's own, 4B"),
    "llama": CudaPart(partial(speed, key="llama"), "Shapes of Llama-3.2-1B → 3.1-8B"),
    "exactness": CudaPart(_EXACT, "Kernels or exact passes beside free ones, 4B"),
    "meter": CudaPart(telemetry, "What telemetry costs, 4B"),
}
