"""EAGLE-3 heads of both families are loaded as written, or refused in one sentence that names the
culprit; and the head, as decoding runs it, computes what the papers' code computes: compared with
the published equations, written a second time.

``Straight`` shares nothing with mars_core.eagle3: it takes the tensors and the JSON of a checkpoint,
transformers' rotary positions and plain operations, one position at a time (EAGLE ``cnets.py``; speculators for the norms that
EAGLE's heads do not have).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, rotate_half

from mars_core.decoder import CacheSize
from mars_core.decoder.positions import Rows
from mars_core.eagle3.cache import HeadCache, prepare_head
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models import ModelError
from mars_core.models.eagle.checkpoint import load_eagle, plan_eagle
from mars_core.models.eagle.config import read_config
from mars_core.types import ModelRef
from tests.checkpoints import VOCABULARY, tiny_model
from tests.eagle_heads import (
    FAMILIES,
    FLAG_NAMES,
    LLAMA3,
    Family,
    random_head,
    raw_config,
    save_head,
    stored,
    tiny_config,
)
from tests.folders import refused

EMBEDDING = "embed_tokens.weight"
DRAFT = 40  # ids of a reduced draft vocabulary
MESSAGES: list[str] = []


@pytest.fixture(scope="module")
def target() -> PreTrainedModel:
    return tiny_model("llama", num_hidden_layers=8)


@pytest.fixture(scope="module")
def head(target: PreTrainedModel) -> Eagle3Head:
    return random_head(tiny_config(target.config, draft_vocabulary=DRAFT), target)


@pytest.fixture(scope="module")
def full_head(target: PreTrainedModel) -> Eagle3Head:
    """With the target's vocabulary."""
    return random_head(tiny_config(target.config), target)


def fetched(ref: ModelRef, target: PreTrainedModel) -> tuple[Eagle3Head, ModelRef]:
    return load_eagle(
        plan_eagle(ref, target.config, "org/target", MESSAGES.append), target, MESSAGES.append
    )


@dataclass
class Shelf:
    """A folder, and the target that a head in it is loaded for."""

    folder: Path
    target: PreTrainedModel
    head: Eagle3Head  # what is saved if no other is given

    def save(
        self, head: Eagle3Head | None = None, family: Family = "eagle", **options: Any
    ) -> None:
        save_head(head or self.head, self.folder, family, **options)

    def read(self, raw: dict[str, Any]) -> HeadConfig:
        return read_config(raw, self.target.config, "the/head", "org/target")

    def load(self) -> Eagle3Head:
        return fetched(ModelRef(str(self.folder)), self.target)[0]

    def refuses(self, fragments: str) -> None:
        """With these parts in the message, separated by " … "."""
        with pytest.raises(ModelError) as caught:
            self.load()
        message = refused(caught)
        assert all(part in message for part in (str(self.folder), *fragments.split(" … "))), message


@pytest.fixture
def shelf(head: Eagle3Head, target: PreTrainedModel, tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "head", target, head)


def same(loaded: Eagle3Head, written: Eagle3Head) -> bool:
    """Every weight."""
    mine, theirs = loaded.state_dict(), written.state_dict()
    return mine.keys() == theirs.keys() and all(
        torch.equal(mine[name], theirs[name]) for name in mine
    )


