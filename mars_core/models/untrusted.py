"""What the files of a model must not say, looked at before a library reads them. Knows no tensors.

Code of a checkpoint is never run (``trust_remote_code=False``) and pickles are never opened; this is for what is left: shards that
lie elsewhere, attention that would be fetched as code, and sizes that would fill the memory before anything is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mars_core.models.errors import ModelError

INDEX = "model.safetensors.index.json"
_MOST_LAYERS = 4096  # or experts: more than any model has
_COUNTS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
)
_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")


def check_config_file(folder: Path, name: str) -> None:
    """Raises ModelError. What is no JSON at all is left to the library, which says so."""
    for part in _objects(_json(folder / "config.json")):
        for key in _COUNTS:
            value = part.get(key)
            if isinstance(value, int | float) and value > _MOST_LAYERS:
                raise ModelError(
                    f"{name} cannot be loaded: its config.json has {key} = {value:.0f}; at most {_MOST_LAYERS} can be."
                )
        for key in _ATTENTION:
            if "/" in str(part.get(key, "")):
                raise ModelError(
                    f"{name} asks for attention that is code of the Hub ({key}), which is never run here: choose another model."
                )


def check_shards(folder: Path, name: str) -> None:
    """The index of weights in several files names only files of the folder. Raises ModelError."""
    index = _json(folder / INDEX)
    named = index.get("weight_map") if isinstance(index, Mapping) else None
    for shard in sorted(set(map(str, named.values()))) if isinstance(named, Mapping) else ():
        if Path(shard).name != shard or shard in (".", ".."):
            raise ModelError(
                f"{name} names weights outside its folder ({shard[:80]!r} in {INDEX}): fetch or save it again."
            )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The object and those in it, such as the part for text of a model that sees. Nested without end it was no JSON above."""
    if isinstance(value, Mapping):
        yield value
        for each in value.values():
            yield from _objects(each)
