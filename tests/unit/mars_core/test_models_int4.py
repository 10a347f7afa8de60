"""Weights of 4 bits: what is read from a GGUF file, the layer that multiplies them, and pairs that
run on it."""

from __future__ import annotations

import shutil
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from torch import nn
from transformers import AutoModelForCausalLM

from mars_core.decoder import is_fast
from mars_core.decoder.linear import (
    HalfLinear,
    Int4,
    Int4Linear,
    PackedLinear,
    StoredLinear,
    halvable,
    joined,
    pack,
    packable,
)
from mars_core.models import ModelError, ModelPool, custom_pair, memory
from mars_core.models import int4 as module
from mars_core.models.int4 import int4_lacks, read_file, read_int4
from mars_core.models.loading import suited
from mars_core.models.source import SOURCE, fingerprint
from mars_core.types import DrafterConfig, Sampling
from tests.checkpoints import random_ids, tiny_checkpoint, tiny_model, tiny_tokenizer
from tests.gguf_files import TURNED, turned, write
from tests.live_pairs import traced

WIDTHS: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128}
CHAINS = (DrafterConfig("ngram", k=5), DrafterConfig("ngram", k=17), DrafterConfig("model", k=4))


def converted(folder: Path, kind: str = "llama", four: Kind = Kind.Q4_1, **fields: Any) -> Path:
    """A random model in ``folder`` whose linear layers have 4 bits in its GGUF file, and the same
    numbers in its safetensors."""
    config = {**WIDTHS, **({"head_dim": 16} if kind == "qwen3" else {}), **fields}
    model: Any = tiny_model(kind, **config)
    writer = gguf.GGUFWriter(folder / SOURCE, kind)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_array("tokenizer.ggml.scores", [1.0, 2.0])
    for path, parameter in model.named_parameters():
        values, linear = parameter.numpy(), "_proj.weight" in path
        rotary = kind == "llama" and path.endswith(TURNED)
        stored = four if linear else Kind.Q8_0 if "embed" in path else Kind.F32
        data = gguf.quants.quantize(turned(values, 16) if rotary else values, stored)
        back = torch.from_numpy(gguf.quants.dequantize(data, stored).copy())
        if rotary:
            back = back.view(-1, 8, 2, back.shape[-1]).transpose(1, 2).reshape(back.shape)
        parameter.copy_(back)
        writer.add_tensor(module._name(path), data, raw_dtype=stored)
    write(writer)
    model.save_pretrained(folder)
    tiny_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(tmp_path_factory.mktemp("llama"), tie_word_embeddings=True)


