"""The probe accepts what computes the same after rollbacks and in trees, and finds out what only
looks so; quantised layers are run over the library's layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import processors
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from mars_core.decoder import (
    CacheSize,
    ModelCache,
    PassShapes,
    architectures,
    is_fast,
    open_cache,
    prepare,
)
from mars_core.decoder.architectures import LLAMA
from mars_core.decoder.attention import Store
from mars_core.decoder.fast_cache import FastCache
from mars_core.decoder.layer import Rotary
from mars_core.decoder.modules_cache import LayerStore
from mars_core.decoder.positions import PositionIndex
from mars_core.models import Pair, custom_pair, loading, reading
from mars_core.models.checks.exactness import real_text
from mars_core.models.checks.probe import ProbeTrial, check, reference_logits
from mars_core.models.errors import ModelError
from mars_core.types import DrafterConfig, Sampling
from tests.checkpoints import (
    BOS,
    VOCABULARY,
    WINDOW,
    random_ids,
    tiny_checkpoint,
    tiny_model,
    tiny_tokenizer,
)
from tests.folders import load
from tests.live_pairs import traced


@torch.no_grad()
def assert_computes_what_is_stored(pair: Pair, folder: Path, plant: Any = None) -> None:
    """Read in two passes, the first one's end refused."""
    untouched = AutoModelForCausalLM.from_pretrained(folder).eval()
    if plant is not None:
        plant(untouched)
    ids = random_ids(30, 1)
    cache = open_cache(pair.target, CacheSize(30, 8))
    cache.read(ids[:20])
    cache.forward(ids[:6], 20)
    actual, wanted = (
        cache.forward(ids[20:], 20),
        untouched(ids[None], use_cache=False).logits[0, 20:],
    )
    torch.testing.assert_close(actual, wanted, atol=1e-3, rtol=1e-3)


def test_a_context_of_a_few_tokens_is_not_exceeded() -> None:
    model = tiny_model("gpt2", n_positions=4)
    trial = reference_logits(model, random_ids(24), "short")
    assert trial.logits.shape == (4, VOCABULARY)
    check(model, trial, trees=False)


def test_logits_that_are_not_finite_are_refused() -> None:
    model: Any = tiny_model("llama")
    model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        reference_logits(model, random_ids(24), "broken")


Sound = Callable[..., Path]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """Checkpoints whose fast layers are used as they are: each is made and loaded once."""

    @cache
    def made(kind: str, options: str) -> Path:
        folder = tiny_checkpoint(kind, tmp_path_factory.mktemp(kind), **json.loads(options))
        assert is_fast(load(folder).target)
        return folder

    return lambda kind, **options: made(kind, json.dumps(options))


CHAOTIC: Any = {"num_hidden_layers": 12, "initializer_range": 1.0}  # in bfloat16


def checked(kind: str, dtype: torch.dtype, *, fast: bool = False, **overrides: Any) -> ProbeTrial:
    """The check of a random model, over transformers' modules or fast layers."""
    model = tiny_model(kind, dtype=dtype, **overrides)
    trial = reference_logits(model, real_text(tiny_tokenizer(), VOCABULARY), kind)
    prepare(model, fast=fast)
    check(model, trial, shapes=PassShapes(2, 64, 128), trees=False)
    return trial


def test_a_sound_model_is_not_refused_for_what_its_rounding_does(tmp_path: Path) -> None:
    """Its logits in steps differ from those of one pass as widely as those after other tokens."""
    assert checked("llama", torch.bfloat16, fast=True, **CHAOTIC).rounding > 0.5
    assert is_fast(load(tiny_checkpoint("llama", tmp_path, **CHAOTIC), dtype="bfloat16").target)


