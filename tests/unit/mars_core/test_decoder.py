"""Fast layers, packed weights and caches: a pass over any of them gives the logits of a new pass
through the model as it was loaded, whatever else is read, not rounded to half precision, with masks
that every kernel takes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, PreTrainedModel

from mars_core.decoder import CacheSize, PassShapes, is_fast, open_cache, prepare
from mars_core.decoder.attention import Heads, attend
from mars_core.decoder.cache import CHUNK
from mars_core.decoder.fast_cache import FastCache
from mars_core.decoder.linear import PackedLinear, TiedLinear, WideLinear
from mars_core.decoder.packing import pack
from mars_core.verification import ancestors
from tests.checkpoints import CONTEXT, FAST, KINDS, random_ids, tiny_config, tiny_model

LONG = CHUNK + 100  # more than one chunk
FIXED, EVEN = PassShapes(16, 16, 128), PassShapes(2, 64, 32)


def built(kind: str, **options: Any) -> PreTrainedModel:
    return tiny_model(kind, seed=3, **{"max_position_embeddings": 4 * LONG, **options})


def prepared(model: PreTrainedModel) -> PreTrainedModel:
    model = copy.deepcopy(model)
    prepare(model)
    return model


def uncached(model: PreTrainedModel, ids: Tensor) -> Tensor:
    logits: Tensor = model(ids[None], use_cache=False).logits[0]
    return logits


@pytest.fixture(
    scope="module",
    params=[
        *KINDS,
        "llama, biases",
        "qwen3, windows",
        "llama, llama3",
        "phi3, partial",
        "llama, one group",
    ],
)
def plain(request: pytest.FixtureRequest) -> PreTrainedModel:
    kind, _, variant = request.param.partition(", ")
    options: dict[str, dict[str, Any]] = {
        "": {},
        "biases": {"attention_bias": True, "mlp_bias": True},
        "windows": {
            "use_sliding_window": True,
            "sliding_window": 8,
            "layer_types": ["full_attention", "sliding_attention"],
        },
        "llama3": {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
        "partial": {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            }
        },
        "one group": {"num_key_value_heads": 4},
    }
    model = built(kind, **options[variant])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # norms and biases that are all 1 or 0 would hide a mistake
                weight.copy_((1.0 if "norm" in name else 0.0) + 0.2 * torch.randn_like(weight))
    return model


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Those of all passes from now on."""
    seen, attention = list[Tensor](), nn.functional.scaled_dot_product_attention

    def watched(*args: Any, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        seen.extend([] if attn_mask is None else [attn_mask])
        return attention(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", watched)
    return seen


@torch.no_grad()
def test_passes_after_rollbacks_are_those_of_a_fresh_pass(
    plain: PreTrainedModel, masks: list[Tensor]
) -> None:
    """A prompt, chains that are kept in part, one token, many tokens. Kernels of CUDA check the
    address of a mask: one that begins amid another's memory stops a run there."""
    model, ids = prepared(plain), random_ids(90)
    fast = plain.config.model_type.removesuffix("_text") in FAST
    assert is_fast(model) is fast
    copied = plain.get_input_embeddings().weight.numel() if plain.config.tie_word_embeddings else 0
    planned = pytest.approx(plain.num_parameters() + copied, rel=0.01)
    assert not fast or model.num_parameters() == planned
    for size in (
        CacheSize(120, 8),
        CacheSize(120, 8, full_width=True),
        CacheSize(120, 16, FIXED, full_width=True),
        CacheSize(120, 60, EVEN),
    ):
        cache, at = open_cache(model, size), 20
        cache.read(ids[:20])
        for count, accepted in ((6, 3), (6, 6), (1, 1), (40, 2), (5, 0), (6, 4)):
            wrong = torch.cat([ids[at : at + accepted], random_ids(count - accepted, seed=1)])
            wanted = uncached(plain, torch.cat([ids[:at], wrong]))[at:]
            masks.clear()
            actual, last = cache.forward(wrong, at), cache.forward(wrong, at, logits=1)
            torch.testing.assert_close(actual, wanted, atol=2e-4, rtol=1e-3)
            torch.testing.assert_close(last, wanted[-1:], atol=2e-4, rtol=1e-3)
            at += accepted
            assert all(each.is_contiguous() and each.data_ptr() % 64 == 0 for each in masks)
    assert masks


@torch.no_grad()
def test_a_tree_is_read_path_by_path_and_a_path_is_moved(
    plain: PreTrainedModel, masks: list[Tensor]
) -> None:
    if plain.config.model_type in ("gpt2", "gpt_neox"):
        return  # EAGLE-3 heads, the only ones that draft trees, exist for other architectures
    model, ids = prepared(plain), random_ids(14)
    parents, depths = torch.tensor([0, 0, 1, 2, 2, 4]), torch.tensor([0, 1, 1, 2, 2, 2, 3])
    nodes, path = random_ids(7, seed=2), torch.tensor([0, 2, 4, 6])
    alone = []
    for node in range(7):
        way = [node]
        while way[0]:
            way.insert(0, int(parents[way[0] - 1]))
        alone.append(uncached(plain, torch.cat([ids, nodes[way]]))[-1])
    text = torch.cat([ids, nodes[path]])
    wanted = uncached(plain, torch.cat([text, ids[:2]]))[-2:]
    for size in (
        CacheSize(60, 7),
        CacheSize(60, 16, full_width=True),
        CacheSize(60, 16, FIXED, full_width=True),
    ):
        cache = open_cache(model, size)
        cache.read(ids)
        masks.clear()
        actual = cache.forward_tree(nodes, len(ids), depths, ancestors(parents, 3))
        assert all(each.is_contiguous() and each.data_ptr() % 64 == 0 for each in masks)
        torch.testing.assert_close(actual, torch.stack(alone), atol=2e-4, rtol=1e-3)
        cache.move(path + len(ids), torch.arange(len(ids), len(text)))
        torch.testing.assert_close(cache.forward(ids[:2], len(text)), wanted, atol=2e-4, rtol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gemma3", "granite"])
def test_a_long_prompt_is_read_in_chunks_and_its_features_are_those_of_the_layers(
    kind: str,
) -> None:
    plain, ids = built(kind), random_ids(LONG)
    hidden = plain(ids[None], output_hidden_states=True, use_cache=False).hidden_states
    feature_layers = torch.cat([hidden[0][0], hidden[1][0]], -1)
    cache = open_cache(prepared(plain), CacheSize(LONG, 8), feature_layers=(0, 1))
    torch.testing.assert_close(cache.read(ids), feature_layers, atol=1e-4, rtol=1e-3)
    after = cache.forward(ids[-3:], LONG - 3)
    torch.testing.assert_close(after, uncached(plain, ids)[-3:], atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(cache.features[0, :3], feature_layers[-3:], atol=1e-4, rtol=1e-3)
    cache.forward_tree(ids[-3:], LONG - 3, torch.arange(3), torch.ones(3, 3).tril().bool())
    torch.testing.assert_close(cache.features[0, :3], feature_layers[-3:], atol=1e-4, rtol=1e-3)


HALF = torch.bfloat16


def ready(kind: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    model = tiny_model(kind, seed=3, dtype=dtype)
    prepare(model)
    return model


@torch.no_grad()
def test_padding_has_no_position_beyond_the_context() -> None:
    """Learned positions end with the context, and the last pass of a text may be padded."""
    plain, ids = tiny_model("gpt2", seed=3), random_ids(CONTEXT)
    size = CacheSize(CONTEXT, 6, PassShapes(row_step=4, width_step=128))
    cache = open_cache(ready("gpt2"), size)
    cache.read(ids[: CONTEXT - 2])
    last = cache.forward(ids[CONTEXT - 2 :], CONTEXT - 2)
    torch.testing.assert_close(last, plain(ids[None]).logits[0, -2:], rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_what_a_draft_reads_before_the_first_token_is_that_token(kind: str) -> None:
    """A draft begins with the last two tokens of a text, which may have one."""
    plain, ids = tiny_model(kind, seed=3), random_ids(1)
    last = open_cache(ready(kind), CacheSize(8, 4)).forward(ids.repeat(2), -1, logits=1)
    torch.testing.assert_close(last, uncached(plain, ids), rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(("number", "kind"), [*enumerate(FAST)])
def test_a_tokens_logits_are_bitwise_the_same_in_every_pass(
    number: int, kind: str, dtype: torch.dtype
) -> None:
    """Tokens one by one, six at once, forty at once (in several passes, where there are fewer
    rows), and with others behind them. Each architecture has both sizes, by its dtype."""
    sizes = CacheSize(80, 16, FIXED, full_width=True), CacheSize(80, 60, EVEN)
    size = sizes[(number + (dtype is HALF)) % 2]
    cache, ids = open_cache(ready(kind, dtype), size), random_ids(60)
    cache.read(ids[:10])

    def read(count: int, behind: Callable[[int], Tensor] = lambda _: ids[:0]) -> Tensor:
        chunks = [ids[at : at + count] for at in range(10, 60, count)]
        starts = range(10, 60, count)
        rows = [
            cache.forward(torch.cat([chunk, behind(at)]), at)[: len(chunk)]
            for at, chunk in zip(starts, chunks, strict=True)
        ]
        return torch.cat(rows)

    alone = read(1)
    assert torch.equal(read(6), alone)
    assert torch.equal(read(40), alone)
    assert torch.equal(read(2, lambda at: random_ids(9, seed=at)), alone)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "gemma3", "gpt2"])
def test_logits_of_half_precision_are_not_rounded_to_it(kind: str) -> None:
    """Whether the output layer stands behind fast layers or transformers' modules, soft-capped or
    tied to the input's."""
    cache = open_cache(ready(kind, HALF), CacheSize(40, 8))
    logits = cache.forward(random_ids(12), 0)
    assert logits.dtype == torch.float32
    assert (logits != logits.to(HALF).float()).float().mean() > 0.5


@pytest.mark.parametrize("bias", [True, False])
def test_the_output_layer_of_cuda_gives_sums_that_were_never_rounded(
    bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = torch.mm

    def mm(left: Tensor, right: Tensor, *, out_dtype: torch.dtype) -> Tensor:
        assert left.dtype == right.dtype == HALF
        return product(left.to(out_dtype), right.to(out_dtype))

    monkeypatch.setattr(torch, "mm", mm)  # only CUDA has the option
    plain, x = nn.Linear(32, 7, bias=bias, dtype=HALF), torch.randn(2, 3, 32, dtype=HALF)
    with torch.no_grad():
        actual = WideLinear(plain.weight, plain.bias)(x)
        torch.testing.assert_close(actual, plain.float()(x.float()), atol=1e-5, rtol=1e-5)


def test_only_plain_layers_in_a_dtype_of_the_processor_are_packed_and_counts_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)

    class Odd(nn.Linear):
        """A subclass may compute something else."""

    half = nn.Linear(4, 4).to(torch.bfloat16)
    model = nn.Sequential(nn.Linear(4, 4), Odd(4, 4), half, nn.LayerNorm(4))
    sizes = [(weight.shape, weight.dtype) for weight in model.parameters()]
    pack(model)
    assert [type(layer) for layer in model] == [PackedLinear, Odd, nn.Linear, nn.LayerNorm]
    assert [(weight.shape, weight.dtype) for weight in model.parameters()] == sizes
    assert model[0].weight.is_meta, "the numbers are in memory once"


@pytest.mark.parametrize(
    "heads", [(4, 4, 64), (4, 2, 64), (9, 3, 64), (8, 2, 64), (2, 1, 128), (4, 1, 256)]
)
@pytest.mark.parametrize("cap", [None, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_attention_of_a_row_does_not_depend_on_the_rows_beside_it(
    heads: tuple[int, int, int], cap: float | None, dtype: torch.dtype
) -> None:
    """Kernels read 32 rows at a time, of all query heads that share a key head; the last ones may
    be fewer."""
    torch.manual_seed(0)
    (query, key, size), width, most = heads, 128, 64
    q, keys, values = (
        torch.randn(1, most, query, size),
        torch.randn(1, key, width, size),
        torch.randn(1, key, width, size),
    )
    visible = torch.arange(width) <= width - most + torch.arange(most)[:, None]
    mask = torch.where(visible, 0.0, torch.finfo(dtype).min).repeat_interleave(query // key, 0)

    def attended(rows: slice) -> Tensor:
        parts = (
            each.to(dtype)
            for each in (
                q[:, rows],
                keys,
                values,
                mask.unflatten(0, (most, -1))[rows].flatten(0, 1),
            )
        )
        return attend(*parts, Heads(query, key, size, size**-0.5, cap))

    full_width = attended(slice(None))
    for count in range(1, most):
        for first in {0, 1, most - count}:
            rows = slice(first, first + count)
            assert torch.equal(attended(rows), full_width[:, rows]), count


@pytest.mark.parametrize("large", [True, False])
def test_a_large_tied_table_is_in_memory_once(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    monkeypatch.setattr("mars_core.decoder.packing._SMALL", 0 if large else 2**26)
    config = tiny_config("llama", tie_word_embeddings=True)
    model = (
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)
    )
    ids = torch.tensor([[5, 9, 5, 30, 7, 8]])
    wanted = model(ids).logits
    pack(model)
    table, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    assert type(output) is (TiedLinear if large else PackedLinear)
    assert (output.weight.data_ptr() == table.data_ptr()) is large and hasattr(
        output, "packed"
    ) is not large
    torch.testing.assert_close(model(ids).logits, wanted, atol=1e-4, rtol=1e-4)


class Kernels(TorchDispatchMode):
    """Counts the operators that compute or copy: those that write to memory that their inputs do
    not share with them, or to an input."""

    def __init__(self) -> None:
        super().__init__()
        self.names = Counter[str]()

    def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        of_inputs = {each.untyped_storage().data_ptr() for each in tensors(args)}
        shared = {each.untyped_storage().data_ptr() for each in tensors(results)} <= of_inputs
        if function._schema.is_mutable or not shared:
            self.names[str(function)] += 1
        return results


def tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


@pytest.mark.parametrize(("kind", "most"), [("llama", 14), ("qwen3", 16)])
def test_a_layer_takes_few_kernels(kind: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pass over several tokens, as on a GPU: with plain products in half precision, masks of
    one width, and queries that are not copied. Each is a launch there."""
    monkeypatch.setattr("mars_core.decoder.packing._can_pack", lambda: False)
    monkeypatch.setattr("mars_core.decoder.packing.halvable", lambda _: False)
    counts = []
    for layers in (1, 2):
        model = built(kind, num_hidden_layers=layers).bfloat16()
        prepare(model)
        cache = open_cache(model, CacheSize(64, 16, full_width=True))
        assert isinstance(cache, FastCache)
        ids, prompt = random_ids(4), random_ids(5)
        cache.read(prompt)
        with torch.inference_mode():
            copied = cache.forward(ids, 5)
            with monkeypatch.context() as patch, Kernels() as kernels:
                patch.setattr("mars_core.decoder.attention._FOLDS", ())
                patch.setattr("mars_core.decoder.attention._ROWS", {"cpu": 2})
                logits = cache.forward(ids, 5)
        torch.testing.assert_close(logits, copied, atol=0.1, rtol=0.1)
        counts.append(kernels.names)
    layer = counts[1] - counts[0]
    assert sum(layer.values()) <= most, layer
    assert layer["aten.linear.default"] == layer["aten.addmm_.default"] == 2
    assert layer["aten.index_copy_.default"] == 1
