"""A separate store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import RunStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(f"sqlite:///{tmp_path / 'a folder #1?' / 'runs.db'}") as opened:
        yield opened
