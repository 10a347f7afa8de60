"""``python -m bench.gguf --file FILE``: a GGUF file as its weights are kept: starts and memory, the
distance of its distributions from those of the file in float32, and speed, beside llama.cpp (after
``make llama``) and transformers' ``gguf_file``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
import torch
from torch import Tensor

from bench.common.command import ROOT, Options, Reports, measurement
from bench.common.decoding import REAL_PROMPTS, Ours
from bench.common.measure import Method, interleaved, paired, speed_table
from bench.common.peers import LLAMA, llama_client, llama_server
from bench.common.report import BenchReport, Figures, MeasuredFigure
from mars_core.models import ModelPool, Pair, custom_pair
from mars_core.models.gguf.model import read_model
from mars_core.models.memory import dtype_name
from mars_core.types import DrafterConfig

PROMPT = "Write a Python function that returns the n-th Fibonacci number."
TRANSFORMERS = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
where = dict(pretrained_model_name_or_path=sys.argv[1], gguf_file=sys.argv[2])
tokenizer, model = AutoTokenizer.from_pretrained(**where), AutoModelForCausalLM.from_pretrained(**where)
print(tokenizer.decode(model.generate(**tokenizer(sys.argv[3], return_tensors="pt"), max_new_tokens=8)[0]))
"""
TOP, EVERY = 500, 4  # tokens of llama.cpp's distributions, and positions of the text


class Start(NamedTuple):
    """From the start of a process to the end of its first answer of 8 tokens."""

    seconds: float
    gigabytes: float  # at the peak


def started(command: Sequence[object], cache: Path) -> Start:
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*map(str, command)],
        cwd=ROOT,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"It ended with {process.returncode}: {command}")
    return Start(time.perf_counter() - begun, 1024 * usage.ru_maxrss / 1e9)


def starts(file: Path) -> Figures:
    """Yield times and memory of a first and later starts, and of transformers."""
    run = [
        sys.executable,
        "-m",
        "mars_playground",
        "run",
        "--target",
        file,
        "--drafter",
        "none",
        "--rule",
        "none",
    ]
    ours = [*run, "--max-new-tokens", 8, "--prompt", PROMPT]
    most = 1.3 * file.stat().st_size / 1e9 + 0.4
    with TemporaryDirectory() as cache:
        kinds = {
            "first start": (ours, 10.0),
            "later start": (ours, 5.0),
            "transformers": (
                [sys.executable, "-c", TRANSFORMERS, file.parent, file.name, PROMPT],
                None,
            ),
        }
        for name, (command, goal) in kinds.items():
            start = started(command, Path(cache))
            yield MeasuredFigure(f"{name}, first answer", start.seconds, "s", most=goal)
            limit = most if goal else None
            yield MeasuredFigure(f"{name}, peak memory", start.gigabytes, "GB", most=limit)


@torch.inference_mode()
def distances(pair: Pair, file: Path) -> Figures:
    """Yield mean KL divergences from the file in float32 to what is computed, a token."""
    text = "\n\n".join([pair.spec.text, *(each.text for each in REAL_PROMPTS)])
    ids, name = torch.tensor(pair.tokenizer(text)["input_ids"]), str(pair.target.name_or_path)
    full = read_model(Path(name), pair.target.config, name, torch.float32, lambda _: None)
    wanted = full(ids[None]).logits[0].log_softmax(-1)
    del full
    kept = pair.target(input_ids=ids[None], use_cache=False).logits[0].float().log_softmax(-1)
    yield _distance(dtype_name(pair.dtype), wanted, kept)
    half = read_model(Path(name), pair.target.config, name, torch.bfloat16, lambda _: None)
    rounded = half(ids[None]).logits[0].float().log_softmax(-1)
    del half
    yield _distance("in bfloat16", wanted, rounded)
    if LLAMA.exists():
        with llama_client(file) as client:
            places = range(0, len(ids) - 1, EVERY)
            found = [_of_llama(client, ids[: at + 1].tolist(), wanted[at]) for at in places]
        yield _mean("llama.cpp", torch.tensor(found))


def _distance(name: str, wanted: Tensor, actual: Tensor) -> MeasuredFigure:
    found = (wanted.double().exp() * (wanted.double() - actual.double())).sum(-1)
    best = (wanted.argmax(-1) == actual.argmax(-1)).float().mean()
    return _mean(name, found, f"; the same best token at {100 * best:.1f} %")


def _mean(name: str, found: Tensor, more: str = "") -> MeasuredFigure:
    middle, most = (1e6 * float(found.quantile(share)) for share in (0.5, 0.99))
    note = f"median {middle:.2g}, 99 % below {most:.2g}; {len(found)} positions{more}"
    return MeasuredFigure(f"KL, {name}", 1e6 * float(found.mean()), "millionths of a nat", note)


def _of_llama(client: httpx.Client, ids: list[int], wanted: Tensor) -> float:
    """KL over llama.cpp's most probable tokens and all others as one."""
    work = {"prompt": ids, "n_predict": 1, "temperature": 0, "n_probs": TOP, "cache_prompt": True}
    answer = client.post("/completion", json=work).raise_for_status().json()
    tops: Any = answer["completion_probabilities"][0]["top_logprobs"]
    there = torch.tensor([each["id"] for each in tops])
    q = torch.tensor([each["logprob"] for each in tops]).double()
    p = wanted[there].double()
    rest = [max(1e-9, 1 - float(each.exp().sum())) for each in (p, q)]
    least = rest[0] * float(torch.tensor(rest[0] / rest[1]).log())
    return float((p.exp() * (p - q)).sum()) + least


def speeds(pair: Pair, file: Path, tokens: int, running: ExitStack) -> dict[str, Method]:
    chains = DrafterConfig("suffix", k=5)
    methods: dict[str, Method] = {
        "none": Ours(pair, "", DrafterConfig("none"), 0.0, tokens),
        "strict, suffix": Ours(pair, "strict", chains, 0.0, tokens),
    }
    if LLAMA.exists():
        server = llama_server(file, pair.tokenizer, tokens)
        methods["llama.cpp"] = running.enter_context(server)
    return methods


@measurement(
    "bench.gguf", __doc__, file=Path(), rounds=2, tokens=64, only=["starts", "kl", "speed"]
)
def main(options: Options) -> Reports:
    file, figures, tables = options.file.resolve(), list[MeasuredFigure](), []
    figures += starts(file) if "starts" in options.only else []
    pair = ModelPool(device="cpu").get(custom_pair(str(file)))
    figures += distances(pair, file) if "kl" in options.only else []
    if "speed" in options.only:
        with ExitStack() as running:
            methods = speeds(pair, file, options.tokens, running)
            samples = interleaved(methods, REAL_PROMPTS, options.rounds)
        base = "llama.cpp" if "llama.cpp" in samples else "none"
        tables.append(speed_table(samples, base, "Speed at temperature 0"))
        for name, least in (("none", 0.95), ("strict, suffix", 1.1)):
            if base != "none":
                figures.append(
                    MeasuredFigure.of(
                        f"{name} / llama.cpp", paired(samples, name, base), "×", least=least
                    )
                )
    notes = [f"{file.name}, {file.stat().st_size / 1e6:.0f} MB, dtype {dtype_name(pair.dtype)}"]
    yield BenchReport(
        "A GGUF file", notes, figures, tables, name=f"gguf-{file.stem.replace('.', '-')}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
