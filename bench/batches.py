"""``python -m bench.batches``: how many tokens a second batches of several sizes write, and whether
they write what single runs write; transformers' generation too, and on the bundled pair vLLM's.

Run it with OMP_NUM_THREADS=1 beside other work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import torch

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import COMPARED, DRAFTERS, Ours, loaded, prompts_for
from bench.common.measure import Decoded, interleaved, median_speed, ratio
from bench.common.peers import VLLM, Ids, Prompts, folder, generation, opened, vllm_batches
from bench.common.report import BenchReport, Figures, MeasuredFigure
from mars_core.models import Pair
from mars_core.session import Session

Writer = Callable[[Prompts, int], list[Ids]]  # prompts, slots → texts
SLOTS = (1, 4, 8, 16)
# tokens a second beside single runs, of the bundled pair and of the real one
GOALS = {
    "none: 8 slots": (4.0, 4.0),
    "draft model: 8 slots": (3.0, 2.2),
    "EAGLE-3 tree: 8 slots": (2.5, 2.5),
}
VLLM_SLOTS, VLLM_GOAL = 16, 1.2  # tokens a second beside vLLM's


@dataclass(slots=True)
class Batched:
    """A writer with a number of slots. ``texts``: those of the last call."""

    write: Writer
    slots: int
    texts: list[Ids] = field(default_factory=list)

    def __call__(self, prompts: Prompts, _seed: int) -> Decoded:
        self.texts = self.write(prompts, self.slots)
        return Decoded(tuple(chain(*self.texts)), 0)


def in_slots(name: str, write: Writer, slots: Sequence[int]) -> dict[str, Batched]:
    """Return a writer with each number of slots, the first of which is 1."""
    return {f"{name}: {each} slots": Batched(write, each) for each in slots}


def compared(
    batched: Mapping[str, Batched],
    prompts: Prompts,
    rounds: int,
    goals: Mapping[str, float],
    baseline: str = " / single runs",
) -> Figures:
    """Yield tokens a second relative to those of the first, the ``baseline``, in random order in
    every round."""
    for each in batched.values():
        each(prompts[: each.slots], 0)  # kernels, caches and CUDA graphs exist before timed runs
    samples = interleaved(batched, [prompts], rounds, warm_up=0)
    first = next(iter(batched))
    for name, each in batched.items():
        differ = sum(a != b for a, b in zip(each.texts, batched[first].texts, strict=True))
        note = (
            f"{median_speed(samples[name]):.0f} tokens/s; {differ} of {len(prompts)} texts differ"
        )
        beside, least = ratio(samples, name, first).median, goals.get(name)
        yield MeasuredFigure(f"{name}{baseline}", beside, "×", note, least=least)


def together(method: Ours) -> Writer:
    def write(prompts: Prompts, slots: int) -> list[Ids]:
        configs = [method.config(prompt, seed) for seed, prompt in enumerate(prompts)]
        runs = Session(method.pair).together(configs, slots, telemetry=method.telemetry)
        written = {at: run.trace().token_ids for at, run in runs}
        return [written[at] for at in range(len(written))]

    return write


def generated(pair: Pair, new: int) -> Writer:
    """Return transformers' generation, on the model as it loads it in float32: each batch is as
    long as its longest text."""
    decode = generation(opened(pair.spec.target, torch.float32), pair.tokenizer, new)

    def write(prompts: Prompts, slots: int) -> list[Ids]:
        parts = (decode(prompts[at : at + slots]) for at in range(0, len(prompts), slots))
        return [*chain(*parts)]

    return write


def beside_vllm(name: str, ours: Ours, prompts: Prompts, rounds: int) -> MeasuredFigure:
    """Return the figures of batches of VLLM_SLOTS."""
    spec, drafter = ours.pair.spec, ours.drafter
    draft = folder(spec.draft) if spec.draft and drafter.kind == "model" else ""
    with vllm_batches(ours.pair, draft, drafter.k, VLLM_SLOTS, ours.tokens) as decode:
        writers: dict[str, Writer] = {
            "vLLM": lambda prompts, _slots: decode(prompts),
            (title := f"{name}: {VLLM_SLOTS} slots, ours"): together(ours),
        }
        batched = {name: Batched(write, VLLM_SLOTS) for name, write in writers.items()}
        _, figure = compared(batched, prompts, rounds, {title: VLLM_GOAL}, " / vLLM's")
    return figure


@measurement(
    "bench.batches",
    __doc__,
    pair=("bundled", "real"),
    prompts=16,
    rounds=3,
    max_new_tokens=64,
    dtype="auto",
)
def main(options: Options) -> Reports:
    pair = loaded(options.pair, device="cpu", dtype=options.dtype)
    tokens = options.max_new_tokens
    prompts, is_bundled = prompts_for(options.pair, options.prompts), options.pair == "bundled"
    ours = {
        name: Ours(pair, "", DRAFTERS[name], 0.0, tokens)
        for name in COMPARED
        if pair.draft or DRAFTERS[name].kind != "model"
    }
    writers = {name: together(method) for name, method in ours.items()}
    writers["transformers generate, float32"] = generated(pair, tokens)
    goals = {name: both[not is_bundled] for name, both in GOALS.items()}
    figures = list[MeasuredFigure]()
    for name, write in writers.items():
        figures += compared(in_slots(name, write, SLOTS), prompts, options.rounds, goals)
    if is_bundled and VLLM.exists():
        figures += [beside_vllm(name, ours[name], prompts, options.rounds) for name in COMPARED[:2]]
    note = "tokens per second of all texts together, prompts included; ratios of each round"
    title = f"batches-{options.pair}" + ("" if options.dtype == "auto" else f"-{options.dtype}")
    yield BenchReport("Batches", [note], figures, device=pair.device, name=title)


if __name__ == "__main__":
    raise SystemExit(main())
