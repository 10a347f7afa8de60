"""Files of ``ui/assets``, and values on their way into the page."""

from __future__ import annotations

import json
from importlib import resources


def asset(name: str, folder: str = "assets") -> str:
    """The text of a file of a folder of ``ui``."""
    return resources.files("ui").joinpath(folder, name).read_text(encoding="utf-8")


def script(*names: str) -> str:
    """Files of ``ui/assets`` that run as one function."""
    return "\n".join(map(asset, names))


def to_json(value: object) -> str:
    """ASCII JSON without ``<``: safe in transport and in any page, whatever text it carries."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
