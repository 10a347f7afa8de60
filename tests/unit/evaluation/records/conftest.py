"""A file with a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Any], Path]:
    def write(value: Any) -> Path:
        path = tmp_path / "record.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return path

    return write
