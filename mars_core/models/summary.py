"""What can be said of a model before it is loaded, from the headers of its files alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from mars_core.decoder.architectures import has_fast_layers
from mars_core.models import smollm2
from mars_core.models.catalog import PairSpec
from mars_core.models.checks.untrusted import check_config_file
from mars_core.models.errors import ModelError, explained
from mars_core.models.gguf import header_of
from mars_core.models.gguf.kept import lacks_levels_of
from mars_core.models.source import (
    GGUF,
    count_parameters,
    folder_of,
    is_folder,
    is_local,
    matching,
    read_header,
)
from mars_core.types import ModelRef

_TABLE, _OUTPUT = "token_embd.weight", "output.weight"  # tensors of GGUF files
_NAMED = 3  # formats of numbers


@dataclass(frozen=True, slots=True)
class Summary:
    """``numbers``: the formats of most bytes; ``fast``: the engine has layers for it; ``kept``: a CPU
    multiplies its weights as the file has them, of which it then reads ``read_bytes`` for a token
    without drafts."""

    architecture: str
    numbers: str
    parameters: int
    file_bytes: int
    fast: bool
    kept: bool = False
    read_bytes: int = 0


def summarised(spec: PairSpec) -> tuple[PairSpec, dict[str, Summary]]:
    """Return the pair with the parameters of its models on this machine, and what is known of
    these: ``target``, ``draft``. A large GGUF file that was not read yet takes a second. Raises
    ModelError."""
    refs = {"target": spec.target, "draft": spec.draft}
    found = {name: summary for name, ref in refs.items() if ref and (summary := _summary(ref))}
    if target := found.get("target"):
        spec = replace(spec, target_parameters=target.parameters)
    if draft := found.get("draft"):
        spec = replace(spec, draft_parameters=draft.parameters)
    return spec, found


def _summary(ref: ModelRef) -> Summary | None:
    """Return None for a model of the Hub. Raises ModelError for a path at which there is nothing."""
    path = folder_of(ref)
    if is_local(ref) and ref.name != smollm2.NAME and not path.exists():
        raise ModelError(
            f"There is no file or folder {ref.name}: give the path of a GGUF file or of a folder "
            "with config.json, or a Hub id."
        )
    with explained(ref):
        if ref.name.endswith(GGUF):
            return _of_file(path, ref.name) if path.is_file() else None
        described = is_folder(path) and (path / "config.json").is_file()
        return _of_folder(path, ref.name) if described else None


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
    files, sizes = matching(folder, "*.safetensors"), Counter[str]()
    for file in files:
        for entry in read_header(file).values():
            begin, end = entry["data_offsets"]
            sizes[str(entry["dtype"])] += end - begin
    architecture = str((config.get("architectures") or [config.get("model_type", "")])[0])
    return Summary(
        architecture,
        f"safetensors {_most(sizes)}",
        count_parameters(folder),
        sum(file.stat().st_size for file in files),
        has_fast_layers(architecture),
    )


def _most(sizes: Counter[str]) -> str:
    return ", ".join(name for name, _ in sizes.most_common(_NAMED))