def test_what_is_read_at_loading_is_the_pairs_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the tokens that its tokenizer puts before it, by both models."""
    target, draft = (tiny_checkpoint("llama", tmp_path / name) for name in ("target", "draft"))
    tokenizer, read = tiny_tokenizer(), list[Tensor]()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", BOS)]
    )
    tokenizer.save_pretrained(target)
    reference = reading.reference_logits
    monkeypatch.setattr(
        reading,
        "reference_logits",
        lambda model, text, name: (read.append(text), reference(model, text, name))[1],
    )
    load(target, draft)
    written = "<s>" + custom_pair(str(target)).text
    assert [tokenizer.decode(each) == written[: len(each) + 2] for each in read] == [True, True]


def does_not_forget(patch: pytest.MonkeyPatch) -> None:
    kept = LayerStore.update

    def update(self: LayerStore, *states: Tensor, **_: object) -> tuple[Tensor, Tensor]:
        before = [each.clone() for each in self._buffers] if self.is_initialized else None
        keys, values = kept(self, *states)
        for buffer, old in zip(self._buffers, before or (), strict=before is not None):
            buffer.copy_(torch.where(old == 0, buffer, old))
        return keys, values

    patch.setattr(LayerStore, "update", update)


def window_is_one_too_wide(patch: pytest.MonkeyPatch) -> None:
    begin = PositionIndex.__init__

    def init(self: PositionIndex, *args: Any, window: int | None, **options: Any) -> None:
        begin(self, *args, window=window and window + 1, **options)

    patch.setattr(PositionIndex, "__init__", init)


@pytest.mark.parametrize(
    ("kind", "fault", "dtype"),
    [
        *(
            (kind, does_not_forget, dtype)
            for kind, dtype in zip(
                ("llama", "mistral", "gemma2", "gemma3", "gpt2", "llama"),
                cycle((torch.float32, torch.bfloat16)),
                strict=False,
            )
        ),
        *product(("mistral", "gemma3"), (window_is_one_too_wide,), (torch.float32, torch.bfloat16)),
    ],
)
def test_a_cache_that_remembers_or_sees_too_much_is_detected(
    kind: str, fault: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(ModelError, match=r"rolled back move its|one pass, and rounding alone"):
        checked(kind, dtype)


def test_no_rounding_hides_a_cache_that_does_not_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    does_not_forget(monkeypatch)
    with pytest.raises(ModelError, match=r"tokens that were rolled back move its later logits by"):
        checked("llama", torch.bfloat16, **CHAOTIC)


def double_feed_forward(model: Any) -> None:
    feed = model.model.layers[5].mlp
    stored = feed.forward
    feed.forward = lambda x: 2 * stored(x)


def turn_queries(model: Any) -> None:
    attention = model.model.layers[5].self_attn
    stored = attention.forward
    attention.forward = lambda hidden_states, **options: stored(
        hidden_states=hidden_states.flip(-1), **options
    )


def planted(change: Callable[[Any], None], patch: pytest.MonkeyPatch) -> None:
    """Every model that is read from now on is changed so."""
    read = reading.Reading._read

    def changed(*args: Any) -> Any:
        model = read(*args)
        change(model)
        return model

    patch.setattr(reading.Reading, "_read", changed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("plant", [double_feed_forward, turn_queries])
def test_a_single_layer_that_computes_something_else_is_run_as_it_is(
    plant: Any, dtype: str, sound: Sound, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sound("llama", num_hidden_layers=6)
    planted(plant, monkeypatch)
    pair = load(folder, dtype=dtype)
    assert not is_fast(pair.target)
    if dtype == "float32":
        assert_computes_what_is_stored(pair, folder, plant)


def blind_to_windows(patch: pytest.MonkeyPatch) -> None:
    """Every layer sees all, or those do that should not and the other way round."""
    begin = FastCache.__init__

    def init(self: FastCache, *args: Any) -> None:
        begin(self, *args)
        self._windows = [None if each else WINDOW for each in self._windows]

    patch.setattr(FastCache, "__init__", init)


def siblings_see_each_other(patch: pytest.MonkeyPatch) -> None:
    def forward_tree(
        self: FastCache, ids: Tensor, start: int, depths: Tensor, sees: Tensor
    ) -> Tensor:
        return ModelCache.forward_tree(self, ids, start, depths, torch.ones_like(sees))

    patch.setattr(FastCache, "forward_tree", forward_tree)


def branches_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "move", lambda *_: None)


def positions_grow_half_as_fast(patch: pytest.MonkeyPatch) -> None:
    at = Rotary.at
    patch.setattr(Rotary, "at", lambda self, positions: at(self, positions // 2))


def bases_are_exchanged(patch: pytest.MonkeyPatch) -> None:
    begin = FastCache.__init__

    def init(self: FastCache, *args: Any) -> None:
        begin(self, *args)
        kinds, tables = list(self._rotaries), list(self._rotaries.values())
        self._rotaries = dict(zip(kinds, tables[::-1], strict=True))

    patch.setattr(FastCache, "__init__", init)


def row_lacks(field: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The table says of no class of models what is special in this."""
    lacking = {
        name: row._replace(**{field: getattr(LLAMA, field)})
        for name, row in architectures._BY_CLASS.items()
    }
    return lambda patch: patch.setattr(architectures, "_BY_CLASS", lacking)


