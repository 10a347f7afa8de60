"""``python -m bench.growth``: time per token and peak memory against context, K, tree size and vocabulary, with exponents.

The pairs are random Llamas of width 256 made for this: the draft model is the target's first layer, the target's other layers add
little to it, and the EAGLE-3 head computes the first layer from the token alone; so drafts are kept often, not always.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bench.growth_report import Curve, Sample, report, svg
from bench.machine import RESULTS, machine, stem
from bench.memory import peak_above
from mars_core.models import ModelPool, Pair, PairSpec, custom_pair
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig, Sampling, Summary, TreeShape

WIDTH, INNER, LAYERS, HEADS = 256, 768, 4, 4
CONTEXT = 8448  # tokens: the longest prompt and what is written after it
LATER = 0.05  # scale of what the layers after the first add
ATTENTION = 0.5  # scale of what attention adds in the first layer
SHARPNESS = 4.0  # standard deviation of the logits: the head is sure enough to draft deep trees
FOCUS = 1.5  # of the head's queries and keys: an entry attends to its own token
VOCABULARY, PROMPT = 4096, 128  # tokens, where they do not vary
PAIRS = f"""random Llamas, width {WIDTH}, {LAYERS} layers; {VOCABULARY} tokens of vocabulary and prompts of {PROMPT} tokens where these
  do not vary; rule strict, temperature 0; the draft model is the target's first layer, the other layers add little"""


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    vocabulary: int
    prompt: int  # tokens
    drafter: DrafterConfig


@dataclass(frozen=True, slots=True)
class Sweep:
    title: str
    axis: str
    xs: tuple[int, ...]
    point: Callable[[int], Point]


CHAIN, TREE = DrafterConfig("model", k=5), DrafterConfig("eagle3", tree=TreeShape(24, 7, 4))
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
SWEEPS: Mapping[str, Sweep] = {
    "context": Sweep("Context, draft model, K = 5", "prompt tokens", LENGTHS, lambda x: Point(x, VOCABULARY, x, CHAIN)),
    "context-tree": Sweep("Context, EAGLE-3 tree 24/7/4", "prompt tokens", LENGTHS, lambda x: Point(x, VOCABULARY, x, TREE)),
    "k": Sweep("K, draft model", "K", (1, 2, 3, 5, 8, 11, 15), lambda x: Point(x, VOCABULARY, PROMPT, DrafterConfig("model", k=x))),
    "tree": Sweep(
        "Tree size, EAGLE-3 head, depth 7, top-k 10", "drafted tokens", (8, 16, 24, 32, 40, 50, 60),
        lambda x: Point(x, VOCABULARY, PROMPT, DrafterConfig("eagle3", tree=TreeShape(x, 7, 10))),
    ),
    "vocabulary": Sweep(
        "Vocabulary, draft model, K = 5", "tokens of the vocabulary", (1000, 4000, 16000, 64000, 150000),
        lambda x: Point(x, x, PROMPT, CHAIN),
    ),
}  # fmt: skip
QUICK = 3  # points a sweep, the first ones


def save_pair(folder: Path, vocabulary: int) -> PairSpec:
    """Target, draft model and head in ``folder``, in the files that the field writes, made where they are not there yet."""
    target, draft, head = folder / "target", folder / "draft", folder / "head"
    if not head.is_dir():
        model = _random_llama(vocabulary)
        model.save_pretrained(target)
        _tokenizer(vocabulary).save_pretrained(target)
        _first_layer(model).save_pretrained(draft)
        _save_head(model, head)
    return custom_pair(str(target), str(draft), str(head))


