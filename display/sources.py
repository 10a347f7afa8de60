"""Files of a package, and values on their way into a page."""

from __future__ import annotations

import json
from importlib import resources


def source(name: str, package: str = "display") -> str:
    """Read a text file of a package by its path below it."""
    return resources.files(package).joinpath(*name.split("/")).read_text(encoding="utf-8")


def to_json(value: object) -> str:
    """Write ASCII JSON without ``<`` and ``'``: safe in transport, in any page and in an attribute
    in single quotes, whatever text it carries."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("'", "\\u0027").replace("&", "\\u0026")
