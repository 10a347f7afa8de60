"""``python -m bench.cuda``: what a step costs on a GPU beside the bytes it cannot but read, and our decoding beside two peers'.

The models are random, with the sizes of public ones and a coupling that makes drafts right as often as real ones are (``coupled``):
times are true, texts mean nothing. Ours run on models prepared as the project prepares what it loads, the peers on a second copy
as transformers makes it. With ``--tiny`` the same on a CPU in sizes for a test, where no number means anything.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from bench.coupled import PUBLIC, coupled_models, coupled_pair, prompts, tiny
from bench.machine import RESULTS, machine, stem
from bench.measure import Samples, interleaved, median_speed, overall_tau, paired, same_outputs, spread
from bench.methods import Decoded, Method
from bench.peers import assisted, looped, prompted
from mars_core.decoder import synchronise
from mars_core.models import Pair
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig, Sampling, Step

K = 5
THETAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
COPIES = 20
LOOP = "gpt-fast-style loop"
SPEED_GOALS = (("strict", "assisted", 2.5), ("strict", LOOP, 1.2))  # at temperature 0, at least
VERIFY_GOAL, STEP_GOAL = 1.15, 1.3  # times the floor, at most


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a strict step with K drafted tokens at temperature 0: medians, and the times in which its bytes could be read."""

    bandwidth: float  # bytes a second, of a large copy on the device, read and written
    target_bytes: int
    draft_bytes: int  # of all passes of a draft
    steps: int
    draft_s: float
    verify_s: float
    step_s: float

    @property
    def parts(self) -> Mapping[str, tuple[float, float]]:
        """Seconds, and the floor."""
        target, draft = self.target_bytes / self.bandwidth, self.draft_bytes / self.bandwidth
        both = self.step_s, target + draft
        return {"verify": (self.verify_s, target), "draft": (self.draft_s, draft), "step": both}


@dataclass(slots=True)
class Ours:
    """A method of ours, which keeps its steps, each with its whole time in seconds (but the first, which follows the prefill)."""

    pair: Pair
    rule: RuleConfig
    drafter: DrafterConfig
    temperature: float
    tokens: int
    steps: list[tuple[float, Step]] = field(default_factory=list)
    path: str | None = None  # how the target's pass runs, where the engine says so

    def __call__(self, prompt: PromptConfig, seed: int) -> Decoded:
        config = run_config(
            self.pair, prompt=prompt, rule=self.rule, drafter=self.drafter, sampling=Sampling(self.temperature),
            max_new_tokens=self.tokens, seed=seed,
        )  # fmt: skip
        run = Session(self.pair).start(config)
        steps = list(run)
        self.steps += [(step.elapsed_s - before.elapsed_s, step) for before, step in pairwise(steps)]
        if self.path is None:  # while warming up
            self.path = run.trace().config.environment.get("path", "not said")
        return Decoded(tuple(token.id for step in steps for token in step.emitted), len(steps))


def costs(method: Ours, bandwidth: float) -> Costs:
    """From the steps that ``method`` has taken with a whole draft."""
    whole = [(seconds, step) for seconds, step in method.steps if step.drafted == K]
    sizes = pass_bytes(method.pair.target), draft_bytes(method.pair)
    draft, verify = median(step.draft_s for _, step in whole), median(step.verify_s for _, step in whole)
    return Costs(bandwidth, *sizes, len(whole), draft, verify, median(seconds for seconds, _ in whole))


def pass_bytes(model: Any) -> int:
    """Of the weights that one pass reads: an embedding table is read a row a token, unless it is the output layer too."""
    table, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return sum(int(weight.nbytes) for weight in model.parameters()) - (0 if table is output else int(table.nbytes))


def draft_bytes(pair: Pair) -> int:
    """Of K passes of the drafter; a head reads the target's features once a step."""
    if pair.head is None:
        return K * pass_bytes(pair.draft)
    table, fusion = pair.head.embed_tokens.weight.nbytes, pair.head.fc.weight.nbytes
    return K * (sum(weight.nbytes for weight in pair.head.parameters()) - table - fusion) + fusion


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second, read and written, while a buffer of ``size`` bytes is copied on the device; the median of many copies."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    goal = torch.empty_like(source)
    times = []
    for _ in range(COPIES):
        synchronise(device)
        started = time.perf_counter()
        goal.copy_(source)
        synchronise(device)
        times.append(time.perf_counter() - started)
    return 2 * size / median(times)


def tables(pair: Pair, peers: Mapping[str, Method], tokens: int) -> Mapping[float, Mapping[str, Method]]:
    """The methods at each temperature, their baseline first."""
    chain = DrafterConfig("eagle3" if pair.head is not None else "model", k=K)
    strict = RuleConfig("strict")
    rules = {f"mars, θ = {theta:g}": RuleConfig("mars", {"theta": theta}) for theta in THETAS}
    greedy = {
        name: Ours(pair, strict, each, 0.0, tokens)
        for name, each in (("none", DrafterConfig("none")), ("strict", chain))
    }
    sampled = {name: Ours(pair, rule, chain, 1.0, tokens) for name, rule in {"strict": strict, **rules}.items()}
    return {0.0: {**greedy, **peers}, 1.0: sampled}


