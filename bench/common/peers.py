"""Other programs at temperature 0: transformers' generation, alone and assisted, a plain loop, a
llama.cpp server, and batches of vLLM.

The loop is the basic algorithm (as in gpt-fast): K greedy draft steps on a static cache, one pass
of the target over them, the longest prefix on which both agree, and one token of the target; the
host waits for the device once per round. Without compilation and telemetry. transformers' and the
loop need unmodified models and prompt ids.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StaticCache,
)

from bench.common.command import ROOT
from bench.common.measure import Decoded, Method
from mars_core.text.prompting import encode
from mars_core.types import PromptConfig

LLAMA = ROOT / ".venv-llama/bin/python"
VLLM = ROOT / ".venv-vllm/bin/python"

Decoder = Callable[[Sequence[int], int], Decoded]  # prompt ids, number of new tokens → new ids
BatchDecoder = Callable[[Sequence[Sequence[int]], int], list[tuple[int, ...]]]
Ends = int | list[int] | None  # ids that end a text; None: continue to the last token


def prompted(decoder: Decoder, tokenizer: PreTrainedTokenizerBase, new: int) -> Method:
    """A decoder as a benchmark method, with the same prompt ids as our runs."""

    def decode(prompt: PromptConfig, _seed: int) -> Decoded:
        return decoder(encode(tokenizer, prompt), new)

    return decode


def opened(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The model as transformers loads it, on the CPU."""
    load: Any = AutoModelForCausalLM.from_pretrained
    model: PreTrainedModel = load(folder, dtype=dtype).eval()
    return model


@contextmanager
def llama_server(model: Path) -> Iterator[Decoder]:
    """A llama.cpp server without speculation, in the environment that ``make llama`` makes, with as
    many threads as torch."""
    command = [
        str(LLAMA),
        str(ROOT / "integrations/llama/serve.py"),
        str(model),
        "none",
        str(torch.get_num_threads()),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"the server did not start: {' '.join(command)}")
        with httpx.Client(base_url=url, timeout=600) as client:
            yield partial(_completed, client)
        process.stdin.close()


def _completed(client: httpx.Client, prompt: Sequence[int], new: int) -> Decoded:
    work = {
        "prompt": list(prompt),
        "n_predict": new,
        "temperature": 0,
        "cache_prompt": False,
        "return_tokens": True,
    }
    answer = client.post("/completion", json=work).raise_for_status().json()
    return Decoded(tuple(answer["tokens"]), 0)


