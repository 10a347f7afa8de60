"""Weights that a file has in few bits: what is read from a GGUF file, the products that are compiled
for them, and pairs that run on them."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from torch import nn
from transformers import PreTrainedConfig

from mars_core.decoder import is_fast
from mars_core.decoder.linear import HalfLinear, PackedLinear, QuantisedLinear
from mars_core.decoder.packing import halvable, joined, pack
from mars_core.decoder.quantised import library as compiled
from mars_core.decoder.quantised import weights
from mars_core.decoder.quantised.library import Form, lacks_products, multiplies_int4
from mars_core.decoder.quantised.weights import (
    Int4,
    Levels,
    Packed,
    QuantisedEmbedding,
)
from mars_core.models import ModelError, ModelPool, custom_pair, memory
from mars_core.models.gguf import file as header_file
from mars_core.models.gguf.file import read_header
from mars_core.models.gguf.kinds import FORMS, numbers_of
from mars_core.models.gguf.model import read_model
from mars_core.models.loading import suited
from mars_core.models.source import SOURCE, PlannedModel
from mars_core.types import DrafterConfig, ModelRef, Sampling
from tests.checkpoints import random_ids, tiny_checkpoint, tiny_model
from tests.folders import load
from tests.gguf_files import TOKENS, TURNED, Values, write, write_model
from tests.live_pairs import traced

WIDTHS: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": len(TOKENS),
    "max_position_embeddings": 512,
}
CHAINS = (DrafterConfig("ngram", k=5), DrafterConfig("ngram", k=17), DrafterConfig("model", k=4))
HALVES = {  # where numbers in float16 stand in a block
    "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
}  # fmt: skip
native = pytest.mark.skipif(bool(lacks_products()), reason=lacks_products())


def random_blocks(kind: Kind, rows: int, columns: int) -> Values:
    """Return rows of any levels, of numbers near 1/20."""
    count, size = gguf.GGML_QUANT_SIZES[kind]
    source = np.random.default_rng(rows)
    data = source.integers(0, 256, (rows, columns // count * size), np.uint8)
    for at in HALVES.get(kind.name, (0,)):
        factors = source.random((rows, columns // count, 1), np.float32) / (
            1000 if kind.name.endswith("K") else 100
        )
        data.reshape(rows, -1, size)[..., at : at + 2] = factors.astype(np.float16).view(np.uint8)
    return data


def stored(
    path: Path, kind: str = "llama", four: Kind = Kind.Q4_1, table: Kind = Kind.Q8_0, **fields: Any
) -> tuple[Path, Any]:
    """Write a random model whose linear layers are of the kind ``four``; return its file, and the
    model with the file's numbers."""
    sized = kind not in ("llama", "qwen2")
    config = {**WIDTHS, **({"head_dim": 64} if sized else {}), **fields}
    model: Any = tiny_model(kind, **config)

    def quantised(name: str, values: Values) -> tuple[Values, Kind]:
        of = four if "_proj.weight" in name else table if "embed" in name else Kind.F32
        data = (
            random_blocks(of, *values.shape)
            if of in (Kind.Q4_K, Kind.Q5_K, Kind.Q6_K, Kind.IQ4_NL)
            else gguf.quants.quantize(values, of)
        )
        back = torch.from_numpy(gguf.quants.dequantize(data, of).copy())
        if kind == "llama" and name.endswith(TURNED):
            back = back.view(-1, 32, 2, back.shape[-1]).transpose(1, 2).reshape(back.shape)
        model.get_parameter(name).copy_(back)
        return data + 1 if kind.startswith("gemma") and "norm" in name else data, of

    return write_model(path, model, kind, quantised), model


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, with the products that this machine has compiled."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    if not lacks_products():
        compiled.library()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    return stored(folder / "tiny.gguf", four=Kind.Q4_K, tie_word_embeddings=True)[0]