def _config(vocabulary: int, layers: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=layers,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=CONTEXT,
        initializer_range=WIDTH**-0.5, bos_token_id=None, eos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip


def _random_llama(vocabulary: int) -> LlamaForCausalLM:
    """Never ends a text by itself, so that every run has the same length."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(_config(vocabulary, LAYERS))
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_()
        model.lm_head.weight *= SHARPNESS
        for number, layer in enumerate(model.model.layers):
            layer.self_attn.o_proj.weight *= LATER if number else ATTENTION
            layer.mlp.down_proj.weight *= LATER if number else 1.0
    return model


def _first_layer(model: LlamaForCausalLM) -> LlamaForCausalLM:
    draft = LlamaForCausalLM(_config(model.config.vocab_size, 1))
    draft.load_state_dict(model.state_dict(), strict=False)
    return draft


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """One token a word: t1, t2 and so on."""
    words = {"<unk>": 0} | {f"t{number}": number for number in range(1, vocabulary)}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", clean_up_tokenization_spaces=False)


def _save_head(model: LlamaForCausalLM, folder: Path) -> None:
    """An entry attends to its own token, whose embedding is the value; the feed-forward block is the target's first. Features and
    fed-back states are read, and given no weight."""
    first, one = model.model.layers[0], torch.eye(WIDTH)
    token = torch.cat([one, torch.zeros(WIDTH, WIDTH)], -1)
    attention = {"q": FOCUS * token, "k": FOCUS * token, "v": token, "o": one}
    tensors: dict[str, Tensor] = {f"midlayer.self_attn.{name}_proj.weight": w for name, w in attention.items()}
    tensors |= {f"midlayer.mlp.{name}": weight for name, weight in first.mlp.state_dict().items()}
    norms = {
        "midlayer.input_layernorm": 1.0,
        "midlayer.hidden_norm": 0.0,
        "midlayer.post_attention_layernorm": 1.0,
        "norm": 1.0,
    }
    tensors |= {f"{name}.weight": torch.full((WIDTH,), value) for name, value in norms.items()}
    tensors["fc.weight"] = torch.zeros(WIDTH, 3 * WIDTH)
    config = {key: value for key, value in model.config.to_dict().items() if key != "architectures"} | {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": model.config.vocab_size,
        "target_hidden_size": WIDTH, "norm_before_residual": True,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]},
    }  # fmt: skip
    folder.mkdir()
    save_file({name: weight.clone().contiguous() for name, weight in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def decode(pair: Pair, point: Point, tokens: int, seed: int) -> Summary:
    """One run at temperature 0 on a prompt of random words, another one for every seed."""
    draw = random.Random(seed)
    words = " ".join(f"t{draw.randrange(1, point.vocabulary)}" for _ in range(point.prompt))
    config = run_config(
        pair, prompt=PromptConfig(words), rule=RuleConfig("strict"), drafter=point.drafter, sampling=Sampling(0.0),
        max_new_tokens=tokens, seed=seed,
    )  # fmt: skip
    run = Session(pair).start(config)
    for _ in run:
        pass
    return run.trace().summary


def measure(pairs: Mapping[int, Pair], points: Sequence[Point], tokens: int, repetitions: int) -> list[list[Sample]]:
    """Samples by point; every repetition takes all points in an order of its own, after one run of each that does not count."""
    order, samples = random.Random(0), [list[Sample]() for _ in points]
    for repetition in range(-1, repetitions):
        for at in order.sample(range(len(points)), len(points)):
            found = decode(pairs[points[at].vocabulary], points[at], tokens, repetition + 1)
            if repetition >= 0:
                decode_s = found.wall_s - found.prefill_s
                samples[at].append(Sample(decode_s, found.prefill_s, found.new_tokens, found.steps))
    return samples


def peak(pair: Pair, point: Point, tokens: int, seed: int) -> int:
    """Bytes that one run needs at most above what there was before it, after a small run that does not count."""
    decode(pair, Point(0, point.vocabulary, 8, point.drafter), 8, seed)
    return peak_above(pair.device, lambda: decode(pair, point, tokens, seed))


def peak_elsewhere(folder: Path, sweep: str, x: int, tokens: int, seed: int) -> int:
    """``peak`` in a process of its own, on the CPU."""
    command = [sys.executable, "-m", "bench.growth", "--peak", *map(str, (sweep, x, folder, tokens, seed))]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # freed tensors leave the resident set at once
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return int(done.stdout.split()[-1])


def _answer(sweep: str, x: str, folder: str, tokens: str, seed: str) -> int:
    """What ``peak_elsewhere`` asked for, on standard output."""
    point = SWEEPS[sweep].point(int(x))
    pair = ModelPool(device="cpu").get(save_pair(Path(folder) / str(point.vocabulary), point.vocabulary))
    sys.stdout.write(f"{peak(pair, point, int(tokens), int(seed))}\n")
    return 0


def curves(options: argparse.Namespace, folder: Path) -> tuple[list[Curve], torch.device]:
    """All sweeps, their points interleaved."""
    places = [(name, x) for name in options.sweeps for x in SWEEPS[name].xs[: QUICK if options.quick else None]]
    points = [SWEEPS[name].point(x) for name, x in places]
    sizes = sorted({point.vocabulary for point in points})
    pool = ModelPool(device=options.device, max_pairs=len(sizes))
    pairs = {size: pool.get(save_pair(folder / str(size), size)) for size in sizes}
    samples = measure(pairs, points, options.tokens, options.repetitions)

    def peaks(at: int) -> tuple[int, ...]:
        seeds, point = range(options.peaks), points[at]
        if pool.device.type == "cuda":
            return tuple(peak(pairs[point.vocabulary], point, options.tokens, seed) for seed in seeds)
        return tuple(peak_elsewhere(folder, *places[at], options.tokens, seed) for seed in seeds)

    found = []
    for name in options.sweeps:
        own = [at for at, (owner, _) in enumerate(places) if owner == name]
        measured = tuple(places[at][1] for at in own), tuple(tuple(samples[at]) for at in own), tuple(map(peaks, own))
        found.append(Curve(name, SWEEPS[name].title, SWEEPS[name].axis, *measured, prefill=name.startswith("context")))
    return found, pool.device


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    parser.add_argument("--quick", action="store_true", help="only the first points of each sweep")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens a run")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--peaks", type=int, default=3, help="runs a point whose peak memory is measured")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--peak", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.peak:
        return _answer(*options.peak)
    with TemporaryDirectory(prefix="mars-growth-") as folder:
        found, device = curves(options, Path(folder))
    command = " ".join(["python -m bench.growth", *(sys.argv[1:] if arguments is None else arguments)])
    facts, path = {"command": f"`{command}`", **machine(device)}, stem(options.out, "growth", device.type)
    text = report(found, facts, PAIRS, path.name)
    sys.stdout.write(text)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    document = {"machine": facts, "curves": [asdict(curve) for curve in found]}
    path.with_suffix(".json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    for curve in found:
        path.with_name(f"{path.name}-{curve.name}.svg").write_text(svg(curve), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