@pytest.mark.parametrize(
    ("family", "form", "shards", "prefix"),
    [
        ("eagle", "safetensors", 1, ""),
        ("eagle", "bin", 3, "model."),
        ("speculators", "safetensors", 3, "model."),
        ("speculators", "bin", 1, ""),
    ],
)
def test_what_either_family_writes_is_loaded_bit_for_bit(
    family: Family, form: str, shards: int, prefix: str, shelf: Shelf
) -> None:
    inside = {"midlayer.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    shelf.save(family=family, form=form, shards=shards, prefix=prefix, extra=inside)
    if form == "safetensors":  # they come before a pickle beside them
        (shelf.folder / "pytorch_model.bin").write_bytes(b"not read")
    loaded, ref = fetched(ModelRef(str(shelf.folder)), shelf.target)
    assert same(loaded, shelf.head)
    assert re.fullmatch(r"local:[0-9a-f]{12}", ref.revision or "")
    assert not loaded.training and not any(weight.requires_grad for weight in loaded.parameters())
    assert re.search(r": weights, \d+ MB$", MESSAGES[-1])


def test_absent_embeddings_are_those_of_the_target(full_head: Eagle3Head, shelf: Shelf) -> None:
    shelf.save(full_head, without=[EMBEDDING, "lm_head.weight", "d2t", "t2d"])
    loaded = shelf.load()
    assert loaded.embed_tokens is shelf.target.get_input_embeddings()
    assert loaded.lm_head.weight is shelf.target.get_output_embeddings().weight  # type: ignore[union-attr]
    assert torch.equal(loaded.target_ids(torch.arange(VOCABULARY)), torch.arange(VOCABULARY))


def test_a_tied_output_is_the_heads_embedding_if_it_has_one(
    full_head: Eagle3Head, shelf: Shelf
) -> None:
    tied, embedding = {"tie_word_embeddings": True}, {EMBEDDING: torch.randn(VOCABULARY, 32)}
    shelf.save(full_head, without=["lm_head.weight"], keys=tied, extra=embedding)
    loaded = shelf.load()
    assert loaded.lm_head.weight is loaded.embed_tokens.weight
    assert torch.equal(loaded.lm_head.weight, embedding[EMBEDDING])
    shelf.save(full_head, keys=tied)
    assert torch.equal(
        shelf.load().lm_head.weight, full_head.lm_head.weight
    )  # the key is wrong in published heads


def test_biases_that_the_trainer_never_had_are_zero(shelf: Shelf) -> None:
    shelf.save(keys={"attention_bias": True})
    loaded = shelf.load()
    assert loaded.layer.q_proj.bias is not None and not loaded.layer.q_proj.bias.any()


def edit(raw: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    """Without the keys that are None."""
    return {key: value for key, value in {**raw, **keys}.items() if value is not None}


IDS = "eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize(
    ("family", "nested", "flat", "feature_layers"),
    [
        ("eagle", None, None, (2, 4, 5)),
        ("eagle", None, [0, 3], (0, 3)),
        ("eagle", [1, 3, 4], None, (2, 4, 5)),  # outputs of layers
        ("eagle", [6, 2, 2], None, (6, 2, 2)),  # in the order of the file
        ("speculators", None, [1, 6], (1, 6)),
    ],
)
def test_the_tapped_layers_follow_the_convention_of_the_file(
    family: Family, nested: Any, flat: Any, feature_layers: tuple[int, ...], shelf: Shelf
) -> None:
    keys = {"eagle_config": None if nested is None else {IDS: nested}, IDS: flat}
    assert (
        shelf.read(edit(raw_config(shelf.head.config, family), keys)).feature_layers
        == feature_layers
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {"rope_theta": 10_000.0, "rope_type": "default"}),
        ({"rope_theta": 1_000_000}, {"rope_theta": 1e6, "rope_type": "default"}),
        (
            {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}},
            {"rope_theta": 5e5, "rope_type": "linear", "factor": 4.0},
        ),
        ({"rope_parameters": LLAMA3, "rope_theta": 3.0}, LLAMA3),
        (
            {
                "rope_theta": 500.0,
                "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "rope_theta"},
            },
            LLAMA3,
        ),
    ],
)
def test_rotary_settings_are_carried_over_from_the_old_keys(
    keys: dict[str, Any], expected: dict[str, Any], shelf: Shelf
) -> None:
    raw = edit(raw_config(shelf.head.config, "eagle"), {"rope_theta": None, "rope_scaling": None})
    assert shelf.read({**raw, **keys}).layer.rope_parameters == expected


def test_absent_keys_have_the_documented_defaults(full_head: Eagle3Head, shelf: Shelf) -> None:
    raw = raw_config(full_head.config, "eagle")
    absent = (
        "draft_vocab_size",
        "target_hidden_size",
        "vocab_size",
        "rms_norm_eps",
        "hidden_act",
        "head_dim",
        "attention_bias",
        "eagle_config",
        "architectures",
        "model_type",
        "num_hidden_layers",
    )
    config = shelf.read(edit(raw, dict.fromkeys(absent)))
    sizes = (config.draft_vocabulary, config.target_vocabulary, config.target_hidden_size)
    layer = (config.layer.rms_norm_eps, config.layer.hidden_act, config.layer.head_dim)
    assert sizes == (VOCABULARY, VOCABULARY, 32) and layer == (1e-6, "silu", 8)
    assert not any(getattr(config, flag) for flag in FLAG_NAMES)


