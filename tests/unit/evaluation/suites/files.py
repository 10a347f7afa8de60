"""Suite files for tests: rows as lines, and where the field's files are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FIELD = Path(
    os.environ.get("MARS_SUITES", "/work/shared/data/suites")
)  # question.jsonl files, not part of this project


def field_file(name: str) -> str:
    """The path of one of the field's files; skips the test where they are not on this machine."""
    path = FIELD / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(
            f"{path} is missing: point MARS_SUITES to the folder with the field's question files"
        )
    return str(path)


def write(path: Path, rows: list[Any]) -> str:
    """One row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return str(path)


def row(
    number: int, turns: str | list[str], reference: Any = None, category: str | None = None
) -> dict[str, Any]:
    """A line as Spec-Bench and EAGLE write it."""
    values: dict[str, Any] = {
        "question_id": number,
        "turns": [turns] if isinstance(turns, str) else turns,
    }
    values |= {} if reference is None else {"reference": reference}
    return values | ({} if category is None else {"category": category})
