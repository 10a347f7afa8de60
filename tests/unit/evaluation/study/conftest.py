"""Studies on a tiny pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_core.models import ModelPool
from mars_core.session import Session
from tests.pairs import tiny_pair


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the checkpoints of ``session`` are."""
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="session")
def session(folder: Path) -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(tiny_pair(folder)))
