"""Checks of untrusted model files before a library reads them.

Code of a checkpoint is never run (``trust_remote_code=False``) and pickles are never opened. The
remaining risks: shards outside the folder, attention implementations fetched as code, and sizes
that would exhaust memory before other checks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mars_core.models.errors import ModelError

# Above any real model. The modules of a layer take 2 ms, without its weights.
_MOST = dict.fromkeys(
    ("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 512
) | dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4096)
_MOST_ENTRIES = 4096  # of a list
_MOST_BYTES = 4 << 20  # of a file
_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")


def check_config_file(folder: Path, name: str) -> None:
    """Raises ModelError. Invalid JSON is left to the library's error."""
    for file in ("config.json", "generation_config.json"):
        path, objects = folder / file, list[dict[str, Any]]()
        size = path.stat().st_size if path.is_file() else 0
        check_count(name, file, "bytes", size, _MOST_BYTES)
        _json(path, objects.append)
        for part in objects:
            for key, value in part.items():
                if isinstance(value, list):
                    check_count(name, file, f"entries of {key[:80]!a}", len(value), _MOST_ENTRIES)
                elif isinstance(value, int | float):
                    check_count(name, file, key[:80], value, _MOST.get(key, math.inf))
            for key in _ATTENTION:
                if "/" in str(part.get(key, "")):
                    raise ModelError(
                        f"{name} requires attention code from the Hub ({key}), which is never run "
                        "here: choose another model."
                    )


def check_count(name: str, file: str, what: str, count: float, most: float) -> None:
    if count > most:
        raise ModelError(
            f"{name} cannot be loaded: the number of {what} of its {file} is {count:.0f}; it must "
            f"be at most {most}."
        )


def shard_files(index: Path, name: str) -> tuple[Path, ...]:
    """Return the shards named in a weight index; all must be in its folder. Raises ModelError."""
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
        raise ModelError(
            f"{index.name} of {name} is damaged ({reason}): fetch or save it again, with all parts."
        )
    return tuple(index.parent / shard for shard in shards)


def _json(path: Path, hook: Callable[[dict[str, Any]], object] | None = None) -> Any:
    """Return the parsed file, or None. ``hook`` is called with every object in it, e.g. the text
    part of a multimodal model's configuration."""
    try:
        return json.loads(path.read_bytes(), object_hook=hook)
    except (OSError, ValueError, RecursionError):
        return None