@pytest.mark.parametrize("kind", [*FORMS, Kind.F32, Kind.F16, Kind.BF16, Kind.Q3_K, Kind.IQ4_NL])
def test_numbers_of_a_file_are_those_of_the_gguf_library(kind: Kind, tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((6, 512), np.float32)
    plain = kind in (Kind.F32, Kind.F16, Kind.BF16)
    data = gguf.quants.quantize(values, kind) if plain else random_blocks(kind, 6, 512)
    writer = gguf.GGUFWriter(tmp_path / "it.gguf", "llama")
    writer.add_tensor("odd", values[:, :7].copy())
    writer.add_tensor("wanted", data, raw_dtype=kind)
    write(writer)
    header = read_header(tmp_path / "it.gguf", "it")
    odd, wanted = header.tensors["odd"], header.tensors["wanted"]
    assert torch.equal(numbers_of(odd.kind, odd.read()), torch.from_numpy(values[:, :7]))
    expected = torch.from_numpy(gguf.quants.dequantize(data, kind).copy())
    assert torch.equal(numbers_of(kind, wanted.read()), expected)
    assert torch.equal(numbers_of(kind, wanted.read(2, 5)), expected[2:5])


@pytest.mark.parametrize(
    ("kind", "four"),
    [
        ("llama", Kind.Q4_1),
        ("qwen2", Kind.Q5_0),
        ("qwen3", Kind.Q6_K),
        ("llama", Kind.Q5_K),
        ("gemma2", Kind.Q8_0),
        ("gemma3", Kind.Q4_K),
    ],
)
@torch.no_grad()
def test_a_model_of_a_file_has_its_numbers(kind: str, four: Kind, tmp_path: Path) -> None:
    """Bit for bit where they are read as numbers; with scales in float16 where they are kept."""
    _, wanted = stored(tmp_path / SOURCE, kind, four)
    ids = random_ids(9)[None]
    full: Any = read_model(tmp_path, wanted.config, "it", torch.float32, lambda _: None)
    for name, parameter in wanted.named_parameters():
        assert torch.equal(parameter, full.get_parameter(name)), name
    kept: Any = read_model(tmp_path, wanted.config, "it", None, lambda _: None)
    if not lacks_products():
        layers = [each for each in kept.modules() if isinstance(each, QuantisedLinear)]
        assert (
            len(layers) == 7 * wanted.config.num_hidden_layers + wanted.config.tie_word_embeddings
        )
        table = kept.get_input_embeddings()
        assert isinstance(table, QuantisedEmbedding)
        assert torch.equal(table(ids), full.get_input_embeddings()(ids))
    torch.testing.assert_close(kept(ids).logits, wanted(ids).logits, atol=5e-3, rtol=5e-3)


def random_levels(form: Form, rows: int, columns: int) -> Levels:
    levels = torch.randint(2**form.bits, (rows, columns), dtype=torch.uint8)
    scales, minimums = (
        torch.rand(rows, columns // form.group).half().float() / 16 for _ in range(2)
    )
    return Levels(form, levels, scales, -8 * minimums if form.minimums else None)


def packed_as(kind: type[Packed] | type[Int4], levels: Levels) -> Packed | Int4:
    rows, columns = levels.levels.shape
    weight = Packed(rows, columns, levels.form) if kind is Packed else Int4(rows, columns)
    weight.fill(0, levels)
    return weight


@torch.inference_mode()
@pytest.mark.parametrize(
    ("kind", "form", "error"),
    [
        *(pytest.param(Packed, form, 1e-4, marks=native) for form in set(FORMS.values())),
        pytest.param(
            Int4,
            Form(4, 32, 0, 1),
            1e-2,
            marks=pytest.mark.skipif(not multiplies_int4(), reason="no kernel"),
        ),
    ],
)
def test_a_row_is_the_same_in_every_pass_and_near_the_product_of_the_file(
    kind: type[Packed] | type[Int4], form: Form, error: float
) -> None:
    torch.manual_seed(0)
    odd = 41 if kind is Packed else 48  # rows are packed by 16
    parts, bias = [random_levels(form, rows, 96) for rows in (64, odd)], torch.randn(64 + odd)
    layer = QuantisedLinear([packed_as(kind, each) for each in parts], bias)
    x, other = torch.randn(1, 99, 96), torch.randn(1, 99, 64 + odd)
    exact = x @ torch.cat([each.numbers() for each in parts]).T + bias
    all_rows = layer(x)
    for rows in range(1, 80):
        assert torch.equal(layer(x[:, :rows]), all_rows[:, :rows])
        assert torch.equal(layer(x[:, 80 - rows : 80]), all_rows[:, 80 - rows : 80])
    for actual, wanted in ((all_rows, exact), (layer.added(x, other.clone()), exact + other)):
        assert actual.dtype == torch.float32
        assert (actual - wanted).norm() < error * wanted.norm()


@native
@torch.inference_mode()
def test_rows_of_a_table_are_its_numbers_and_what_is_not_finite_stays_so() -> None:
    torch.manual_seed(0)
    for form in set(FORMS.values()):
        levels = random_levels(form, 41, 64)
        weight = packed_as(Packed, levels)
        assert isinstance(weight, Packed)
        ids = torch.randint(41, (30,))
        assert torch.equal(weight.at(ids), levels.numbers()[ids])
        apart = torch.full((len(ids), 3), 1 << 60).index_copy(1, torch.tensor([1]), ids[:, None])
        assert torch.equal(weight.at(apart[:, 1]), levels.numbers()[ids])
        for wrong in (torch.tensor([41]), torch.tensor([-1])):
            with pytest.raises(IndexError):
                weight.at(wrong)
        x = torch.zeros(4, 64)
        x[1, 3], x[2, 5] = torch.inf, torch.nan
        into = torch.empty(4, 41)
        weight.multiply(x, into)
        assert into[[0, 3]].eq(0).all() and into[1:3].isnan().all()


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


@native
@torch.inference_mode()
def test_layers_of_which_only_some_are_quantised_are_joined() -> None:
    torch.manual_seed(0)
    plain, x = nn.Linear(64, 16), torch.randn(3, 64)
    few = QuantisedLinear([packed_as(Packed, random_levels(Form(8, 32, 128, 0), 32, 64))], None)
    torch.testing.assert_close(joined([plain, few])(x), torch.cat([plain(x), few(x)], -1))


@pytest.fixture(scope="module")
def pool() -> ModelPool:
    return ModelPool(device="cpu")


@native
def test_auto_keeps_what_a_file_has_exactly_and_strict_is_none(file: Path, pool: ModelPool) -> None:
    pair = pool.get(custom_pair(str(file), str(file)))
    assert (pair.exact, memory.dtype_name(pair.dtype), is_fast(pair.target)) == (
        True,
        "gguf",
        True,
    ), pair.inexact
    assert (pool.numbers, ModelPool(device="cpu", dtype="bfloat16").numbers) == (
        "number format chosen by model",
        "bfloat16",
    )
    for temperature in (0.0, 1.0):
        traces = [
            traced(pair, drafter, Sampling(temperature), prompt="ab abc " * 9, new=60)
            for drafter in (DrafterConfig("none"), *CHAINS)
        ]
        assert traces[0].config.environment["dtype"] == "gguf"
        assert (
            len(
                {
                    tuple((each.id, each.z1, each.z2, each.logprob) for each in trace.tokens)
                    for trace in traces
                }
            )
            == 1
        )


@native
def test_a_continued_run_has_the_drafts_of_the_run(file: Path, pool: ModelPool) -> None:
    """Whose draft model read the beginning in drafts of few rows."""
    pair = pool.get(custom_pair(str(file), str(file)))
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
    ("four", "without", "reason"),
    [
        (Kind.Q5_0, "products", "no compiler"),
        (Kind.IQ4_NL, "", "its file has tensors in IQ4_NL"),
        (Kind.F32, "", "its file has no quantised tensors"),
    ],
)
def test_what_cannot_be_kept_is_read_as_numbers_and_named(
    four: Kind, without: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without:
        for place in (header_file, weights):
            monkeypatch.setattr(place, "lacks_products", lambda: reason)
    table = Kind.F32 if four is Kind.F32 else Kind.Q8_0
    path, _ = stored(tmp_path / "it.gguf", four=four, table=table)
    assert load(path).dtype == torch.float32
    with pytest.raises(ModelError, match=f"cannot be used in gguf here: {reason}; choose"):
        load(path, dtype="gguf")


@pytest.mark.skipif(not multiplies_int4(), reason="no kernel")
def test_without_a_compiler_4_bits_are_multiplied_by_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (header_file, weights):
        monkeypatch.setattr(place, "lacks_products", lambda: "no compiler")
    path, _ = stored(tmp_path / "it.gguf", four=Kind.Q4_0)
    pair = load(path)
    assert memory.dtype_name(pair.dtype) == "gguf" and pair.exact, pair.inexact
    read = [each.weights for each in pair.target.modules() if isinstance(each, QuantisedLinear)]
    assert read and all(isinstance(each, Int4) for some in read for each in some)


@native
def test_a_draft_model_without_such_a_file_runs_in_float32(file: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    target = load(file)
    draft = tiny_checkpoint("llama", tmp_path, vocab_size=len(TOKENS))
    AutoTokenizer.from_pretrained(target.target.name_or_path).save_pretrained(draft)
    pair = load(file, draft)
    assert pair.draft is not None and (memory.dtype_name(pair.dtype), pair.draft.dtype) == (
        "gguf",
        torch.float32,
    )
    assert not any(isinstance(each, QuantisedLinear) for each in pair.draft.modules())


def test_kept_weights_are_for_processors() -> None:
    with pytest.raises(ValueError, match="dtype is 'gguf', which is for CPUs"):
        memory.pick_dtype("gguf", torch.device("cuda", 0))


def test_products_that_cannot_be_compiled_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not multiplies_int4():
        pytest.skip("another processor")
    compiled.library.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        monkeypatch.setattr(compiled, "which", lambda _: "false")
        assert "could not be compiled" in lacks_products()
        assert [*tmp_path.rglob("*.so")] == []
    finally:
        compiled.library.cache_clear()


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
    config = PreTrainedConfig(dtype=stored)
    assert suited(PlannedModel(ModelRef("it"), tmp_path, config, parameters)) == wanted
