"""A pair is loaded as its folders describe it, or refused in one sentence that says why and what to
do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from transformers import MambaConfig

from mars_core.drafting import context_limit
from mars_core.models import ModelError
from mars_core.models.source import fingerprint
from mars_core.models.vocabulary import shared_vocabulary
from mars_core.session import Session
from mars_core.types import DrafterConfig
from tests.checkpoints import BOS, CONTEXT, EOS, KINDS, VOCABULARY, tiny_checkpoint
from tests.folders import edit, load, refusal
from tests.live_pairs import config_for


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    """A checkpoint that the test may spoil."""
    return Path(shutil.copytree(llama, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("kind", "dtype"), [*zip(KINDS, cycle(("float32", "bfloat16")), strict=False)]
)
def test_every_promised_architecture_is_loaded_ready_to_run(
    kind: str, dtype: str, tmp_path: Path
) -> None:
    folder = tiny_checkpoint(kind, tmp_path)
    pair = load(folder, folder, dtype=dtype)
    assert pair.draft is not None and pair.draft is not pair.target
    for model in (pair.target, pair.draft):
        assert not model.training and not any(weight.requires_grad for weight in model.parameters())
        assert str(model.dtype) == f"torch.{dtype}" and model.device.type == "cpu"
    assert (pair.context, pair.eos_ids, pair.vocabulary) == (CONTEXT, {EOS}, VOCABULARY)


def test_a_folders_revision_follows_its_content(copy: Path, llama: Path) -> None:
    assert load(copy).target_ref.revision == fingerprint(copy) == fingerprint(llama)
    assert re.fullmatch(r"local:[0-9a-f]{12}", fingerprint(llama))
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert fingerprint(copy) != fingerprint(llama)


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("declared", "expected"),
    [(7, {7}), ([7, BOS], {7, BOS}), ([7, VOCABULARY, -1, 10**6], {7}), (None, set())],
)
def test_eos_ids_of_either_configuration_end_an_answer_where_they_exist(
    file: str, declared: Any, expected: set[int], copy: Path
) -> None:
    for name in ("config.json", "generation_config.json"):
        edit(copy, name, eos_token_id=declared if name == file else None)
    assert load(copy).eos_ids == expected | {EOS}  # the tokenizer's


def test_only_runs_with_a_draft_model_are_limited_by_its_context(
    llama: Path, tmp_path: Path
) -> None:
    short = tiny_checkpoint("gpt2", tmp_path, n_positions=100)
    pair, other = load(llama, short), load(short, llama)
    kinds = ("model", "ngram", "none")
    assert [context_limit(pair, DrafterConfig(kind)) for kind in kinds] == [
        (100, str(short)),
        *2 * [(CONTEXT, str(llama))],
    ]
    assert [context_limit(other, DrafterConfig(kind)) for kind in kinds] == 3 * [(100, str(short))]
    for kind in ("ngram", "none"):
        run = config_for(pair, DrafterConfig(kind), new=CONTEXT - 20)
        Session(pair).check(run)
        with pytest.raises(
            ValueError,
            match=rf"max_new_tokens is .* 1 to \d+ fit into the context of {short}, 100 tokens",
        ):
            Session(pair).check(config_for(pair, DrafterConfig("model"), new=CONTEXT - 20))


def test_the_context_ends_where_a_rotary_scaling_starts_to_change(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "longrope",
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
        "rope_theta": 10000.0,
    }
    folder = tiny_checkpoint(
        "phi3", tmp_path, rope_parameters=scaling, original_max_position_embeddings=64
    )
    assert load(folder).context == 64


def test_a_draft_without_a_tokenizer_is_accepted_if_the_sizes_agree(
    llama: Path, copy: Path
) -> None:
    without_tokenizer(copy)
    assert load(llama, copy).vocabulary == VOCABULARY


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def with_weights(change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    """What replaces the bytes of the weights."""
    return lambda folder: (weights := folder / "model.safetensors").write_bytes(
        change(weights.read_bytes())
    )


def header(text: bytes, length: int = 0) -> Callable[[Path], Any]:
    return with_weights(lambda _: (length or len(text)).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (shutil.rmtree, "no folder"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be"),
        (lambda folder: edit(folder, "config.json", hidden_size="many"), "cannot be loaded"),
        (
            lambda folder: edit(folder, "config.json", model_type="not_a_model"),
            "transformers knows",
        ),
        # else the missing tensors would be random numbers
        (
            lambda folder: edit(folder, "config.json", num_hidden_layers=3),
            "do not fit its config.json",
        ),
        (without_tokenizer, "no tokenizer"),
        (
            lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
            "only pickle files (pytorch_model.bin)",
        ),
        *(
            (with_weights(lambda content, length=length: content[:length]), "damaged")
            for length in (5, -1)
        ),
        *((header(text), "damaged") for text in (b"[]", b'{"a": {"shape": ["x"]}}', b"\xff\xfe")),
        (header(b"{}", 2**63), "damaged"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(
    spoil: Callable[[Path], Any], sentence: str, copy: Path
) -> None:
    spoil(copy)
    assert sentence in refusal(copy)


def test_a_model_that_needs_custom_code_is_refused_and_the_code_not_run(copy: Path) -> None:
    (copy / "evil.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
    )
    edit(
        copy,
        "config.json",
        model_type="evil",
        auto_map={"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.E"},
    )
    assert "its own Python code" in refusal(copy)
    assert not (copy / "ran").exists()


NAMES = ("big", "small")
TOKENS = {"a": 0, "b": 1, "c": 2}


THINKS = {**TOKENS, "<think>": 3}


@pytest.mark.parametrize(
    ("target", "draft", "rows", "expected"),
    [
        # without padded rows and tokens of the draft alone
        (TOKENS, TOKENS, (3, 3), 3),
        (TOKENS, TOKENS, (8, 3), 3),
        (TOKENS, TOKENS, (3, 8), 3),
        (TOKENS, {**TOKENS, "<extra>": 3}, (8, 8), 3),
        (TOKENS, None, (3, 3), 3),
        # tokens that only the target has are drafted where the draft has a row for them
        (THINKS, TOKENS, (8, 4), 4),
        (THINKS, TOKENS, (8, 3), 3),
        (THINKS, {**TOKENS, "<x>": 3}, (8, 4), "id 3 is '<think>' in the first and '<x>' in the"),
        (TOKENS, {"a": 0, "x": 1, "y": 2}, (3, 3), "id 1 is 'b' in the first and 'x' in the"),
        ({"a": 0, "c": 2}, TOKENS, (3, 3), "id 1 is not a token in the first and 'b' in the"),
        ({"a" * 10_000: 0}, {"\n\ud800": 0}, (1, 1), r"id 0 is 'a{39}…' in the first and '\\n"),
        (TOKENS, None, (3, 4), "of 4, but big has 3"),
    ],
)
def test_what_both_models_know_is_shared_and_the_first_other_id_is_named(
    target: dict[str, int], draft: dict[str, int] | None, rows: tuple[int, int], expected: int | str
) -> None:
    if isinstance(expected, int):
        assert shared_vocabulary(NAMES, target, draft, rows) == expected
        return
    with pytest.raises(ModelError, match=f"(big|small) .* {expected}") as caught:
        shared_vocabulary(NAMES, target, draft, rows)
    message = str(caught.value)
    assert len(message) < 300 and "\n" not in message and message.encode()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *(
            ({"layer_types": ["full_attention", f"{kind}_attention"]}, f"layers of the kind {kind}")
            for kind in ("chunked", "linear")
        ),
        ({"is_encoder_decoder": True}, "it is an encoder-decoder model"),
    ],
)
def test_what_cannot_be_rolled_back_is_refused(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    edit(tiny_checkpoint("qwen3", tmp_path), "config.json", **change)
    assert sentence in refusal(tmp_path)


def test_a_recurrent_model_is_refused_before_its_weights_are_read(tmp_path: Path) -> None:
    MambaConfig(
        vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=1
    ).save_pretrained(tmp_path)
    message = refusal(tmp_path)
    assert "recurrent state" in message or "linear_attention" in message
