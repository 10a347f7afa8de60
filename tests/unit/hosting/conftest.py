"""A separate store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import RunStore
from storage.database import url_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(url_of(tmp_path / "a folder #1?" / "runs.db")) as opened:
        yield opened
