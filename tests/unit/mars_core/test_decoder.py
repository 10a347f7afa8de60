"""Fast layers and caches in memory that is taken once: a pass over any of them gives the logits of a fresh pass through the model as it
was loaded."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder import CacheSize, is_fast, open_cache, prepare
from mars_core.decoder.cache import CHUNK
from mars_core.verification import ancestors
from tests.checkpoints import KINDS, random_ids, tiny_model

FAST = ("llama", "mistral", "phi3", "qwen2", "qwen3")
LONG = CHUNK + 100  # more than one chunk


def built(kind: str, **options: Any) -> PreTrainedModel:
    return tiny_model(kind, seed=3, **{"max_position_embeddings": 4 * LONG, **options})


def prepared(model: PreTrainedModel) -> PreTrainedModel:
    model = copy.deepcopy(model)
    prepare(model)
    return model


def fresh(model: PreTrainedModel, ids: Tensor) -> Tensor:
    logits: Tensor = model(ids[None], use_cache=False).logits[0]
    return logits


@pytest.fixture(
    scope="module",
    params=[*KINDS, "llama, biases", "qwen3, windows", "llama, llama3", "phi3, partial", "llama, one group"],
)
def plain(request: pytest.FixtureRequest) -> PreTrainedModel:
    kind, _, variant = request.param.partition(", ")
    options: dict[str, dict[str, Any]] = {
        "": {},
        "biases": {"attention_bias": True, "mlp_bias": True},
        "windows": {
            "use_sliding_window": True, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"],
        },
        "llama3": {
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
        "partial": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
        "one group": {"num_key_value_heads": 4},
    }  # fmt: skip
    model = built(kind, **options[variant])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # norms and biases that are all 1 or 0 would hide a mistake
                weight.copy_((1.0 if "norm" in name else 0.0) + 0.2 * torch.randn_like(weight))
    return model


@torch.no_grad()
def test_passes_after_rollbacks_are_those_of_a_fresh_pass(plain: PreTrainedModel) -> None:
    """A prompt, chains that are kept in part, one token, many tokens."""
    model, ids = prepared(plain), random_ids(90)
    fast = plain.config.model_type in FAST
    assert is_fast(model) is fast
    planned = pytest.approx(plain.num_parameters(), rel=0.01)
    assert not fast or model.num_parameters() == planned
    cache = open_cache(model, CacheSize(120, 8))
    cache.read(ids[:20])
    at = 20
    for count, kept in ((6, 3), (6, 6), (1, 1), (40, 2), (5, 0), (6, 4)):
        wrong = torch.cat([ids[at : at + kept], random_ids(count - kept, seed=1)])
        found, wanted = cache.forward(wrong, at), fresh(plain, torch.cat([ids[:at], wrong]))[at:]
        torch.testing.assert_close(found, wanted, atol=2e-4, rtol=1e-3)
        torch.testing.assert_close(cache.forward(wrong, at, logits=1), wanted[-1:], atol=2e-4, rtol=1e-3)
        at += kept


@torch.no_grad()
def test_a_tree_is_read_path_by_path_and_a_path_is_moved(plain: PreTrainedModel) -> None:
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
        alone.append(fresh(plain, torch.cat([ids, nodes[way]]))[-1])
    text = torch.cat([ids, nodes[path]])
    wanted = fresh(plain, torch.cat([text, ids[:2]]))[-2:]
    for size in (CacheSize(60, 7), CacheSize(60, 16, whole=True), CacheSize(60, 16, 16, whole=True)):
        cache = open_cache(model, size)
        cache.read(ids)
        found = cache.forward_tree(nodes, len(ids), depths, ancestors(parents, 3))
        torch.testing.assert_close(found, torch.stack(alone), atol=2e-4, rtol=1e-3)
        cache.move(path + len(ids), torch.arange(len(ids), len(text)))
        torch.testing.assert_close(cache.forward(ids[:2], len(text)), wanted, atol=2e-4, rtol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("kind", [*FAST, "gemma3"])
def test_whole_passes_are_tight_ones(kind: str) -> None:
    """From a start on the host and, over fast layers, on the device: chains, a tree, and a prompt that has not begun."""
    model, ids = prepared(built(kind)), random_ids(40)
    tight, whole = open_cache(model, CacheSize(100, 8)), open_cache(model, CacheSize(100, 8, whole=True))
    depths, sees = torch.tensor([0, 1, 1, 2]), ancestors(torch.tensor([0, 0, 2]), 2)
    for length in (0, 1, 17, 30):
        for cache in (tight, whole):
            cache.read(ids[:length])
        chain, tree = tight.forward(ids[30:36], length), tight.forward_tree(ids[:4], length, depths, sees)
        for start in (length, torch.tensor(length)) if kind in FAST else (length,):
            torch.testing.assert_close(whole.forward(ids[30:36], start), chain, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(whole.forward_tree(ids[:4], start, depths, sees), tree, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma3"])
def test_a_long_prompt_is_read_in_chunks_and_its_features_are_those_of_the_layers(kind: str) -> None:
    plain, ids = built(kind), random_ids(LONG)
    hidden = plain(ids[None], output_hidden_states=True, use_cache=False).hidden_states
    taps = torch.cat([hidden[0][0], hidden[1][0]], -1)
    model = prepared(plain)
    cache = open_cache(model, CacheSize(LONG, 8), taps=(0, 1))
    address = cache.features.data_ptr()
    torch.testing.assert_close(cache.read(ids), taps, atol=1e-4, rtol=1e-3)
    after = cache.forward(ids[-3:], LONG - 3)
    torch.testing.assert_close(after, fresh(plain, ids)[-3:], atol=2e-4, rtol=1e-3)
    torch.testing.assert_close(cache.features[:3], taps[-3:], atol=1e-4, rtol=1e-3)
    cache.forward_tree(ids[-3:], LONG - 3, torch.arange(3), torch.ones(3, 3).tril().bool())
    torch.testing.assert_close(cache.features[:3], taps[-3:], atol=1e-4, rtol=1e-3)
    assert cache.features.data_ptr() == address
    assert not any(layer._forward_pre_hooks for layer in model.modules()), "runs share the model"
    steps = open_cache(model, CacheSize(LONG, 16, 16, whole=True), taps=(0, 1))
    torch.testing.assert_close(steps.reread(ids[:50], 0), taps[:50], atol=1e-4, rtol=1e-3)


def test_a_scaling_of_its_own_is_read_from_the_layer() -> None:
    plain = built("llama")
    layer: Any = plain.get_decoder().layers[1]
    layer.self_attn.scaling *= 1.5
    assert is_fast(prepared(plain))
