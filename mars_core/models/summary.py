"""What can be said of a model before it is loaded: from the headers of its files alone, or from what
the Hub says of a repository."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import filter as matching_names
from functools import lru_cache
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelInfo, snapshot_download
from huggingface_hub import errors as hub

from mars_core.decoder.architectures import has_fast_layers
from mars_core.models import smollm2
from mars_core.models.catalog import PairSpec
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import header_of
from mars_core.models.source import (
    GGUF,
    folder_of,
    is_folder,
    is_local,
    matching,
    read_config_file,
    read_header,
    weight_files,
)
from mars_core.types import ModelRef

_TABLE, _OUTPUT = "token_embd.weight", "output.weight"  # tensors of GGUF files
_NAMED = 3  # formats of numbers
_PATIENCE_S = 5  # for an answer of the Hub
_ASKED_AGAIN_S = 60  # after so long
_MOST_FILES = 1000
_OFFERED = 8  # files that an error names
# A gated repository is a kind of missing one.
_MISSING = (hub.RepositoryNotFoundError, hub.RevisionNotFoundError, hub.DisabledRepoError)


@dataclass(frozen=True, slots=True)
class Summary:
    """``numbers``: the formats of most bytes; ``parameters``: 0 where they are not known; ``fast``: the
    engine has layers for it; ``kept``: a CPU multiplies its weights as the file has them, of which it
    then reads ``read_bytes`` for a token without drafts; ``fetched``: it is on this machine."""

    architecture: str
    numbers: str
    parameters: int
    file_bytes: int
    kept: bool = False
    read_bytes: int = 0
    fetched: bool = True

    @property
    def fast(self) -> bool:
        return has_fast_layers(self.architecture)


class FileNotNamed(ModelError):
    """A repository of GGUF files: ``files``, by the name that each has as a model, with its bytes."""

    def __init__(self, repository: str, files: Mapping[str, int]) -> None:
        super().__init__(f"{repository} has GGUF files: choose one, such as {next(iter(files))}.")
        self.files = files


def summarised(spec: PairSpec) -> tuple[PairSpec, dict[str, Summary]]:
    """Return the pair with the parameters of its models, and what is known of these: ``target``,
    ``draft``. A large GGUF file that was not read yet takes a second, an answer of the Hub some.
    Raises ModelError."""
    refs = {"target": spec.target, "draft": spec.draft}
    found = {name: summary for name, ref in refs.items() if ref and (summary := _summary(ref))}
    sizes: dict[str, Any] = {f"{name}_parameters": each.parameters for name, each in found.items()}
    return replace(spec, **sizes), found


def _summary(ref: ModelRef) -> Summary | None:
    """Return None for a model of the Hub of which nothing is known. Raises ModelError for a path or a
    name at which there is nothing."""
    path = folder_of(ref) if is_local(ref) else _fetched(ref)
    if path is None:
        info = _asked(_repository(ref.name), ref.revision, int(time.monotonic() // _ASKED_AGAIN_S))
        return _of_hub(ref, info) if info else None
    if ref.name != smollm2.NAME and not path.exists():
        raise ModelError(
            f"There is no file or folder {ref.name}: give the path of a GGUF file or of a folder "
            "with config.json, or a Hub id."
        )
    with explained(ref):
        if ref.name.endswith(GGUF):
            return _of_file(path, ref.name) if path.is_file() else None
        described = is_folder(path) and (path / "config.json").is_file()
        return _of_folder(path, ref.name) if described else None


@lru_cache(maxsize=64)
def _asked(repository: str, revision: str | None, _when: int) -> ModelInfo | None:
    """Return what the Hub says of a repository, without fetching a file; None where it cannot be
    asked. Raises ModelError for one that is not there, or asks for a login."""
    try:
        with explained(ModelRef(repository, revision)):
            return HfApi().model_info(
                repository, revision=revision, files_metadata=True, timeout=_PATIENCE_S
            )
    except ModelError as error:
        if isinstance(error.__cause__, _MISSING):
            raise
        return None


def _repository(name: str) -> str:
    return name.rpartition("/")[0] if name.endswith(GGUF) else name


def _fetched(ref: ModelRef) -> Path | None:
    """Return the folder or GGUF file of a model of the Hub if it is on this machine as a whole."""
    repository = _repository(ref.name)
    with suppress(ModelError), explained(ref):
        cached = snapshot_download(repository, revision=ref.revision, local_files_only=True)
        path = Path(cached) / ref.name.removeprefix(repository).removeprefix("/")
        if path.is_file() or weight_files(path, ref.name):
            return path
    return None


def _of_hub(ref: ModelRef, info: ModelInfo) -> Summary:
    """Raises FileNotNamed, and ModelError where a GGUF file is named that is not there."""
    repository = _repository(ref.name)
    file = ref.name.removeprefix(repository).removeprefix("/")
    siblings = (info.siblings or ())[:_MOST_FILES]
    sizes = {each.rfilename: each.size or 0 for each in siblings if "/" not in each.rfilename}
    parameters = info.safetensors.parameters if info.safetensors else {}
    files = sorted(matching_names(sizes, f"*{GGUF}"))
    if file and file not in files:
        offered = (
            f"choose one of {', '.join(files[:_OFFERED])}" if files else "it has no GGUF files"
        )
        raise ModelError(f"{repository} has no file {file}: {offered}.")
    if files and not (file or parameters):
        revision = f"@{ref.revision}" if ref.revision else ""
        raise FileNotNamed(
            repository, {f"{repository}/{each}{revision}": sizes[each] for each in files}
        )
    config, gguf = info.config or {}, info.gguf or {}
    weights = [file] if file else matching_names(sizes, "model*.safetensors")
    return Summary(
        str((config.get("architectures") or [gguf.get("architecture", "")])[0]),
        "GGUF" if file else f"safetensors {_most(Counter(parameters))}",
        0 if file else sum(parameters.values()),
        sum(sizes[each] for each in weights),
        fetched=False,
    )


def _of_file(file: Path, name: str) -> Summary:
    header, sizes = header_of(file, name), Counter[str]()
    for tensor in header.tensors.values():
        sizes[tensor.kind.name] += tensor.bytes
    table = header.tensors.get(_TABLE) if _OUTPUT in header.tensors else None
    return Summary(
        header.architecture,
        f"GGUF {_most(sizes)}",
        header.parameters,
        file.stat().st_size,
        not header.lacks_levels(),
        sizes.total() - (table.bytes if table else 0),
    )


def _of_folder(folder: Path, name: str) -> Summary:
    config, sizes = read_config_file(folder, name), Counter[str]()
    files = matching(folder, "*.safetensors")
    tensors = [tensor for file in files for tensor in read_header(file).values()]
    for tensor in tensors:
        begin, end = tensor["data_offsets"]
        sizes[str(tensor["dtype"])] += end - begin
    return Summary(
        str((config.get("architectures") or [config.get("model_type", "")])[0]),
        f"safetensors {_most(sizes)}",
        sum(math.prod(tensor["shape"]) for tensor in tensors),
        sum(file.stat().st_size for file in files),
    )


def _most(sizes: Counter[str]) -> str:
    return ", ".join(name for name, _ in sizes.most_common(_NAMED))
