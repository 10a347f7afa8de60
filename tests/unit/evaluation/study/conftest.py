"""Studies on a tiny pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_core.models import ModelPool
from mars_core.session import Session
from tests.pairs import tiny_pair
from tests.unit.evaluation.study.working import HERE, SUITE


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the checkpoints of ``session`` are."""
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="session")
def session(folder: Path) -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(tiny_pair(folder)))


@pytest.fixture
def options(folder: Path, session: Session, tmp_path: Path, url: str) -> str:
    """Of a small study; ``session`` is requested so that the checkpoints are there."""
    assert session.pair.draft is not None
    second = SUITE.replace("1,", "2,", 1).replace("1 + 1", "2 + 2")
    (tmp_path / "own.jsonl").write_text(SUITE + second, encoding="utf-8")
    models = f"--target={folder}/target --draft={folder}/draft"
    study = f"--suite {tmp_path}/own.jsonl --max-new-tokens 12 --no-chat --no-placebos"
    return f"{study} {models} --db {url} {HERE}"
