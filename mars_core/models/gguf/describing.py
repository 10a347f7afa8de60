"""What is read of a GGUF file, and how it is described in Hugging Face's format: configuration,
tokenizer and a link to the file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_core.models import smollm2
from mars_core.models.checks.untrusted import check_count
from mars_core.models.errors import ModelError
from mars_core.models.source import GGUF, SOURCE

if TYPE_CHECKING:
    from mars_core.models.gguf.file import Header

# Libraries that only GGUF files need are imported below: other models run without them.
PLAIN_TOKENIZER = "PreTrainedTokenizerFast"  # the class that takes all of a tokenizer from its file
_MOST = {
    ".block_count": 512,
    ".expert_count": 4096,
    "split.count": 1,
}  # of a file's numbers, above any real model
_SCALED = (".rope.scaling.type", ".rope.scale_linear")
_LARGEST = {"gemma2": 46, "gemma3_text": 62}  # layers of the models of 27B
_MARK = re.compile(r"<[^\s<>]+>")  # a token of a chat template


def once(read: Callable[..., Any], file: Path, *more: str) -> Any:
    """Return what ``read`` returns; it is called again only for a file that has changed."""
    stat = file.stat()
    return _kept(read, stat.st_size, stat.st_mtime_ns, file, *more)


@cache
def _kept(read: Callable[..., Any], _size: int, _time: int, *arguments: Any) -> Any:
    return read(*arguments)


def header_of(file: Path, name: str) -> Header:
    """Return the checked header of a file on this machine, read again only if it has changed, which
    takes some seconds for a large vocabulary. Raises ModelError."""
    header: Header = once(_check, file.resolve(), name)
    return header


def header_in(folder: Path, name: str) -> Header | None:
    """Return that of the GGUF file whose weights a folder has; None where they are no such file's.
    Raises ModelError."""
    return header_of(folder / SOURCE, name) if (folder / SOURCE).is_file() else None


def has_plain_tokenizer(folder: Path) -> bool:
    """Return whether the tokenizer in ``folder``, of a GGUF file, is one for the plain class; those
    of earlier versions are not."""
    stored: Any = json.loads((folder / "tokenizer_config.json").read_bytes())
    return bool(stored.get("tokenizer_class") == PLAIN_TOKENIZER)


def link(file: Path, there: Path, name: str) -> None:
    """Put a link to ``file`` there; of the default model, and where there are no links, a copy."""
    try:
        if name != smollm2.NAME:
            there.symlink_to(file.resolve())
            return
    except OSError:
        pass
    shutil.copyfile(file, there)


def describe(file: Path, folder: Path, name: str) -> None:
    from transformers import TOKENIZER_MAPPING, AutoConfig, PreTrainedTokenizerFast

    from mars_core.models.gguf.file import EMBEDDING

    header = header_of(file, name)
    folder.mkdir()
    outline = folder / f"outline{GGUF}"
    outline.write_bytes(header.outline())
    read: Any = AutoConfig.from_pretrained
    config = read(folder, gguf_file=outline.name, trust_remote_code=False)
    outline.unlink()
    if (table := header.tensors.get(EMBEDDING)) is not None:
        config.vocab_size = table.shape[0]
    if config.model_type in _LARGEST:
        config.query_pre_attn_scalar = _divided_by(config)
    config.save_pretrained(folder)
    link(file, folder / SOURCE, name)
    known: Any = TOKENIZER_MAPPING.get(type(config), None) or PreTrainedTokenizerFast
    tokenizer = known.from_pretrained(folder, gguf_file=SOURCE)
    if template := tokenizer.chat_template:
        tokens = tokenizer.get_vocab()
        marks = sorted({each for each in _MARK.findall(template) if each in tokens})
        tokenizer.add_tokens(marks)  # also where the file does not mark them as such
        begins = bool(header.facts.get("tokenizer.ggml.add_bos_token"))
        if begins and "bos_token" not in template and tokenizer.bos_token not in template:
            tokenizer.chat_template = "{{ bos_token }}" + template
    tokenizer.save_pretrained(folder)
    _save_plain(folder)


def _save_plain(folder: Path) -> None:
    """Write the tokenizer again, as the class of its architecture reads it, for the plain one: the
    others keep lists of all tokens and merges in Python."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    tokenizer.save_pretrained(folder)
    file, added = folder / "tokenizer_config.json", tokenizer.added_tokens_decoder
    more = {
        "tokenizer_class": PLAIN_TOKENIZER,
        "added_tokens_decoder": {index: token.__getstate__() for index, token in added.items()},
    }
    file.write_text(json.dumps(json.loads(file.read_bytes()) | more))


def _divided_by(config: Any) -> int:
    """Return the number whose root divides the scores of Gemma-2 and Gemma-3, which no file has.
    llama.cpp knows the models of 27B by their layers too: there it is the width by head."""
    if config.num_hidden_layers == _LARGEST[config.model_type]:
        return int(config.hidden_size // config.num_attention_heads)
    return int(config.head_dim)


def _check(file: Path, name: str) -> Header:
    """Return its header. Raises ModelError for a file that is damaged, would exhaust memory when it
    is read, or would be read as another model."""
    from mars_core.models.gguf.file import read_header

    header = read_header(file, name)
    for key, value in header.facts.items():
        for end, most in _MOST.items():
            if key.endswith(end):
                if not isinstance(value, int):
                    raise ModelError(
                        f"{name} is damaged, or no GGUF file ({key[:80]!a} is no number): fetch it "
                        "again."
                    )
                check_count(name, "GGUF file", key, value, most)
    scaled = [key for key in header.facts if key.endswith(_SCALED) and header.facts[key] != "none"]
    scaled += [tensor for tensor in header.tensors if tensor.startswith("rope_f")]
    if scaled and not scaled[0].startswith("gpt-oss"):
        raise ModelError(
            f"{name} scales its rotary positions ({scaled[0][:80]!a}), which transformers "
            "does not read from GGUF: give the model as a folder or a Hub id."
        )
    first = dict[bytes, int]()
    for index, token in enumerate(header.tokens):
        if (before := first.setdefault(token, index)) != index:
            raise ModelError(
                f"{name} has {token[:40].decode(errors='replace')!r} as its tokens {before} and "
                f"{index}, which transformers reads as one: give the model as a folder or a Hub id."
            )
    return header._replace(tokens=())
