"""What can be said of a model before it is loaded: from the headers of its files alone, or from what
the Hub says of a repository."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub import errors as hub

from mars_core.decoder.architectures import has_fast_layers
from mars_core.models import smollm2
from mars_core.models.catalog import PairSpec
from mars_core.models.checks.untrusted import check_config_file
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import header_of
from mars_core.models.gguf.kept import lacks_levels_of
from mars_core.models.source import (
    GGUF,
    folder_of,
    is_folder,
    is_local,
    matching,
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
    fast: bool
    kept: bool = False
    read_bytes: int = 0
    fetched: bool = True


@dataclass(frozen=True, slots=True)
class HubRecord:
    """What the Hub says of a repository. ``files``: those at its root, with their bytes;
    ``parameters``: of its safetensors by format of numbers."""

    architecture: str
    files: Mapping[str, int]
    parameters: Mapping[str, int]

    def matching(self, pattern: str) -> list[str]:
        return sorted(name for name in self.files if Path(name).match(pattern))


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
    if target := found.get("target"):
        spec = replace(spec, target_parameters=target.parameters)
    if draft := found.get("draft"):
        spec = replace(spec, draft_parameters=draft.parameters)
    return spec, found


def hub_record(ref: ModelRef) -> HubRecord | None:
    """Return what the Hub says of the repository of ``ref``, without fetching a file; None where it
    cannot be asked. Raises ModelError for one that is not there, or asks for a login.

    >>> hub_record(ModelRef("HuggingFaceTB/SmolLM2-135M-Instruct"))  # doctest: +SKIP
    HubRecord(architecture='LlamaForCausalLM', files={...}, parameters={'BF16': 134515008})
    """
    return _asked(ref.name, ref.revision, int(time.monotonic() // _ASKED_AGAIN_S))


@lru_cache(maxsize=64)
def _asked(name: str, revision: str | None, _when: int) -> HubRecord | None:
    repository = _repository(name)
    try:
        with explained(ModelRef(repository, revision)):
            info = HfApi().model_info(
                repository, revision=revision, files_metadata=True, timeout=_PATIENCE_S
            )
            config, gguf = info.config or {}, info.gguf or {}
            named = (config.get("architectures") or [gguf.get("architecture", "")])[0]
            sizes = {each.rfilename: each.size for each in (info.siblings or ())[:_MOST_FILES]}
            stored = info.safetensors.parameters if info.safetensors else {}
            return HubRecord(
                str(named),
                {file: int(size or 0) for file, size in sizes.items() if "/" not in file},
                {str(kind): int(count) for kind, count in stored.items()},
            )
    except ModelError as error:
        if isinstance(error.__cause__, _MISSING):
            raise
        return None


def _repository(name: str) -> str:
    return name.rpartition("/")[0] if name.endswith(GGUF) else name


def _summary(ref: ModelRef) -> Summary | None:
    """Return None for a model of the Hub of which nothing is known. Raises ModelError for a path or a
    name at which there is nothing."""
    path = folder_of(ref) if is_local(ref) else _fetched(ref)
    if path is None:
        record = hub_record(ref)
        return _of_record(ref, record) if record else None
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


def _fetched(ref: ModelRef) -> Path | None:
    """Return the folder or GGUF file of a model of the Hub if it is on this machine as a whole."""
    repository = _repository(ref.name)
    with suppress(ModelError), explained(ref):
        cached = snapshot_download(repository, revision=ref.revision, local_files_only=True)
        path = Path(cached) / ref.name.removeprefix(repository).removeprefix("/")
        if path.is_file() or weight_files(path, ref.name):
            return path
    return None


def _of_record(ref: ModelRef, record: HubRecord) -> Summary:
    """Raises FileNotNamed, and ModelError where a GGUF file is named that is not there."""
    repository, files = _repository(ref.name), record.matching(f"*{GGUF}")
    file = ref.name.removeprefix(f"{repository}/") if repository != ref.name else ""
    if file and file not in files:
        offered = (
            f"choose one of {', '.join(files[:_OFFERED])}" if files else "it has no GGUF files"
        )
        raise ModelError(f"{repository} has no file {file}: {offered}.")
    if files and not (file or record.parameters):
        revision = f"@{ref.revision}" if ref.revision else ""
        named = {f"{repository}/{each}{revision}": record.files[each] for each in files}
        raise FileNotNamed(repository, named)
    weights = [file] if file else record.matching("model*.safetensors")
    return Summary(
        record.architecture,
        "GGUF" if file else f"safetensors {_most(Counter(record.parameters))}",
        0 if file else sum(record.parameters.values()),
        sum(record.files[each] for each in weights),
        has_fast_layers(record.architecture),
        fetched=False,
    )


def _of_file(file: Path, name: str) -> Summary:
    header, sizes = header_of(file, name), Counter[str]()
    for tensor in header.tensors.values():
        sizes[tensor.kind.name] += tensor.rows * tensor.row_bytes
    table = header.tensors[_TABLE] if {_TABLE, _OUTPUT} <= header.tensors.keys() else None
    return Summary(
        header.architecture,
        f"GGUF {_most(sizes)}",
        header.parameters,
        file.stat().st_size,
        has_fast_layers(header.architecture),
        not lacks_levels_of(header),
        sizes.total() - (table.rows * table.row_bytes if table else 0),
    )


def _of_folder(folder: Path, name: str) -> Summary:
    check_config_file(folder, name)
    config = json.loads((folder / "config.json").read_bytes())
    files, sizes, parameters = matching(folder, "*.safetensors"), Counter[str](), 0
    for file in files:
        for entry in read_header(file).values():
            begin, end = entry["data_offsets"]
            sizes[str(entry["dtype"])] += end - begin
            parameters += math.prod(entry["shape"])
    architecture = str((config.get("architectures") or [config.get("model_type", "")])[0])
    return Summary(
        architecture,
        f"safetensors {_most(sizes)}",
        parameters,
        sum(file.stat().st_size for file in files),
        has_fast_layers(architecture),
    )


def _most(sizes: Counter[str]) -> str:
    return ", ".join(name for name, _ in sizes.most_common(_NAMED))
