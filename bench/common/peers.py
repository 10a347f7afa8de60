"""Other programs at temperature 0, on the same prompt ids as our runs: transformers' generation,
alone and assisted, of unmodified models, a llama.cpp server, and batches of vLLM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import httpx
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer

from bench.common.command import ROOT
from bench.common.measure import Decoded, Method
from mars_core.models import Pair
from mars_core.models.gguf import description
from mars_core.models.source import GGUF, SOURCE, weights
from mars_core.text.prompting import encode
from mars_core.types import ModelRef, PromptConfig

LLAMA = ROOT / ".venv-llama/bin/python"
VLLM = ROOT / ".venv-vllm/bin/python"

Ids = tuple[int, ...]
Prompts = Sequence[PromptConfig]
BatchDecoder = Callable[[Prompts], list[Ids]]


def folder(model: ModelRef) -> Path:
    """Return a model's files in Hugging Face's format."""
    find = description if model.name.endswith(GGUF) else weights
    return find(model, lambda _: None)[0]


def opened(model: ModelRef, dtype: torch.dtype) -> PreTrainedModel:
    """Open the model as transformers loads it, on the CPU."""
    load: Any = AutoModelForCausalLM.from_pretrained
    file = {"gguf_file": SOURCE} if model.name.endswith(GGUF) else {}
    read: PreTrainedModel = load(folder(model), dtype=dtype, **file).eval()
    return read


@contextmanager
def _answering(*command: object) -> Iterator[Callable[[str], str]]:
    """Start a program that answers lines, with as many threads as torch. A question raises
    RuntimeError once the program has ended."""
    line = [*map(str, command)]
    variables = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    with Popen(line, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, env=variables) as process:

        def answer(question: str) -> str:
            assert process.stdin is not None and process.stdout is not None
            print(question, file=process.stdin, flush=True)
            if text := process.stdout.readline():
                return text
            raise RuntimeError(f"It ended: {' '.join(line)}")

        yield answer


@contextmanager
def llama_client(model: Path) -> Iterator[httpx.Client]:
    """Start a llama.cpp server without speculation, in the environment that ``make llama``
    makes."""
    script = ROOT / "integrations/llama/serve.py"
    with (
        _answering(LLAMA, script, model, "none", torch.get_num_threads()) as answer,
        httpx.Client(base_url=answer("").strip(), timeout=600) as client,
    ):
        yield client


@contextmanager
def llama_server(model: Path, tokenizer: Tokenizer, new: int) -> Iterator[Method]:
    """Do as ``llama_client``, for decoding."""
    work = {"n_predict": new, "temperature": 0, "cache_prompt": False, "return_tokens": True}
    with llama_client(model) as client:

        def decode(prompt: PromptConfig, _seed: int) -> Decoded:
            asked = work | {"prompt": list(encode(tokenizer, prompt))}
            answer = client.post("/completion", json=asked).raise_for_status().json()
            return Decoded(tuple(answer["tokens"]), 0)

        yield decode


@contextmanager
def vllm_batches(
    pair: Pair, draft: Path | str, k: int, slots: int, new: int
) -> Iterator[BatchDecoder]:
    """vLLM for CPUs in float32, in the environment that ``make vllm`` makes. ``draft``: a folder,
    or empty."""
    script = ROOT / "integrations/vllm/batch.py"
    with _answering(VLLM, script, folder(pair.spec.target), draft, k, slots) as answer:

        def decode(prompts: Prompts) -> list[Ids]:
            ids = [list(encode(pair.tokenizer, prompt)) for prompt in prompts]
            return [tuple(text) for text in json.loads(answer(json.dumps([ids, new])))]

        yield decode


def greedy(target: PreTrainedModel, tokenizer: Tokenizer, new: int, **options: Any) -> Method:
    """Return transformers' ``generate``, by default without a draft model."""
    decode = generation(target, tokenizer, new, **options)
    return lambda prompt, _seed: Decoded(decode([prompt])[0], 0)


def generation(
    target: PreTrainedModel, tokenizer: Tokenizer, new: int, **options: Any
) -> BatchDecoder:
    """Generate as ``greedy``, of several prompts at once, padded on the left. Texts end as the
    model's own configuration says."""
    model: Any = target
    eos = model.generation_config.eos_token_id
    ends = {eos} if isinstance(eos, int) else {*(eos or ())}

    def until_end(ids: list[int]) -> Ids:
        end = next((at for at, id_ in enumerate(ids, start=1) if id_ in ends), None)
        return tuple(ids[:end])

    def padded(rows: Sequence[Tensor]) -> Tensor:
        return pad_sequence([*rows], batch_first=True, padding_side="left").to(target.device)

    @torch.inference_mode()
    def decode(prompts: Prompts) -> list[Ids]:
        rows = [torch.tensor(encode(tokenizer, prompt)) for prompt in prompts]
        ids, mask = padded(rows), padded([torch.ones_like(row) for row in rows])
        config = GenerationConfig(
            do_sample=False, max_new_tokens=new, eos_token_id=eos, pad_token_id=0
        )
        output = model.generate(ids, attention_mask=mask, generation_config=config, **options)
        return [until_end(each) for each in output[:, ids.shape[1] :].tolist()]

    return decode


def assisted(
    target: PreTrainedModel, draft: PreTrainedModel, k: int, tokenizer: Tokenizer, new: int
) -> Method:
    """Return transformers' assisted generation: always K drafted tokens, independent of the draft's
    confidence. Configures ``draft``."""
    always: dict[str, Any] = {
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    draft.generation_config = GenerationConfig(num_assistant_tokens=k, pad_token_id=0, **always)
    return greedy(target, tokenizer, new, assistant_model=draft)
