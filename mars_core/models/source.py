"""Where a model's files are: a local folder, or a snapshot of a Hub repository. Reads headers, never tensors.

Hub files come in two helpings, so that a model that cannot be used is refused before its weights are fetched: first
configuration and tokenizer, then the safetensors. Pickle files are never fetched and never opened.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.utils import validate_repo_id
from tqdm.auto import tqdm

import mars_core.demo
from mars_core.models.errors import ModelError, explained
from mars_core.models.untrusted import check_shards
from mars_core.types import ModelRef

Progress = Callable[[str], None]
BUNDLED = (
    "bundled/target",
    "bundled/draft",
    "bundled/eagle3",
)  # names that stand for folders of this program, wherever it is installed
WEIGHTS_FOLDER = Path(mars_core.demo.__file__).parent / "weights"
WEIGHTS = "*.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
DESCRIPTION_FILES = ["*.json", "*.model", "*.txt", "*.jinja"]
_ELSEWHERE = ["*/*", "consolidated*"]  # subfolders and second copies of the weights
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_SMALL = 64 * 2**20  # bytes: weights up to this size are hashed whole
_LONGEST_NAME = 1024  # characters
_LONGEST_HEADER = 100 * 2**20  # bytes, the limit of the safetensors format


def parse_ref(text: str) -> ModelRef:
    """``owner/name``, ``owner/name@revision``, a name in BUNDLED or the path of a folder. Raises ModelError."""
    text = text.strip()
    if not text.isprintable() or len(text) > _LONGEST_NAME:
        raise ModelError(
            f"{text[:40]!a} is not the name of a model: write it as owner/name, or as the path of a folder."
        )
    ref = ModelRef(text)
    if is_local(ref):
        return ref
    name, _, revision = text.partition("@")
    ref = ModelRef(name, revision or None)
    with explained(ref):
        validate_repo_id(name)
    return ref


def is_local(ref: ModelRef) -> bool:
    """Whether ``ref`` names a folder: one that is there, or something that only a path can look like."""
    if ref.name in BUNDLED or ref.name.startswith(("/", "./", "../", "~")):
        return True
    return ref.name != "" and is_folder(folder_of(ref))


def is_folder(path: Path) -> bool:
    """False also for names that the system refuses, too long ones say."""
    try:
        return path.is_dir()
    except OSError:
        return False


def folder_of(ref: ModelRef) -> Path:
    """The folder that a local ``ref`` names; ``~`` stays as it is where there is no such home."""
    if ref.name in BUNDLED:
        return WEIGHTS_FOLDER / ref.name.partition("/")[2]
    try:
        return Path(ref.name).expanduser()
    except RuntimeError:
        return Path(ref.name)


def label(ref: ModelRef) -> str:
    """For progress messages: the Hub id, or the last part of a path."""
    return folder_of(ref).name if is_local(ref) else ref.name


def description(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """The folder with configuration and tokenizer, fetched if need be, and ``ref`` pinned to its commit if on the Hub.

    Raises ModelError.
    """
    progress(f"Loading {label(ref)}: configuration")
    if not is_local(ref):
        folder = snapshot(ref, DESCRIPTION_FILES, progress)
        return folder, ModelRef(ref.name, folder.name)
    folder = folder_of(ref)
    if not is_folder(folder):
        raise ModelError(f"There is no folder {ref.name}: give the path of a folder with config.json and safetensors.")
    if not (folder / "config.json").is_file():
        raise ModelError(f"The folder {ref.name} has no config.json: give one that save_pretrained wrote.")
    return folder, ref


def weights(ref: ModelRef, progress: Progress) -> tuple[Path, ModelRef]:
    """The folder with everything, and the reference with its revision resolved. Raises ModelError.

    The revision of a Hub model is its commit; that of a folder is ``local:`` and 12 digits of a content hash.
    """
    folder = folder_of(ref) if is_local(ref) else snapshot(ref, [*DESCRIPTION_FILES, WEIGHTS], progress)
    if not any(folder.glob(WEIGHTS)):
        pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
        found = f"only pickle files ({pickles[0]})" if pickles else "no weights as safetensors"
        raise ModelError(
            f"{ref.name} has {found}; files that can run code are not opened: have the weights converted to "
            "safetensors (save_pretrained of transformers writes them)."
        )
    check_shards(folder, ref.name)
    return folder, ModelRef(ref.name, fingerprint(folder) if is_local(ref) else folder.name)


def fingerprint(folder: Path) -> str:
    """``local:`` and 12 digits of a SHA-256 over config.json and the safetensors (large ones: headers and sizes)."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    paths = sorted(folder.glob(WEIGHTS))
    whole = sum(path.stat().st_size for path in paths) <= _SMALL
    for path in paths:
        digest.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes() if whole else json.dumps(read_header(path), sort_keys=True).encode())
    return f"local:{digest.hexdigest()[:12]}"


def count_parameters(folder: Path) -> int:
    """Stored parameters, from the headers of the safetensors (tied weights are stored once). 0 where there are none."""
    tensors = (entry for path in sorted(folder.glob(WEIGHTS)) for entry in read_header(path).values())
    return sum(math.prod(entry["shape"]) for entry in tensors)


def read_header(path: Path) -> Mapping[str, Any]:
    """Name → dtype, shape and offsets of the tensors of a safetensors file. Raises ModelError if it is damaged."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: dict[str, Any] = json.loads(file.read(min(length, _LONGEST_HEADER)))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        if all(isinstance(size, int) for entry in tensors.values() for size in entry["shape"]):
            return tensors
    except (struct.error, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        pass
    raise ModelError(f"The weights in {path} are damaged (no safetensors header): fetch or save them again.")


def has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def snapshot(ref: ModelRef, patterns: list[str], progress: Progress) -> Path:
    with explained(ref):
        return Path(
            snapshot_download(
                ref.name,
                revision=ref.revision,
                allow_patterns=patterns,
                ignore_patterns=_ELSEWHERE,
                tqdm_class=_reporting(lambda done: progress(f"Loading {ref.name}: {done}")),
            )
        )


def _reporting(report: Progress) -> type[Any]:
    """A progress bar for the Hub client that draws nothing and reports the bytes that have arrived on the disk."""

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "file": io.StringIO(), "mininterval": 0.5})

        def display(self, *_args: Any, **_kwargs: Any) -> None:
            if self.unit == "B" and self.total and not str(self.desc).startswith("Downloading"):
                report(f"downloading, {self.n / 1e9:.2f} of {self.total / 1e9:.2f} GB")

    return Bar
