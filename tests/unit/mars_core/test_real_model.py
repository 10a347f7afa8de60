"""SmolLM2-135M-Instruct on the engine: what holds for small random models holds for a real one with
49,152 ids."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import get_tensor_name_map
from transformers import AutoModelForCausalLM

from evaluation.lossless.command import DRAFTING
from mars_core.models import CATALOG, ModelError, ModelPool, Pair, smollm2
from mars_core.models.gguf import fetch_default, header_of
from mars_core.models.gguf.model import read_model
from mars_core.models.memory import dtype_name
from mars_core.models.source import SOURCE
from mars_core.session import Session
from mars_core.types import DrafterConfig, PromptConfig, RunConfig, Sampling
from mars_playground.__main__ import main
from tests.live_pairs import config_for, decoded, generated
from tests.served_server import serve_models
from tests.unit.mars_core.test_exact import numbers
from ui.result import example

pytestmark = pytest.mark.slow
NEW = 8
NONE, SUFFIX = DrafterConfig("none"), DrafterConfig("suffix", k=5)
PROMPTS = (
    "What is the capital of France?",
    "대한민국의 수도는 어디인가요?",
    "Describe this family: 👩‍👩‍👧‍👦",
    "What do <|im_start|> and <|im_end|> mean in a prompt?",
    "def fibonacci(n):\n    # complete this function",
    "List the days of the week. List the days of the week. List the days",
    "\u202eabc\u202c \x00 naïve café — ½ ≠ 0.5?",
)


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Pair]:
    try:
        with pytest.MonkeyPatch.context() as network:
            network.delenv("PIP_NO_INDEX", raising=False)
            fetch_default(lambda _: None)
    except ModelError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    return cache(lambda dtype: ModelPool(device="cpu", dtype=dtype).get(CATALOG[0]))


def config(pair: Pair, drafter: DrafterConfig, prompt: str, temperature: float = 0.0) -> RunConfig:
    return config_for(pair, drafter, Sampling(temperature), prompt=PromptConfig(prompt), new=NEW)


def test_it_is_the_file_with_the_hash_and_it_answers(loaded: Callable[[str], Pair]) -> None:
    pair = loaded("float32")
    folder = Path(pair.target.name_or_path)
    with (folder / SOURCE).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == folder.name == smollm2.SHA256
    trace = decoded(pair, config(pair, SUFFIX, PROMPTS[0]))
    assert trace.text == "The capital of France is Paris."
    assert trace.config.environment["gguf"] == f"{smollm2.FILE} {smollm2.SHA256}"
    header = header_of(folder / SOURCE, folder.name)
    assert header.parameters == CATALOG[0].target_parameters


def test_the_stored_example_is_what_the_engine_makes(loaded: Callable[[str], Pair]) -> None:
    """After a change of the default pair or the engine: ``python -m ui.result.example``."""
    for new, old in zip(example.run_again(loaded("float32")), example.stored(), strict=True):
        assert (new.text, new.config.rule, new.config.sampling) == (
            old.text,
            old.config.rule,
            old.config.sampling,
        )
        assert [step.kept for step in new.steps] == [step.kept for step in old.steps]
        for one, other in zip(new.tokens, old.tokens, strict=True):
            assert (one.id, one.outcome) == (other.id, other.outcome)
            assert math.isclose(one.z1, other.z1, abs_tol=1e-2) and math.isclose(
                one.p, other.p, abs_tol=1e-2
            )


def test_in_float32_strict_is_none_is_generate_and_the_stream_is_the_text(
    loaded: Callable[[str], Pair],
) -> None:
    pair = loaded("float32")
    assert pair.exact, pair.inexact
    for prompt in PROMPTS[1:3] + PROMPTS[6:]:
        alone = decoded(pair, config(pair, NONE, prompt))
        assert alone.token_ids == generated(pair, alone.prompt_ids, NEW)
        run = Session(pair).start(config(pair, SUFFIX, prompt))
        streamed = [run.text for _ in run]
        assert numbers(run.trace()) == numbers(alone)
        assert all(run.text.startswith(each) for each in streamed)
        assert run.text == pair.tokenizer.decode(alone.token_ids, skip_special_tokens=True)


def test_in_bfloat16_strict_is_none_bit_for_bit(loaded: Callable[[str], Pair]) -> None:
    pair = loaded("bfloat16")
    assert pair.exact, pair.inexact
    for temperature, prompt in ((0.0, PROMPTS[3]), (1.0, PROMPTS[5])):
        alone, strict = (
            decoded(pair, config(pair, drafter, prompt, temperature)) for drafter in (NONE, SUFFIX)
        )
        assert numbers(strict) == numbers(alone)


def test_with_the_file_s_weights_strict_is_none_and_tokens_are_those_of_the_file_in_float32(
    loaded: Callable[[str], Pair],
) -> None:
    """But for positions where the two best logits are nearer than they are rounded."""
    pair, full = loaded("auto"), loaded("float32")
    assert (pair.exact, dtype_name(pair.dtype)) == (True, "gguf"), pair.inexact
    for temperature, prompt in ((0.0, PROMPTS[1]), (0.0, PROMPTS[4]), (1.0, PROMPTS[5])):
        drafters = (NONE, SUFFIX, DrafterConfig("ngram", k=17))
        alone, *strict = (
            decoded(pair, config(pair, drafter, prompt, temperature)) for drafter in drafters
        )
        assert all(numbers(each) == numbers(alone) for each in strict)
        if temperature == 0:
            ids = torch.tensor([[*alone.prompt_ids, *alone.token_ids]])
            with torch.inference_mode():
                rows = full.target(ids).logits[0, len(alone.prompt_ids) - 1 : -1]
            chosen = rows.gather(1, torch.tensor(alone.token_ids)[:, None])[:, 0]
            assert bool((rows.amax(-1) - chosen < 0.5).all())


def test_the_weights_are_those_of_transformers_bit_for_bit(
    loaded: Callable[[str], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = loaded("float32").target
    folder = Path(target.name_or_path)
    monkeypatch.setattr("gguf.get_tensor_name_map", cache(get_tensor_name_map))  # asked by layer
    read = partial(AutoModelForCausalLM.from_pretrained, folder, gguf_file=SOURCE)
    wanted: Any = read(config=target.config)  # else the file is read once more
    model = read_model(folder, target.config, "it", torch.float32, lambda _: None)
    for path, parameter in wanted.named_parameters():
        assert torch.equal(model.get_parameter(path), parameter), path


def test_a_server_of_it_that_speculates_is_lossless(
    loaded: Callable[[str], Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.lossless.rounds.TOKENS", 24)
    monkeypatch.setattr("evaluation.lossless.command.ENOUGH", 10)
    monkeypatch.setattr("evaluation.lossless.command.DRAFTING", DRAFTING[:1])
    prompts, file = tmp_path / "prompts.txt", tmp_path / "found.json"
    prompts.write_text(PROMPTS[1])
    with serve_models(Session(loaded("auto")), drafter=SUFFIX) as server:
        arguments = ["check", "--server", server.url, "--prompts", str(prompts), "--draws", "20"]
        assert main([*arguments, "--repeats", "20", "--json", str(file)]) == 0
    assert {row["verdict"] for row in json.loads(file.read_text())["findings"]} == {
        "lossless as far as tested"
    }
