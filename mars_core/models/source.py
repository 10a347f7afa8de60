"""Locates the files of a model or an EAGLE-3 head: a local folder, or a snapshot of a Hub
repository. Reads headers only. ``gguf`` has those of GGUF files.

Hub files are fetched in two parts, so that an unusable model raises an error before its weights are
fetched: first configuration and tokenizer, then the weights. Pickles of a model are never fetched
and never opened; those of a head, where there are no safetensors, are read as tensors only.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from huggingface_hub import snapshot_download
from huggingface_hub.utils import validate_repo_id

import mars_core.demo
from mars_core.lazy import torch
from mars_core.models import smollm2
from mars_core.models.checks.untrusted import check_config_file, shard_files
from mars_core.models.errors import ModelError, explained
from mars_core.models.memory import bytes_each, gigabytes, needed
from mars_core.models.progress import Progress, bar_class
from mars_core.types import ModelRef

Config = TypeVar("Config")
# Names of folders inside this package.
BUNDLED = ("bundled/target", "bundled/draft", "bundled/eagle3", "bundled/classifier")
SMOLLM2_HEAD = "bundled/smollm2-eagle3"
WEIGHTS_FOLDER = Path(mars_core.demo.__file__).parent / "weights"
GGUF = ".gguf"
SOURCE = f"source{GGUF}"  # in a folder: a GGUF file that has its weights
_WEIGHTS = "*.safetensors"
_TENSOR_PICKLES = (
    "pytorch_model*.bin"  # without the pickles of optimizer and arguments that trainers save
)
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "tekken.json",
)
_DESCRIPTION = ["*.json", "*.model", "*.txt", "*.jinja"]
_ELSEWHERE = ["*/*", "consolidated*"]  # subfolders and second copies of the weights
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_SMALL = 64 * 2**20  # bytes: weights up to this size are hashed in full
_MAX_NAME = 1024  # characters
_MAX_HEADER = 100 * 2**20  # bytes, the limit of the safetensors format


@dataclass(frozen=True, slots=True)
class PlannedModel(Generic[Config]):
    """A model or an EAGLE-3 head that may be loaded: its configuration has been read and
    checked."""

    ref: ModelRef  # a Hub model is pinned to its commit
    folder: Path  # with the configuration and, for a model, the tokenizer
    config: Config
    parameters: int  # of a head: without the input embedding, which usually is the target's
    quantised: int = 0  # parameters that are stored in ``bits`` each
    bits: int = 0

    def bytes(self, dtype: torch.dtype) -> int:
        return (
            needed(self.parameters - self.quantised, bytes_each(dtype))
            + needed(self.quantised, 1) * self.bits // 8
        )


def parse_ref(text: str) -> ModelRef:
    """Parse ``owner/name`` or ``owner/name/file.gguf``, either with ``@revision``, the name of a
    model that comes with this program, or the path of a folder or of a GGUF file. Raises
    ModelError."""
    text = text.strip()
    if not text.isprintable() or len(text) > _MAX_NAME:
        raise ModelError(
            f"{text[:40]!a} is not the name of a model: write it as owner/name, or as the path of "
            "a folder."
        )
    ref = ModelRef(text)
    if is_local(ref):
        return ref
    name, _, revision = text.partition("@")
    repository = name.rpartition("/")[0] if name.endswith(GGUF) else name
    with explained(ModelRef(name)):
        validate_repo_id(repository)
    return ModelRef(name, revision or None)


def is_local(ref: ModelRef) -> bool:
    """Return whether ``ref`` names a folder or a GGUF file: an existing one, or a string that can
    only be a path."""
    if ref.name in (*BUNDLED, SMOLLM2_HEAD, smollm2.NAME) or ref.name.startswith(
        ("/", "./", "../", "~")
    ):
        return True
    path = folder_of(ref)
    return ref.name != "" and (
        is_folder(path) or (path.suffix == GGUF and (path.is_file() or ref.name.count("/") != 2))
    )


def is_folder(path: Path) -> bool:
    """False also for names that the operating system rejects, such as too long ones."""
    return os.path.isdir(path)  # noqa: PTH112


def folder_of(ref: ModelRef) -> Path:
    """Return the folder that a local ``ref`` names; ``~`` stays if that home directory does not
    exist."""
    if ref.name in (*BUNDLED, SMOLLM2_HEAD):
        return WEIGHTS_FOLDER / ref.name.partition("/")[2]
    return Path(os.path.expanduser(ref.name))  # noqa: PTH111


def label(ref: ModelRef) -> str:
    """Return, for progress messages, the Hub id, or the last part of a path."""
    return folder_of(ref).name if is_local(ref) else ref.name


def description(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """Return the folder with configuration and tokenizer, fetched if need be, and ``ref`` pinned to
    its commit if on the Hub. Raises ModelError."""
    progress(f"Loading {label(ref)}: configuration")
    if not is_local(ref):
        folder = snapshot(ref, _DESCRIPTION, progress)
        return folder, ModelRef(ref.name, folder.name)
    folder = folder_of(ref)
    if not is_folder(folder):
        raise ModelError(
            f"There is no folder {ref.name}: give the path of a folder with config.json and "
            "safetensors."
        )
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"The folder {ref.name} has no config.json: give one that was written by "
            "save_pretrained."
        )
    return folder, ref


def json_description(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef, dict[str, Any]]:
    """Do as ``description`` of what transformers does not read, with its config.json. Raises
    ModelError."""
    folder, pinned = description(ref, progress)
    with explained(ref):
        return folder, pinned, read_config_file(folder, ref.name)


def read_config_file(folder: Path, name: str) -> dict[str, Any]:
    """Return the checked config.json of a folder. Raises ModelError, and the errors of reading."""
    check_config_file(folder, name)
    raw: Any = json.loads((folder / "config.json").read_bytes())
    if not isinstance(raw, dict):
        raise ModelError(f"config.json of {name} is not a JSON object: fetch or save it again.")
    return raw


def weights(
    ref: ModelRef, progress: Progress, *, pickles: bool = False
) -> tuple[Path, ModelRef, tuple[Path, ...]]:
    """Return the complete folder, the reference with its revision resolved, and the weight files.
    ``pickles``: as in weight_files. Raises ModelError. The revision of a Hub model is its commit;
    that of a folder is ``local:`` and 12 digits of a content hash."""
    local = is_local(ref)
    folder = folder_of(ref) if local else snapshot(ref, [*_DESCRIPTION, _WEIGHTS], progress)
    if pickles and not local and not matching(folder, _WEIGHTS):
        folder = snapshot(ref, [*_DESCRIPTION, _TENSOR_PICKLES], progress)
    with explained(ref):
        files = weight_files(folder, ref.name, pickles=pickles)
        revision = fingerprint(folder, files) if local else folder.name
        return folder, ModelRef(ref.name, revision), files


def weight_files(folder: Path, name: str, *, pickles: bool = False) -> tuple[Path, ...]:
    """Return the single file, the shards of its index, or all weight files: safetensors or, with
    ``pickles`` if there are none, pickles. Raises ModelError."""
    for single, pattern in (
        ("model.safetensors", _WEIGHTS),
        ("pytorch_model.bin", _TENSOR_PICKLES),
    )[: 1 + pickles]:
        index = folder / f"{single}.index.json"
        if (folder / single).is_file():
            return (folder / single,)
        if index.is_file():
            return shard_files(index, name)
        if files := matching(folder, pattern):
            return files
    foreign = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    reason = f"only pickle files ({foreign[0]})" if foreign else "no weights as safetensors"
    raise ModelError(
        f"{name} has {reason}; files that can run code are not opened: convert the weights to "
        "safetensors (save_pretrained of transformers writes them)."
    )


def fingerprint(folder: Path, pickles: Sequence[Path] = ()) -> str:
    """``local:`` and 12 digits of a SHA-256 over config.json, the safetensors (large ones: headers
    and sizes), or ``pickles`` where there are none."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    paths = matching(folder, _WEIGHTS)
    small = sum(path.stat().st_size for path in paths) <= _SMALL
    for path in paths:
        digest.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(
            path.read_bytes() if small else json.dumps(read_header(path), sort_keys=True).encode()
        )
    for path in () if paths else pickles:
        with path.open("rb") as file:
            digest.update(
                f"\0{path.name}\0".encode() + hashlib.file_digest(file, "sha256").digest()
            )
    return f"local:{digest.hexdigest()[:12]}"


