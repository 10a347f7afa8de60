"""Checks of untrusted model files before a library reads them.

Code of a checkpoint is never run (``trust_remote_code=False``) and pickles are never opened. The remaining risks: shards
outside the folder, attention implementations fetched as code, and sizes that would exhaust memory before other checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mars_core.models.errors import ModelError

_MAX_LAYERS = 4096  # or experts; above any real model
_COUNTS = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_experts", "num_local_experts", "n_routed_experts",
)  # fmt: skip
_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")


def check_config_file(folder: Path, name: str) -> None:
    """Raises ModelError. Invalid JSON is left to the library's own error."""
    objects: list[dict[str, Any]] = []
    _json(folder / "config.json", objects.append)
    for part in objects:
        for key in _COUNTS:
            value = part.get(key)
            if isinstance(value, int | float) and value > _MAX_LAYERS:
                raise ModelError(
                    f"{name} cannot be loaded: its config.json has {key} = {value:.0f}; it must be at most {_MAX_LAYERS}."
                )
        for key in _ATTENTION:
            if "/" in str(part.get(key, "")):
                raise ModelError(
                    f"{name} requires attention code from the Hub ({key}), which is never run here: choose another model."
                )


def shard_files(index: Path, name: str) -> tuple[Path, ...]:
    """The shards named in a weight index; all must be in its folder. Raises ModelError."""
    content = _json(index)
    named = content.get("weight_map") if isinstance(content, Mapping) else None
    shards = sorted(set(map(str, named.values()))) if isinstance(named, Mapping) else []
    suffix = Path(index.name.removesuffix(".index.json")).suffix
    reason = "" if shards else "no weight_map to files beside it"
    for shard in shards:
        if Path(shard).name != shard or shard == ".." or not shard.isprintable():
            reason = f"it names weights outside its folder, {shard[:80]!a}"
        elif not shard.endswith(suffix) or not (index.parent / shard).is_file():
            reason = f"it names {shard}, which is not a weight file there"
    if reason:
        raise ModelError(f"{index.name} of {name} is damaged ({reason}): fetch or save it again, with all parts.")
    return tuple(index.parent / shard for shard in shards)


def _json(path: Path, hook: Callable[[dict[str, Any]], object] | None = None) -> Any:
    """The parsed file, or None. ``hook`` is called with every object in it, e.g. the text part of a multimodal model's configuration."""
    try:
        return json.loads(path.read_bytes(), object_hook=hook)
    except (OSError, ValueError, RecursionError):
        return None