@pytest.mark.parametrize(
    "kind", [Kind.F32, Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q8_0, Kind.Q6_K]
)
def test_numbers_of_a_file_are_those_of_the_gguf_library(kind: Kind, tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((6, 512), np.float32)
    count, size = gguf.GGML_QUANT_SIZES[kind]
    if kind is Kind.Q6_K:  # the library cannot write it
        data = np.random.default_rng(1).integers(0, 256, (6, 512 // count * size), np.uint8)
        data.reshape(6, 2, size)[..., -2:] = np.float16([0.01]).view(np.uint8)
    else:
        data = gguf.quants.quantize(values, kind)
    writer = gguf.GGUFWriter(tmp_path / SOURCE, "llama")
    writer.add_tensor("odd", values[:, :7].copy())
    writer.add_tensor("wanted", data, raw_dtype=kind)
    write(writer)
    architecture, stored, _ = read_file(tmp_path / SOURCE)
    assert architecture == "llama" and torch.equal(
        stored["odd"].numbers(), torch.from_numpy(values[:, :7])
    )
    assert torch.equal(
        stored["wanted"].numbers(), torch.from_numpy(gguf.quants.dequantize(data, kind).copy())
    )


@pytest.mark.parametrize(
    ("kind", "four"), [("llama", Kind.Q4_1), ("qwen2", Kind.Q4_0), ("qwen3", Kind.Q4_1)]
)
@torch.no_grad()
def test_a_model_of_a_file_has_the_converted_numbers_bit_for_bit(
    kind: str, four: Kind, tmp_path: Path
) -> None:
    wanted: Any = AutoModelForCausalLM.from_pretrained(converted(tmp_path, kind, four))
    model: Any = read_int4(tmp_path, wanted.config, "it")
    assert (
        sum(isinstance(each, StoredLinear) for each in model.modules())
        == 7 * wanted.config.num_hidden_layers
    )
    for path, parameter in wanted.named_parameters():
        owner, _, leaf = path.rpartition(".")
        assert torch.equal(parameter, getattr(model.get_submodule(owner), leaf)), path
    ids = random_ids(9)[None]
    torch.testing.assert_close(model(ids).logits, wanted(ids).logits)


def random_int4(rows: int, columns: int) -> Int4:
    levels = torch.randint(16, (rows, columns), dtype=torch.uint8)
    scales = torch.rand(rows, columns // 32).half().float() / 16
    return Int4(levels, scales, (-8 * torch.rand_like(scales)).half().float() / 16)


@torch.inference_mode()
def test_a_row_times_4_bits_is_the_same_in_every_pass_and_near_the_product_of_the_file() -> None:
    torch.manual_seed(0)
    parts, bias = [random_int4(64, 96), random_int4(32, 96)], torch.randn(96)
    layer, x, other = Int4Linear(parts, bias), torch.randn(1, 99, 96), torch.randn(1, 99, 96)
    exact = x @ torch.cat([each.numbers() for each in parts]).T + bias
    few = layer(x[:, :64])
    for rows in range(1, 64):
        assert torch.equal(layer(x[:, :rows]), few[:, :rows]) and torch.equal(
            layer(x[:, 64 - rows : 64]), few[:, -rows:]
        )
    for actual, wanted in (
        (few, exact[:, :64]),
        (layer(x), exact),
        (layer.added(x, other), exact + other),
    ):
        assert actual.dtype == torch.float32
        assert (actual - wanted).square().mean() < 1e-4 * wanted.square().mean()
    in_bfloat16 = packable(torch.zeros(1, dtype=torch.bfloat16))
    assert isinstance(layer.wide, PackedLinear if in_bfloat16 else HalfLinear)
    assert torch.equal(layer(x)[0], layer.wide(x[0].bfloat16()) + bias)
    assert torch.equal(layer(x)[:, :90], layer(x[:, :90]))  # prompts of other lengths


@torch.inference_mode()
def test_a_layer_in_float16_gives_float32_sums_that_do_not_depend_on_other_rows() -> None:
    torch.manual_seed(0)
    plain, x = nn.Linear(96, 50), torch.randn(1, 64, 96)
    layer = HalfLinear(plain.weight.half().float(), plain.bias)
    all_rows = layer(x)
    torch.testing.assert_close(
        all_rows, nn.functional.linear(x, plain.weight.half().float(), plain.bias)
    )
    assert all(torch.equal(layer(x[:, :rows]), all_rows[:, :rows]) for rows in range(1, 64))


@torch.inference_mode()
@pytest.mark.skipif(not halvable(torch.ones(1)), reason="no product in float16 here")
def test_float32_weights_of_a_file_in_bfloat16_are_held_in_float16_without_loss() -> None:
    """That takes half the time. Others, and those beyond its range, stay in float32."""
    torch.manual_seed(0)
    plain, x = nn.Linear(64, 32), torch.randn(5, 64)
    plain.weight.copy_(plain.weight.bfloat16())
    layer = joined([plain, plain])
    assert isinstance(layer, HalfLinear)
    torch.testing.assert_close(layer(x), torch.cat([plain(x)] * 2, -1), atol=1e-5, rtol=1e-5)
    for value in (0.1, 1e5, 1.0001):
        plain.weight[3, 4] = value
        assert isinstance(joined([plain]), PackedLinear)
    model = nn.Sequential(nn.Embedding(40, 64), nn.Linear(64, 40))
    model[0].weight = model[1].weight = nn.Parameter(plain.weight.new_ones(40, 64))
    pack(model)
    assert isinstance(model[1], HalfLinear)


def test_layers_of_which_only_some_have_4_bits_are_joined_in_float32() -> None:
    torch.manual_seed(0)
    plain, four, x = nn.Linear(64, 16), random_int4(32, 64), torch.randn(3, 64)
    stored = StoredLinear(lambda: four, nn.Linear(64, 32))
    torch.testing.assert_close(joined([plain, stored])(x), torch.cat([plain(x), stored(x)], -1))


@pytest.fixture(scope="module")
def pool() -> ModelPool:
    return ModelPool(device="cpu")


def test_auto_runs_a_file_of_4_bits_exactly_and_strict_is_none(
    folder: Path, pool: ModelPool
) -> None:
    pair = pool.get(custom_pair(str(folder), str(folder)))
    assert (pair.exact, str(pair.dtype), is_fast(pair.target)) == (True, "torch.int4", True), (
        pair.inexact
    )
    assert (pool.numbers, ModelPool(device="cpu", dtype="bfloat16").numbers) == (
        "number format chosen by model",
        "bfloat16",
    )
    assert isinstance(pair.target.get_output_embeddings(), HalfLinear)
    for temperature in (0.0, 1.0):
        traces = [
            traced(pair, drafter, Sampling(temperature), prompt="once upon " * 9, new=60)
            for drafter in (DrafterConfig("none"), *CHAINS)
        ]
        assert traces[0].config.environment["dtype"] == "int4"
        assert (
            len(
                {
                    tuple((each.id, each.z1, each.z2, each.logprob) for each in trace.tokens)
                    for trace in traces
                }
            )
            == 1
        )


def test_a_continued_run_has_the_drafts_of_the_run(folder: Path, pool: ModelPool) -> None:
    """Whose draft model read the beginning in drafts of few rows."""
    pair = pool.get(custom_pair(str(folder), str(folder)))
    run, least = traced(pair, CHAINS[-1], new=120), 90
    ends = accumulate(len(step.emitted) for step in run.steps)
    begun = next(end for end in ends if end >= least)
    rest = traced(pair, CHAINS[-1], new=120 - begun, prefix=run.token_ids[:begun])
    one, other = (
        [(each.id, each.outcome, each.z1, each.q) for each in tokens]
        for tokens in (run.tokens[begun:], rest.tokens)
    )
    assert len(one) > 9 and str(one) == str(other)


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        ("the file", "that takes a GGUF file with weights in Q4_0 or Q4_1"),
        ("4 bits", "its file has tensors in F32, Q5_0, Q8_0, and none in Q4_0 or Q4_1"),
        ("the processor", "that takes an x86 processor with AVX2"),
        ("the architecture", "its file is of the architecture 'llama', and int4 is for qwen2"),
    ],
)
def test_without_4_bits_auto_is_float32_and_int4_is_refused(
    lacking: str, reason: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking == "the processor":
        monkeypatch.setattr(module, "multiplies_int4", lambda: False)
    elif lacking == "the architecture":
        monkeypatch.setattr(module, "_ARCHITECTURES", {"qwen2": False})
    else:
        folder = converted(tmp_path, four=Kind.Q5_0)
        if lacking == "the file":
            (folder / SOURCE).unlink()
    spec = custom_pair(str(folder))
    assert ModelPool(device="cpu").get(spec).dtype == torch.float32
    with pytest.raises(ModelError, match=f"cannot be used in int4 here: {reason}; choose"):
        ModelPool(device="cpu", dtype="int4").get(spec)


def test_a_draft_model_without_such_a_file_runs_in_float32(folder: Path, tmp_path: Path) -> None:
    pair = ModelPool(device="cpu").get(
        custom_pair(str(folder), str(tiny_checkpoint("llama", tmp_path)))
    )
    assert pair.draft is not None and (str(pair.dtype), pair.draft.dtype) == (
        "torch.int4",
        torch.float32,
    )
    assert not any(isinstance(each, Int4Linear) for each in pair.draft.modules())


def test_int4_is_for_processors() -> None:
    with pytest.raises(ValueError, match="dtype is 'int4', which is for CPUs"):
        memory.pick_dtype("int4", torch.device("cuda", 0))


def test_a_damaged_file_is_named_and_never_offered(folder: Path, tmp_path: Path) -> None:
    original = (folder / SOURCE).read_bytes()
    changed = [original[:size] for size in (0, 3, 20, 60, 200, len(original) // 2)]
    changed += [
        original[:8] + b"\xff" * 16 + original[24:],
        b"GGML" + original[4:],
        original[:24] + b"\xff" * 8 + original[32:],
    ]
    for content in changed:
        (tmp_path / SOURCE).write_bytes(content)
        with pytest.raises(ModelError, match="is damaged or not a GGUF file"):
            read_file(tmp_path / SOURCE)
        assert int4_lacks(tmp_path).endswith("fetch it again")


def test_another_file_is_another_revision(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    assert fingerprint(tmp_path) == fingerprint(folder)
    (tmp_path / SOURCE).write_bytes((folder / SOURCE).read_bytes()[:-1] + b"!")
    assert fingerprint(tmp_path) != fingerprint(folder)


def test_a_file_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tiny_checkpoint("llama", tmp_path, **{**WIDTHS, "hidden_size": 128})
    (other / SOURCE).write_bytes((folder / SOURCE).read_bytes())
    with pytest.raises(
        ModelError,
        match=r"does not fit its config\.json \(no token_embd\.weight of \d+ × 128 numbers\)",
    ):
        ModelPool(device="cpu").get(custom_pair(str(other)))


@pytest.mark.parametrize(
    ("stored", "parameters", "able", "wanted"),
    [
        (torch.bfloat16, 10**8, True, torch.bfloat16),
        (torch.bfloat16, 10**8, False, torch.float32),
        (torch.bfloat16, 10**7, True, torch.float32),
        (torch.float32, 10**8, True, torch.float32),
    ],
)
def test_auto_is_bfloat16_for_large_models_stored_in_it(
    stored: torch.dtype,
    parameters: int,
    able: bool,
    wanted: torch.dtype,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: able)
    plan: Any = SimpleNamespace(
        folder=tmp_path, config=SimpleNamespace(dtype=stored), parameters=parameters
    )
    assert suited(plan) == wanted
