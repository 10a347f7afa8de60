"""Triton's kernels, interpreted on the CPU and compiled for GPUs: near the plain layers, and bit for
bit the same whatever is read beside a token."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mars_core.decoder import ANY_SHAPE, KERNELS, CacheSize, is_fast, open_cache, prepare
from mars_core.decoder.fast_cache import FastCache
from mars_core.decoder.layer import Norm
from mars_core.decoder.positions import Rows
from mars_core.eagle3.cache import prepare_head
from mars_core.models import ModelPool, Pair, PairSpec, custom_pair
from mars_core.models.checks.exactness import find_shapes
from mars_core.models.idle import Engines
from mars_core.session import Session
from mars_core.types import DrafterConfig, ModelRef, Sampling, Trace, TreeShape
from mars_core.verification import ancestors
from tests import eagle_heads
from tests.checkpoints import random_ids, tiny_checkpoint, tiny_model, tiny_tokenizer
from tests.eagle_heads import save_head
from tests.interpreted import compiled, interpreted
from tests.kernel_passes import DEPTHS, PARENTS, cache_of_kernels, head_outputs
from tests.live_pairs import config_for, disturbed, traced
from tests.replay import replayed
from tests.unit.mars_core.test_exact import numbers

triton = pytest.importorskip("triton")
from mars_core.decoder.fused import Fused  # noqa: E402

DUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
HALF, BRAIN, FULL = torch.float16, torch.bfloat16, torch.float32
# Largest difference of logits with a standard deviation of about 1.
NEAR = {HALF: 0.02, BRAIN: 0.15, FULL: 1e-4}
TINY: dict[str, Any] = dict(
    num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=160
)
NEW = 9  # tokens
DRAFTERS = {
    "none": DrafterConfig("none"),
    "draft model": DrafterConfig("model", k=3),
    "head": DrafterConfig("eagle3", k=2),
    "tree": DrafterConfig("eagle3", tree=TreeShape(6, 2, 3)),
}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}


@pytest.fixture
def cpu() -> Iterator[None]:
    with interpreted(), torch.inference_mode():
        yield


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("kind", "dtype", "options"),
    [
        ("llama", BRAIN, {"attention_bias": True, "mlp_bias": True}),
        ("qwen3", HALF, {}),
        ("mistral", FULL, {}),  # with a window of 8
        ("phi3", HALF, {"hidden_size": 48, "rope_parameters": PARTIAL}),  # heads of 12, 6 turned
        ("smollm3", HALF, {"no_rope_layers": [0]}),  # nothing turned
    ],
)
def test_a_token_has_the_same_logits_alone_beside_others_and_in_a_tree(
    kind: str, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    model = tiny_model(kind, seed=3, dtype=dtype, num_hidden_layers=1, **options)
    generator = torch.Generator().manual_seed(4)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:  # norms and biases that are all 1 or 0 would hide a mistake
            moved = 0.2 * torch.randn(weight.shape, generator=generator)
            weight.copy_(moved + ("norm" in name))
    prepare(model)
    cache_of_kernels(model, NEAR[dtype])


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("kind", ["gemma", "gemma2", "gemma3", "granite", "olmo2"])
def test_layers_that_the_kernels_do_not_compute_are_read_by_plain_ones(kind: str) -> None:
    model = tiny_model(kind, dtype=HALF)
    prepare(model)
    assert is_fast(model)
    assert open_cache(model, CacheSize(40, 8, KERNELS)).path == "fast layers"
    assert find_shapes(model, random_ids(120), exact=False, kernels=True).shapes == ANY_SHAPE


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("window", [None, 300])
def test_a_long_text_is_summed_span_by_span_in_every_slot(window: int | None) -> None:
    model = tiny_model(
        "mistral",
        dtype=HALF,
        sliding_window=window,
        num_hidden_layers=1,
        max_position_embeddings=640,
    )
    prepare(model)
    ids, at = random_ids(535), 530
    plain, cache = (
        open_cache(model, CacheSize(560, 8, shapes, slots=2)) for shapes in (ANY_SHAPE, KERNELS)
    )
    for each in (plain, cache):
        for slot, shorter in ((0, 0), (1, 270)):
            each.read(ids[shorter:at], slot=slot)
    places = [at, at - 270]
    rows = Rows(range(2), places, torch.tensor(places))
    wanted, together = (each.chains(ids[None, at:].expand(2, -1), rows) for each in (plain, cache))
    assert (wanted - together).abs().max() < NEAR[HALF]
    alone = [
        cache.chains(ids[None, at : at + 1], Rows.one(place, slot))
        for slot, place in enumerate(places)
    ]
    assert torch.equal(torch.cat(alone), together[:, :1])


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize(
    ("size", "deep", "gated", "normed"),
    [(70, 1100, False, False), (33, 200, True, True), (40, 1600, True, False)],
)
def test_a_product_is_near_that_of_torch_and_its_rows_are_those_of_single_ones(
    size: int, deep: int, gated: bool, normed: bool
) -> None:
    """Where several programs sum a tile, and where sizes are no multiples of it."""
    model = tiny_model("llama", num_hidden_layers=1)
    prepare(model)
    cache = open_cache(model, CacheSize(8, 8, KERNELS))
    assert isinstance(cache, FastCache) and isinstance(cache.layers.fused, Fused)
    layers = cache.layers.fused
    torch.manual_seed(0)
    layer = nn.Linear(deep, size * (1 + gated))
    norm = Norm(1 + 0.1 * torch.randn(deep), 1e-5) if normed else None
    x, residual = torch.randn(18, deep), torch.randn(18, size)
    wanted = layer(norm(x) if norm else x)
    if gated:
        gate, up = wanted.chunk(2, -1)
        wanted = nn.functional.silu(gate) * up
    product = layers.product(x, layer, norm, to=residual.clone(), gated=gated)
    torch.testing.assert_close(product, wanted + residual, atol=1e-4, rtol=1e-4)
    for row in (0, 17):
        alone = layers.product(x[row:][:1], layer, norm, to=residual[row:][:1].clone(), gated=gated)
        assert torch.equal(alone, product[row:][:1])


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("options", [{}, {"norm_before_residual": True, "qk_norm": True}], ids=str)
def test_a_head_drafts_as_by_its_plain_layer(options: dict[str, Any]) -> None:
    """A tree of two levels, and its path as a chain."""
    target = tiny_model("llama", seed=1, dtype=HALF)
    config = eagle_heads.tiny_config(target.config, feature_layers=(0, 1, 1), **options)
    head = eagle_heads.random_head(config, target).to(HALF)
    prepare_head(head)
    hidden = torch.randn(12, 32, generator=torch.Generator().manual_seed(0)).to(HALF)
    _, plain, outputs = head_outputs(head, hidden)
    assert (plain - outputs).abs().max() < NEAR[HALF]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> PairSpec:
    """Return a target with a draft that is often right, and a head."""
    folder = tmp_path_factory.mktemp("pair")
    tiny_checkpoint("llama", folder / "target", **TINY)
    target = tiny_model("llama", **TINY)
    disturbed(target, 0.05).save_pretrained(folder / "draft")
    tiny_tokenizer(folder / "draft")
    config = eagle_heads.tiny_config(target.config, feature_layers=(0, 0, 0), num_key_value_heads=1)
    save_head(eagle_heads.random_head(config, target), folder / "head")
    refs = (ModelRef(str(folder / name)) for name in ("target", "draft", "head"))
    return replace(custom_pair(next(refs), next(refs)), head=next(refs))


def loaded(spec: PairSpec) -> Pair:
    with interpreted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("mars_core.models.checks.exactness._TOKENS", 10)
        return ModelPool(device="cpu", dtype="float16", kernels=True).get(spec)


@pytest.fixture(scope="module")
def pair(spec: PairSpec) -> Pair:
    """Return the pair as it is loaded on a GPU."""
    return loaded(spec)


def written(pair: Pair, drafter: DrafterConfig, prefix: tuple[int, ...] = ()) -> Trace:
    new = NEW - len(prefix)
    return traced(pair, drafter, Sampling(1.0), prompt="once", new=new, prefix=prefix)


@pytest.fixture(scope="module")
def alone(pair: Pair) -> Trace:
    with interpreted():
        return written(pair, DRAFTERS["none"])


@pytest.mark.usefixtures("cpu")
@pytest.mark.parametrize("name", ["draft model", "head", "tree"])
def test_strict_is_the_target_alone(pair: Pair, alone: Trace, name: str) -> None:
    assert pair.exact and pair.shapes == KERNELS
    trace = written(pair, DRAFTERS[name])
    assert numbers(trace) == numbers(alone)
    assert trace.config.environment["path"] == "kernels, eager"
    assert trace.config.environment["exact"].startswith("kernels, trees too")
    if name == "tree":
        rest = written(pair, DRAFTERS[name], trace.token_ids[:6])
        assert numbers(rest) == numbers(trace)[6:]
    else:
        assert len(trace.steps) < NEW


@pytest.mark.usefixtures("cpu")
def test_captured_steps_write_the_same_text(
    pair: Pair, alone: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed(monkeypatch)
    captured = replace(pair, graphs=True, engines=Engines())
    trace = written(captured, DRAFTERS["tree"])
    assert numbers(trace) == numbers(alone)
    assert trace.config.environment["path"] == "kernels, CUDA graphs"


def test_steps_of_many_rows_and_models_that_kernels_do_not_compute_are_read_by_plain_layers(
    pair: Pair, spec: PairSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(pair, DRAFTERS["draft model"], prompt="once", new=4)
    monkeypatch.setattr("mars_core.engine.build._SPLIT", ())  # as on CUDA
    ((_, run),) = Session(pair).together([config], 40)
    assert run.config.environment["path"] == "fast layers, eager"
    assert run.config.environment["exact"] == "no: its steps have more than 128 rows"

    def broken(*_: object, **__: object) -> Tensor:
        raise triton.TritonError("no compiler")

    monkeypatch.setattr(Fused, "product", broken)
    assert not loaded(spec).shapes.kernels


LARGE: dict[str, Any] = dict(
    num_hidden_layers=1, num_key_value_heads=2, intermediate_size=1024, max_position_embeddings=512
)


@pytest.mark.parametrize(
    ("arch", "dtype", "kind", "options", "count"),
    [
        (80, HALF, "qwen3", {"hidden_size": 512, "head_dim": 128}, 7),
        (90, BRAIN, "phi3", {"hidden_size": 384, "rope_parameters": PARTIAL}, 7),  # heads of 96
    ],
)
def test_kernels_are_compiled_for_tensor_cores_without_a_stack_and_once_for_any_rows(
    arch: int,
    dtype: torch.dtype,
    kind: str,
    options: dict[str, Any],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Registers that do not suffice are spilled to a stack."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with compiled(arch) as made, torch.inference_mode():
        model = tiny_model(kind, dtype=dtype, **LARGE, **options)
        prepare(model)
        cache = open_cache(model, CacheSize(400, 20, KERNELS, full_width=True))
        for rows in (16, 1, 17):
            cache.forward(random_ids(rows), 3)
        cache.forward_tree(random_ids(6), 3, DEPTHS, ancestors(PARENTS, 3))
    assert len(made) == count
    for each in made.values():
        binary = tmp_path / "kernel"
        binary.write_bytes(each.asm["cubin"])
        shown = subprocess.run([DUMP, "-res-usage", binary], capture_output=True, text=True)
        assert re.findall(r"STACK:(\d+)", shown.stdout) == ["0"], each.name
        assert ("mma.sync.aligned.m16n8k16" in each.asm["ptx"]) is (each.name != "turn")
        assert each.metadata.shared <= 99 * 1024  # bytes that every GPU from sm_80 on has
