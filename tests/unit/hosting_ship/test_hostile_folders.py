"""A folder that wants to run code, reach other files or fill the memory: refused, or loaded without
doing any of it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from mars_core.text.prompting import encode
from mars_core.types import PromptConfig
from tests.checkpoints import tiny_checkpoint
from tests.folders import edit, load, refusal
from tests.unit.ui.helpers import failing

ROOT = Path(__file__).parents[3]
EVIL = {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    """With code beside it that leaves a trace as soon as it is imported."""
    folder = Path(shutil.copytree(llama, tmp_path / "copy"))
    (folder / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nclass Evil: pass\n"
    )
    return folder


def test_a_tokenizer_with_custom_code_is_refused(copy: Path, tmp_path: Path) -> None:
    edit(copy, "tokenizer_config.json", tokenizer_class="EvilTokenizer", auto_map=EVIL)
    assert "brings its own Python code" in refusal(copy)
    assert not (tmp_path / "ran").exists()


def test_code_beside_a_known_architecture_is_passed_over(copy: Path, tmp_path: Path) -> None:
    edit(copy, "tokenizer_config.json", auto_map=EVIL)
    models = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM"), "evil.Evil")
    edit(copy, "config.json", auto_map=models, trust_remote_code=True)
    (copy / "custom_generate").mkdir()
    shutil.copy(copy / "evil.py", copy / "custom_generate" / "generate.py")
    edit(copy, "generation_config.json", custom_generate=str(copy))
    assert type(load(copy).target).__module__.startswith("transformers.")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "key", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"]
)
def test_attention_from_the_hub_is_refused(key: str, copy: Path) -> None:
    edit(copy, "config.json", **{key: "someone/kernel"})
    assert "code from the Hub" in refusal(copy)


def test_what_would_fetch_code_is_not_installed() -> None:
    text = (ROOT / "locks" / "run.txt").read_text(encoding="utf-8")
    assert not re.search(r"^kernels==", text, re.MULTILINE)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_files_that_are_nested_without_end_are_refused(opening: bytes, copy: Path) -> None:
    header = opening * 100_000
    config, weights = copy / "config.json", copy / "model.safetensors"
    for file, content, message in (
        (weights, len(header).to_bytes(8, "little") + header, "damaged"),
        (config, header, "cannot be loaded"),
    ):
        original = file.read_bytes()
        file.write_bytes(content)
        assert message in refusal(copy)
        file.write_bytes(original)


@pytest.mark.parametrize("shard", ["../outside.safetensors", "/tmp/outside.safetensors", ".."])
def test_weights_outside_the_folder_are_refused(shard: str, copy: Path) -> None:
    weights = copy / "model.safetensors"
    shutil.copy(weights, copy.parent / "outside.safetensors")
    with safe_open(weights, "pt") as file:
        names = list(file.keys())
    weights.rename(copy / "model-00001-of-00001.safetensors")
    (copy / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, shard)})
    )
    assert "outside its folder" in refusal(copy)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
)
def test_a_link_to_another_file_tells_nothing_of_it(name: str, copy: Path, tmp_path: Path) -> None:
    """Snapshots of the Hub are links themselves, so links are followed; what is no model is refused
    without being quoted."""
    (tmp_path / "secret").write_text("SECRETWORD of another file")
    (copy / name).unlink()
    (copy / name).symlink_to(tmp_path / "secret")
    assert "SECRETWORD" not in refusal(copy)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (
            "config.json",
            {"num_hidden_layers": 10**9},
            "num_hidden_layers of its config.json is 1000000000; it must be at most 512",
        ),
        (
            "config.json",
            {"text_config": {"num_hidden_layers": 4000}},
            "num_hidden_layers of its config.json is 4000; it must",
        ),
        (
            "config.json",
            {"num_experts": 1e12},
            "num_experts of its config.json is 1000000000000; it must be at most 4096",
        ),
        (
            "config.json",
            {"eos_token_id": [1] * 10**5},
            "entries of 'eos_token_id' of its config.json is 100000; it must be at most 4096",
        ),
        (
            "generation_config.json",
            {"eos_token_id": [1] * 10**6},
            "entries of 'eos_token_id' of its generation_config.json is 1000000",
        ),
        (
            "generation_config.json",
            {"eos_token_id": [1] * 3 * 10**6},
            "bytes of its generation_config.json is 90",
        ),
    ],
)
def test_sizes_that_would_take_the_memory_or_much_time_are_refused_before_anything_is_built(
    file: str, content: dict[str, Any], sentence: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", failing("It was read."))
    edit(copy, file, **content)
    assert sentence in refusal(copy)


LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
GROW = "{{ 'x' * (messages | length * 2147483648) }}"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        (LOOP, "more than 0.2 s"),
        (GROW, "MemoryError$"),
        ("{{ 'x' * 11000000 }}", "more than 10,000,000 characters"),
        ("{{ 7 ** (7 ** 12) }}", "more than 0.2 s"),
        ("{{ raise_exception('x' * 9000) }}", "x{300}$"),
    ],
)
def test_a_template_reaches_nothing_and_ends(
    template: str, sentence: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not Python, not the memory, not the thread that renders; the next prompt is rendered."""
    tokenizer = load(copy).tokenizer
    tokenizer.chat_template = "{{ messages[0].content }}"
    wanted = encode(tokenizer, PromptConfig("ab"))
    tokenizer.chat_template = template
    with (
        monkeypatch.context() as patch,
        pytest.raises(ValueError, match=f"refuses the prompt: .*{sentence}"),
    ):
        if "more than 0.2 s" in sentence:
            patch.setattr("mars_core.text.templates.SECONDS", 0.2)
        encode(tokenizer, PromptConfig("ab"))
    tokenizer.chat_template = "{{ messages[0].content }}"
    assert encode(tokenizer, PromptConfig("ab")) == wanted