def read_header(path: Path) -> Mapping[str, Any]:
    """Name → dtype, shape and offsets of the tensors of a safetensors file. Raises ModelError if it
    is damaged."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: dict[str, Any] = json.loads(file.read(min(length, _MAX_HEADER)))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        if all(isinstance(size, int) for entry in tensors.values() for size in entry["shape"]):
            return tensors
    except (struct.error, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        pass
    raise ModelError(
        f"The weights in {path} are damaged (no safetensors header): fetch or save them again."
    )


def matching(folder: Path, pattern: str) -> tuple[Path, ...]:
    """Return only files: opening a pipe would wait for ever."""
    return tuple(sorted(path for path in folder.glob(pattern) if path.is_file()))


def size_of(*files: Path) -> str:
    return gigabytes(sum(file.stat().st_size for file in files))


def has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def snapshot(ref: ModelRef, patterns: list[str], progress: Progress) -> Path:
    def describe(bar: Any) -> str:
        downloads = bar.unit == "B" and bar.total and not str(bar.desc).startswith("Downloading")
        return (
            f"Loading {ref.name}: downloading, {bar.n / 1e9:.2f} of {bar.total / 1e9:.2f} GB"
            if downloads
            else ""
        )

    bar: Any = bar_class(describe, progress)
    files: dict[str, Any] = {"allow_patterns": patterns, "ignore_patterns": _ELSEWHERE}
    with explained(ref):
        return Path(snapshot_download(ref.name, revision=ref.revision, tqdm_class=bar, **files))