@contextmanager
def vllm_batches(target: Path, draft: str, k: int, slots: int) -> Iterator[BatchDecoder]:
    """vLLM for CPUs in float32, in the environment that ``make vllm`` makes, with as many threads
    as torch. ``draft``: a folder, or empty."""
    script = ROOT / "integrations/vllm/batch.py"
    command = [str(VLLM), str(script), str(target), draft, str(k), str(slots)]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | threads,
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def decode(prompts: Sequence[Sequence[int]], new: int) -> list[tuple[int, ...]]:
            assert process.stdin is not None and process.stdout is not None
            print(json.dumps([[*map(list, prompts)], new]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError(f"vLLM ended: {' '.join(command)}")
            return [tuple(ids) for ids in json.loads(answer)]

        yield decode
        process.stdin.close()


def greedy(target: PreTrainedModel, eos: Ends = None, **options: Any) -> Decoder:
    """transformers' ``generate``, by default without a draft model."""
    decode = generation(target, eos, **options)
    return lambda prompt, new: Decoded(decode([prompt], new)[0], 0)


def generation(target: PreTrainedModel, eos: Ends = None, **options: Any) -> BatchDecoder:
    """As ``greedy``, of several prompts at once, padded on the left."""
    model: Any = target
    ends = {eos} if isinstance(eos, int) else {*(eos or ())}

    def until_end(ids: list[int]) -> tuple[int, ...]:
        end = next((at for at, id_ in enumerate(ids, start=1) if id_ in ends), None)
        return tuple(ids[:end])

    @torch.inference_mode()
    def decode(prompts: Sequence[Sequence[int]], new: int) -> list[tuple[int, ...]]:
        width = max(map(len, prompts))
        missing = [width - len(prompt) for prompt in prompts]
        ids = [[0] * more + [*prompt] for more, prompt in zip(missing, prompts, strict=True)]
        mask = [[0] * more + [1] * (width - more) for more in missing]
        config = GenerationConfig(
            do_sample=False, max_new_tokens=new, eos_token_id=eos, pad_token_id=0
        )
        read, seen = (torch.tensor(each, device=target.device) for each in (ids, mask))
        output = model.generate(read, attention_mask=seen, generation_config=config, **options)
        return [until_end(each) for each in output[:, width:].tolist()]

    return decode


def assisted(target: PreTrainedModel, draft: PreTrainedModel, k: int, eos: Ends = None) -> Decoder:
    """transformers' assisted generation: always K drafted tokens, independent of the draft's
    confidence. Configures ``draft``."""
    always: dict[str, Any] = {
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    draft.generation_config = GenerationConfig(
        num_assistant_tokens=k, eos_token_id=eos, pad_token_id=0, **always
    )
    return greedy(target, eos, assistant_model=draft)


def looped(target: PreTrainedModel, draft: PreTrainedModel, k: int) -> Decoder:
    """The plain loop."""

    @torch.inference_mode()
    def decode(prompt: Sequence[int], new: int) -> Decoded:
        length = len(prompt) + new + k + 1
        reader, drafter = _Static(target, length), _Static(draft, length)
        ids, steps = list(prompt), 0
        reader.read(torch.tensor(ids[:-1], device=target.device))
        while len(ids) < len(prompt) + new:
            ids += _round(reader, drafter, ids, min(k, len(prompt) + new - len(ids) - 1))
            steps += 1
        return Decoded(tuple(ids[len(prompt) :]), steps)

    return decode


def _round(reader: _Static, drafter: _Static, ids: Sequence[int], k: int) -> list[int]:
    """Tokens emitted by one draft of k tokens and one pass of the target."""
    fed = torch.tensor(ids[drafter.length :], device=drafter.device)
    drafted: list[Tensor] = []
    for _ in range(k):
        fed = drafter.read(fed)[-1:]
        drafted.append(fed)
    root = torch.tensor(ids[-1:], device=reader.device)
    chosen: list[int] = reader.read(torch.cat([root, *drafted])).tolist()
    guesses: list[int] = torch.cat(drafted).tolist() if drafted else []
    agreed = next((at for at in range(k) if guesses[at] != chosen[at]), k)
    reader.keep(len(ids) + agreed)
    drafter.keep(len(ids) + agreed)
    return chosen[: agreed + 1]


class _Static:
    """A model with transformers' static cache, of which the first ``length`` positions are
    valid."""

    def __init__(self, model: PreTrainedModel, length: int) -> None:
        self._model: Any = model
        self._cache: Any = StaticCache(config=model.config, max_cache_len=length)
        self._columns = torch.arange(length, device=model.device)
        self.device = model.device
        self.length = 0

    def read(self, ids: Tensor) -> Tensor:
        """Caches ids [n]; the most likely token after each, [n]."""
        positions = self._columns[self.length : self.length + len(ids)]
        if not len(ids):
            return positions
        mask = self._columns <= positions[:, None]
        positioned = {"position_ids": positions[None], "attention_mask": mask[None, None]}
        output = self._model(
            input_ids=ids[None], **positioned, past_key_values=self._cache, use_cache=True
        )
        self.length += len(ids)
        chosen: Tensor = output.logits[0].argmax(-1)
        return chosen

    def keep(self, length: int) -> None:
        """Truncates the cache to ``length``; later positions are overwritten."""
        self.length = min(self.length, length)
        for layer in self._cache.layers:
            layer.cumulative_length.fill_(self.length)