MISFITS = {
    "eagle": [
        ({"target_hidden_size": 64}, "target_hidden_size of the target 64 … org/target has 32"),
        ({"vocab_size": 512}, f"vocab_size 512 … has {VOCABULARY} … trained for org/target"),
        ({"hidden_size": None}, "has no hidden_size"),
        ({"num_hidden_layers": 2}, "num_hidden_layers 2 … 1 layer"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3 … num_attention_heads 4"),
        ({"num_attention_heads": 6, "num_key_value_heads": 6}, "cannot be built … 32 … 6"),
        ({"hidden_act": "sparkle"}, "hidden_act 'sparkle'"),
        ({"rope_scaling": {"type": "mrope"}}, "mrope … llama3"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            "cannot be built … low_freq_factor",
        ),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 … only 1.0"),
        (
            {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "deepseek_v3"},
            "'deepseek_v3'",
        ),
        ({"use_sliding_window": True, "sliding_window": 64}, "sliding_window 64 … full context"),
        (
            {"eagle_config": {"use_aux_hidden_state": False}},
            "use_aux_hidden_state False … only true",
        ),
        ({"eagle_config": {IDS: [2, 4, 8]}}, "[2, 4, 8] … layers 0 to 7"),
        ({"eagle_config": 3}, "eagle_config 3 … an object"),
    ],
    "speculators": [
        ({"target_hidden_size": 48}, "(made for org/base) … 48 … has 32"),
        ({"speculators_model_type": "mtp"}, "speculators_model_type 'mtp' … only eagle3"),
        ({"norm_output": 1}, "norm_output 1 … true or false"),
    ],
}


@pytest.mark.parametrize(
    ("family", "keys", "fragments"),
    [(family, *each) for family, rows in MISFITS.items() for each in rows],
)
def test_a_configuration_that_does_not_fit_is_refused_before_the_weights(
    family: Family, keys: dict[str, Any], fragments: str, shelf: Shelf
) -> None:
    raw = edit(raw_config(shelf.head.config, family, verifier="org/base"), keys)
    shelf.folder.mkdir()
    (shelf.folder / "config.json").write_text(json.dumps(raw))
    shelf.refuses(fragments)


def test_another_verifiers_name_and_the_converters_placeholder_are_no_difference(
    shelf: Shelf,
) -> None:
    shelf.save(family="speculators", verifier="/renamed", keys={"vocab_size": 128_000})
    assert same(shelf.load(), shelf.head)


@pytest.mark.parametrize(
    ("changes", "fragments"),
    [
        ({"fc.weight": None}, "lack fc.weight"),
        ({"d2t": None}, f"lack d2t for {DRAFT} ids of the target's {VOCABULARY}"),
        ({"lm_head.weight": None}, f"lack lm_head.weight [{DRAFT}, 32] … target has none"),
        ({"layers.1.mlp.up_proj.weight": torch.ones(1)}, "have layers.1.mlp.up_proj.weight"),
        ({"model.norm.weight": torch.ones(32)}, "have norm.weight twice"),
        ({"norm.weight": torch.ones(16)}, "size mismatch for norm.weight … [16] … [32]"),
        (
            {"norm.weight": torch.full((32,), torch.nan)},
            "in norm.weight … not finite as torch.float32",
        ),
        ({"norm.weight": torch.ones(32, dtype=torch.int8)}, "norm.weight … no floating point"),
        ({"d2t": torch.zeros(DRAFT)}, f"d2t as torch.float32 [{DRAFT}], not {DRAFT} integers"),
        ({"d2t": torch.full((DRAFT,), 70)}, f"ids of the target beyond 0 to {VOCABULARY - 1}"),
        (
            {"d2t": torch.tensor([3, 0, 1, *[5] * 37])},
            "one id of the target for two of the draft's",
        ),
        ({"t2d": torch.ones(VOCABULARY, dtype=torch.bool)}, "mark in t2d other ids"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    changes: dict[str, Tensor | None], fragments: str, shelf: Shelf
) -> None:
    without = [name for name, tensor in changes.items() if tensor is None]
    shelf.save(without=without, extra=edit({}, changes))
    shelf.refuses(fragments)


class Evil:
    """Unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_with_code_is_refused_and_the_code_not_run(
    zipped: bool, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.save(form="bin")
    evil = {**stored(shelf.head, "eagle"), "evil": Evil(tmp_path / "ran")}
    torch.save(evil, shelf.folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    shelf.refuses("could run code, so it was not loaded")
    assert not (tmp_path / "ran").exists()


def cut(length: int) -> Callable[[Path], Any]:
    """The first bytes of the only file of weights."""

    def change(folder: Path) -> None:
        (path,) = (path for path in folder.iterdir() if path.suffix != ".json")
        path.write_bytes(path.read_bytes()[:length])

    return change


def pickled(content: Any) -> Callable[[Path], Any]:
    return lambda folder: torch.save(content, folder / "pytorch_model.bin")


def indexed(text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "model.safetensors.index.json").write_text(text)


SECOND, OTHERS = "model-00002-of-00002.safetensors", "contains objects other than tensors"


@pytest.mark.parametrize(
    ("options", "change", "fragments"),
    [
        *(
            ({"form": form}, cut(length), "")
            for form in ("safetensors", "bin")
            for length in (5, -1)
        ),
        ({"form": "bin"}, pickled({"model": {"fc.weight": torch.ones(2)}}), OTHERS),
        ({"form": "bin"}, pickled([torch.ones(2)]), OTHERS),
        ({"form": "bin"}, pickled({"epoch": 3}), OTHERS),
        (
            {"shards": 2},
            lambda folder: (folder / SECOND).rename(folder / "elsewhere"),
            f"names {SECOND}, which is not a weight file there",
        ),
        *(
            ({"shards": 2}, indexed(text), "index.json … damaged")
            for text in ("{", "[]", '{"weight_map": {"a": 1}}')
        ),
        ({}, lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
        ({}, lambda folder: (folder / "config.json").write_text("[]"), "not a JSON object"),
    ],
)
def test_a_damaged_folder_is_refused(
    options: dict[str, Any], change: Callable[[Path], Any], fragments: str, shelf: Shelf
) -> None:
    shelf.save(**options)
    change(shelf.folder)
    shelf.refuses(fragments)


def test_other_targets_are_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"org/gpt is a gpt2 model.*Llama, Qwen2, Qwen3, Mistral, Phi-3 only"
    ):
        plan_eagle(ModelRef(str(tmp_path)), tiny_model("gpt2").config, "org/gpt", MESSAGES.append)


PREFIX = 9  # entries with the target's features


class Straight:
    """One draft, step by step: keys and values are lists, one [heads, head_dim] an entry."""

    def __init__(
        self, folder: Path, embedding: Tensor, family: Family, config: LlamaConfig
    ) -> None:
        self.rotary = LlamaRotaryEmbedding(config)
        raw = json.loads((folder / "config.json").read_text())
        self.raw, self.c = raw, raw.get("transformer_layer_config", raw)
        self.w = {"embed_tokens.weight": embedding, **load_file(folder / "model.safetensors")}
        self.prefix = {"eagle": "midlayer.", "speculators": "layers.0."}[family]
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def layer(self, name: str) -> Tensor:
        return self.w[f"{self.prefix}{name}.weight"]

    def linear(self, name: str, x: Tensor) -> Tensor:
        biased = self.c.get("attention_bias" if name.startswith("self_attn") else "mlp_bias")
        return self.layer(name) @ x + (self.w[f"{self.prefix}{name}.bias"] if biased else 0)

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, self.c["rms_norm_eps"])

    def fuse(self, feature_layers: list[Tensor]) -> Tensor:
        x = torch.cat(feature_layers)
        if self.raw.get("norm_before_fc"):
            x = self.norm(x, self.w["input_norm.weight"])
        if self.raw.get("fc_norm"):
            parts = enumerate(x.view(len(feature_layers), -1))
            x = torch.cat([self.norm(part, self.w[f"fc_norm.{i}.weight"]) for i, part in parts])
        return self.w["fc.weight"] @ x

    def rotate(self, x: Tensor, position: int) -> Tensor:
        cos, sin = self.rotary(x, torch.tensor([[position]]))
        return x * cos[0] + rotate_half(x) * sin[0]

    def entry(self, token: int, g: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """(hidden state to feed back [H], draft logits [D])."""
        c, d = self.c, self.c["head_dim"]
        e = self.norm(self.w["embed_tokens.weight"][token], self.layer("input_layernorm"))
        normed = self.norm(g, self.layer("hidden_norm"))
        residual = normed if self.raw.get("norm_before_residual") else g
        both = torch.cat([e, normed])
        q, k, v = (self.linear(f"self_attn.{n}_proj", both).view(-1, d) for n in "qkv")
        if c["model_type"] == "qwen3":
            q = self.norm(q, self.layer("self_attn.q_norm"))
            k = self.norm(k, self.layer("self_attn.k_norm"))
        self.keys.append(self.rotate(k, position))
        self.values.append(v)
        q = self.rotate(q, position)
        keys, values = (torch.stack(each, 1) for each in (self.keys, self.values))
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q[:, None], keys, values, enable_gqa=True
        )
        u = residual + self.linear("self_attn.o_proj", mixed.flatten())
        x = self.norm(u, self.layer("post_attention_layernorm"))
        gate = getattr(torch.nn.functional, c["hidden_act"])(self.linear("mlp.gate_proj", x))
        out = u + self.linear("mlp.down_proj", gate * self.linear("mlp.up_proj", x))
        last = self.norm(out, self.w["norm.weight"])
        return (last if self.raw.get("norm_output") else out), self.w["lm_head.weight"] @ last


FLAGS: list[dict[str, Any]] = [
    {"norm_before_residual": True},
    {"norm_output": True},
    {"fc_norm": True, "norm_output": True},
    {"norm_before_fc": True},
    {"norm_before_fc": True, "norm_output": True, "norm_before_residual": True},
    {"qk_norm": True, "norm_before_residual": True},
    {"feature_layers": (0, 2, 5, 7), "fc_norm": True},
    {"draft_vocabulary": DRAFT},
]
LAYERS: list[dict[str, Any]] = [
    {"num_key_value_heads": 1, "head_dim": 16},
    {"num_key_value_heads": 4, "hidden_act": "gelu"},
    {"attention_bias": True, "mlp_bias": True},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 77.0}},
    {"rope_parameters": LLAMA3},
]


@pytest.mark.parametrize(
    ("family", "options"),
    [
        *((family, options) for options in ({}, *FLAGS) for family in FAMILIES),
        # a layer is one of transformers' in either family
        *((FAMILIES[at % 2], options) for at, options in enumerate(LAYERS)),
    ],
    ids=lambda each: each if isinstance(each, str) else "-".join(each) or "plain",
)
def test_every_variant_is_read_from_its_configuration_and_drafts_as_the_published_equations(
    options: dict[str, Any], family: Family, shelf: Shelf
) -> None:
    config, target = tiny_config(shelf.target.config, **options), shelf.target
    written = random_head(config, target)
    shelf.save(written, family, without=[EMBEDDING])
    head = shelf.load()
    assert head.config.layer.rope_parameters == config.layer.rope_parameters
    assert replace(head.config, layer=config.layer) == config and same(head, written)
    embedding: Any = target.get_input_embeddings().weight
    straight = Straight(shelf.folder, embedding.detach(), family, config.layer)

    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(target.config.vocab_size, (PREFIX,), generator=generator)
    feature_layers = torch.randn(
        PREFIX, len(config.feature_layers), target.config.hidden_size, generator=generator
    )
    for i, (token, each) in enumerate(zip(ids.tolist(), feature_layers, strict=True)):
        fed, logits = straight.entry(token, straight.fuse(list(each)), i)
    token = int(logits.argmax()) + int(straight.w["d2t"][logits.argmax()])
    _, second = straight.entry(token, fed, PREFIX)

    prepare_head(head)
    cache = HeadCache(head, CacheSize(PREFIX + 1, 1))
    fused = head.fuse(feature_layers.flatten(1))
    outputs = cache.extend(ids[None], fused[None], Rows.one(0))
    hidden, first = (part[0] for part in cache.predict(outputs))
    torch.testing.assert_close(hidden[-1], fed, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(first[-1], logits, rtol=1e-5, atol=1e-5)
    drafted = head.target_ids(first[-1:].argmax(-1))
    assert drafted.item() == token
    sees, rows = torch.ones(1, 1, 1, dtype=torch.bool), Rows.one(PREFIX)
    _, after = cache.predict(cache.draft(drafted[None], hidden[None, -1:], rows, 0, sees))
    torch.testing.assert_close(after[0, -1], second, rtol=1e-5, atol=1e-5)
