"""The tensors of a checkpoint folder: which files hold them, and what is in these. Knows no model and no tensor's name.

safetensors come first. A pickle is read as tensors only (``weights_only=True``), which runs no code of the file; whole models
are not read from pickles anywhere in this program, but the first EAGLE-3 heads were published as nothing else.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from mars_core.models.errors import ModelError, explained
from mars_core.types import ModelRef

PICKLES = "pytorch_model*.bin"  # not the optimizer's and arguments' pickles that trainers leave beside it
_FORMATS = (("model.safetensors", "*.safetensors"), ("pytorch_model.bin", PICKLES))


def weight_files(folder: Path, name: str) -> tuple[Path, ...]:
    """The files of the preferred format: the single one, the shards of its index, or whatever there is. Raises ModelError."""
    for single, pattern in _FORMATS:
        index = folder / f"{single}.index.json"
        if (folder / single).is_file():
            return (folder / single,)
        if index.is_file():
            return _shards(index, name)
        if found := tuple(sorted(folder.glob(pattern))):
            return found
    raise ModelError(
        f"The EAGLE-3 head {name} has no weights: give a folder with model.safetensors or pytorch_model.bin, whole or in "
        "parts with their index."
    )


def read_tensors(files: tuple[Path, ...], name: str) -> dict[str, Tensor]:
    """All tensors on the CPU by name; pickles are not copied into memory where they can be mapped. Raises ModelError."""
    tensors: dict[str, Tensor] = {}
    for path in files:
        with explained(ModelRef(name)):
            part = load_file(path) if path.suffix == ".safetensors" else _unpickled(path, name)
        twice = sorted(tensors.keys() & part.keys())
        if twice:
            raise ModelError(
                f"The weights of {name} hold {twice[0]} twice ({path.name} is the second file with it): keep the files of "
                "one save only."
            )
        tensors.update(part)
    return tensors


def fingerprint_pickles(folder: Path, files: tuple[Path, ...]) -> str:
    """``local:`` and 12 digits of a SHA-256 over config.json and ``files``, in the form of source.fingerprint."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in files:
        with path.open("rb") as file:
            digest.update(f"\0{path.name}\0".encode() + hashlib.file_digest(file, "sha256").digest())
    return f"local:{digest.hexdigest()[:12]}"


def _shards(index: Path, name: str) -> tuple[Path, ...]:
    try:
        names = set(json.loads(index.read_bytes())["weight_map"].values())
        plain = bool(names) and all(isinstance(part, str) and part == Path(part).name for part in names)
    except (ValueError, KeyError, TypeError, AttributeError):
        plain = False
    if not plain:
        raise ModelError(
            f"{index.name} of {name} is damaged (no weight_map to files beside it): fetch or save it again."
        )
    for part in sorted(names):
        if not (index.parent / part).is_file() or not part.endswith((".safetensors", ".bin")):
            raise ModelError(
                f"{index.name} of {name} names {part}, which is no weight file there: fetch it again, with all parts."
            )
    return tuple(index.parent / part for part in sorted(names))


def _unpickled(path: Path, name: str) -> dict[str, Tensor]:
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (pickle.UnpicklingError, EOFError) as error:
        raise _not_tensors(path, name) from error
    if not isinstance(loaded, Mapping) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in loaded.items()
    ):
        raise _not_tensors(path, name)
    return dict(loaded)


def _not_tensors(path: Path, name: str) -> ModelError:
    return ModelError(
        f"{path.name} of {name} is damaged or holds more than named tensors, which could run code, so it was not opened: "
        "have the weights saved as safetensors."
    )