def measured(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Everything, as it is stored."""
    trio = tiny(PUBLIC[options.pair]) if options.tiny else PUBLIC[options.pair]
    dtype, size = (torch.float32, 2**22) if options.tiny else (torch.bfloat16, 2**31)
    pair, peers = coupled_pair(trio, options.noise, device, dtype), dict[str, Method]()
    if trio.draft is not None:
        target, draft = coupled_models(trio, options.noise, device, dtype)
        assert draft is not None
        for name, decoder in (("assisted", assisted(target, draft, K)), (LOOP, looped(target, draft, K))):
            peers[name] = prompted(decoder, pair.tokenizer, options.max_new_tokens)
    bandwidth = copy_bandwidth(device, size)
    methods = tables(pair, peers, options.max_new_tokens)
    samples = {at: interleaved(each, prompts(options.prompts), options.rounds) for at, each in methods.items()}
    strict = methods[0.0]["strict"]
    assert isinstance(strict, Ours)
    found = costs(strict, max(bandwidth, copy_bandwidth(device, size)))
    return {
        "machine": machine(device) | {"target's path": strict.path},
        **{name: value for name, value in vars(options).items() if name != "out"},
        "shapes": [shape.source for shape in trio if shape is not None],
        "costs": asdict(found) | {"parts": found.parts},
        "goals": goals(found, samples[0.0]),
        "tables": {f"{at:g}": _rows(each) for at, each in samples.items()},
        "same as strict": {name: same_outputs(samples[0.0], name, "strict") for name in samples[0.0]},
    }


def goals(found: Costs, samples: Samples) -> list[tuple[str, float, str, bool]]:
    """Name, measured, goal, reached."""
    rows = []
    for part, most in (("verify", VERIFY_GOAL), ("step", STEP_GOAL)):
        taken, floor = found.parts[part]
        rows.append((f"{part} / its floor", taken / floor, f"≤ {most:g}", taken <= most * floor))
    for method, baseline, least in SPEED_GOALS:
        if baseline in samples:
            measured = spread(paired(samples, method, baseline)).median
            rows.append((f"{method} / {baseline}", measured, f"≥ {least:g}", measured >= least))
    return rows


def _rows(samples: Samples) -> list[dict[str, Any]]:
    ratios = {name: asdict(spread(paired(samples, name, next(iter(samples))))) for name in samples}
    return [
        {"method": name, "tokens_per_s": median_speed(own), "tau": overall_tau(own), "speed": ratios[name]}
        for name, own in samples.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    device = torch.device("cpu" if options.tiny else options.device)
    if not options.tiny and not torch.cuda.is_available():
        sys.stderr.write("No CUDA device was found; --tiny tries this measurement on the CPU.\n")
        return 2
    said = sys.argv[1:] if arguments is None else arguments
    transformers_logging.set_verbosity_error()
    document = {"command": " ".join(["python -m bench.cuda", *said]), **measured(options, device)}
    text = report(document)
    sys.stdout.write(text)
    name = stem(options.out, f"cuda-{options.pair}{'-tiny' * options.tiny}", device.type)
    name.with_suffix(".md").write_text(text, encoding="utf-8")
    name.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cuda", description=__doc__)
    parser.add_argument("--pair", choices=tuple(PUBLIC), default="llama")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes on the CPU: a trial of this program")
    parser.add_argument("--noise", type=float, default=0.1, help="the larger, the less often a draft is right")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(arguments)


def report(document: Mapping[str, Any]) -> str:
    """As Markdown."""
    found, where = document["costs"], "a CPU: tiny shapes, no number means anything" if document["tiny"] else "a GPU"
    lines = [
        f"# Random models on {where}",
        "",
        f"- command: `{document['command']}`",
        *(f"- {name}: {value}" for name, value in document["machine"].items()),
        f"- sizes of {' and '.join(document['shapes'])}, noise {document['noise']:g}, K = {K}; a floor is the weights' bytes over"
        f" {found['bandwidth'] / 1e9:.0f} GB/s, at which a large copy on the device reads and writes",
        f"- medians of {found['steps']} strict steps at temperature 0; verify is target pass, rule, commit and transfer",
        "",
        "| part | ms | floor, ms | × |",
        "|---|---:|---:|---:|",
        *(f"| {part} | {1e3 * s:.3f} | {1e3 * low:.3f} | {s / low:.2f} |" for part, (s, low) in found["parts"].items()),
    ]
    lines += ["", "| goal | measured | wanted | reached |", "|---|---:|---:|---|"]
    lines += [f"| {name} | {x:.2f}× | {goal}× | {'yes' if ok else 'no'} |" for name, x, goal, ok in document["goals"]]
    for temperature, rows in document["tables"].items():
        lines += ["", f"## Temperature {temperature}", ""]
        lines += [f"| method | tokens/s | × {rows[0]['method']} (quartiles) | τ |", "|---|---:|---:|---:|"]
        lines += map(_row, rows)
    equal = [f"{name} {same} of {count}" for name, (same, count) in document["same as strict"].items()]
    ties = "bfloat16 logits of 16 to 32 are multiples of 1/8: texts may part at ties"
    lines += ["", f"Same tokens as strict at temperature 0: {', '.join(equal)} ({ties})."]
    return "\n".join(lines) + "\n"


def _row(row: Mapping[str, Any]) -> str:
    speed, tau = row["speed"], "–" if row["tau"] is None else f"{row['tau']:.2f}"
    ratio = f"{speed['median']:.2f}× ({speed['low']:.2f}–{speed['high']:.2f})"
    return f"| {row['method']} | {row['tokens_per_s']:.0f} | {ratio} | {tau} |"


if __name__ == "__main__":
    sys.exit(main())