MIXED = {
    "use_sliding_window": True,
    "sliding_window": 512,
    "layer_types": ["full_attention", "sliding_attention"],
}
NARROW, WIDE, WIDEST = (
    {"sliding_window": window, "max_position_embeddings": 8192} for window in (8, 200, 4096)
)
GEMMA = {"sliding_window": 512, "max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("fault", "kind", "options"),
    [
        *((blind_to_windows, "mistral", window) for window in (NARROW, WIDE, WIDEST)),
        (siblings_see_each_other, "mistral", NARROW),
        (branches_stay_where_they_are, "mistral", WIDE),
        (positions_grow_half_as_fast, "mistral", WIDEST),
        (blind_to_windows, "qwen3", MIXED),
        (blind_to_windows, "gemma2", GEMMA),
        (bases_are_exchanged, "gemma3", GEMMA),
        (row_lacks("norm_offset"), "gemma", {}),
        *((row_lacks(field), "gemma2", {}) for field in ("score_cap", "logit_cap")),
        (row_lacks("embedding_scale"), "granite", {}),
        *((row_lacks(field), "granite", {}) for field in ("residual_scale", "logit_divisor")),
        (row_lacks("rotary_layers"), "smollm3", {}),
    ],
)
def test_a_pass_that_computes_something_else_is_not_run(
    fault: Any, kind: str, options: dict[str, Any], sound: Sound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though layer by layer all is right, or where the table of architectures lacks something:
    transformers' modules are taken, whatever the width of the window."""
    folder = sound(kind, **options)
    fault(monkeypatch)
    pair = load(folder)
    assert not is_fast(pair.target)
    assert all(getattr(pair.target.config, name) == value for name, value in options.items())
    assert_computes_what_is_stored(pair, folder)


class RoundedLinear(nn.Linear):
    """A quantised layer as bitsandbytes and FP8 have them: a subclass, its weight in full
    numbers."""

    scale: Tensor

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False)
        self.register_buffer("scale", plain.weight.detach().abs().amax(1, keepdim=True) / 127)
        self.weight = nn.Parameter(
            (plain.weight.detach() / self.scale).round().to(torch.int8), requires_grad=False
        )

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight.to(input.dtype) * self.scale.to(input.dtype))


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_models_with_quantised_layers_are_run_over_the_librarys_modules(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One projection is enough. The text of strict is that of the target alone."""

    def quantise(model: Any) -> None:
        block = model.model.layers[1].mlp
        block.down_proj = RoundedLinear(block.down_proj)

    planted(quantise, monkeypatch)
    pair = load(tiny_checkpoint(kind, tmp_path))
    assert not is_fast(pair.target)
    for temperature in (0.0, 1.0):
        strict, alone = (
            traced(pair, DrafterConfig(kind, k=4), Sampling(temperature), prompt="ab ab ab ab ")
            for kind in ("ngram", "none")
        )
        assert strict.token_ids == alone.token_ids


@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}, 8),
        ({"quant_method": "gptq", "bits": 4}, 4),
        ({"quant_method": "fp8"}, 32),
    ],
)
def test_memory_is_planned_for_the_weights_as_they_are_stored(
    stored: Any, bits: int, tmp_path: Path
) -> None:
    """A checkpoint in 4 bits that fits is not refused for what it would take in full; embeddings
    are stored in full."""
    folder = tiny_checkpoint("llama", tmp_path, hidden_size=256, intermediate_size=1024)
    plain = loading.plan(custom_pair(str(folder)), lambda _message: None).target
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": stored}))
    planned, wanted = (
        loading.plan(custom_pair(str(folder)), lambda _message: None).target,
        plain.bytes(torch.float32),
    )
    tables = 2 * 256 * config["vocab_size"] / plain.parameters
    share = tables + (1 - tables) * bits / 32
    assert planned.bytes(torch.float32) == pytest.approx(share * wanted, rel=0.01)
