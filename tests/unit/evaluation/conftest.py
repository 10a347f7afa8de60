"""A database, and the bundled pair, loaded once, behind two stand-in servers, started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mars_core.models import ModelPool
from mars_core.models.catalog import BUNDLED_PAIR
from mars_core.session import Session
from storage import RunStore
from tests.served_server import Serving, serve_models


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def store(url: str) -> Iterator[RunStore]:
    with RunStore(url) as opened:
        yield opened


@pytest.fixture(scope="session")
def bundled_session() -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(BUNDLED_PAIR))


@pytest.fixture(scope="session")
def started(bundled_session: Session) -> Iterator[tuple[Serving, Serving]]:
    with serve_models(bundled_session) as one, serve_models(bundled_session) as other:
        yield one, other


@pytest.fixture
def serving(started: tuple[Serving, Serving]) -> Serving:
    """A server with its settings as at its start."""
    return started[0].reset()


@pytest.fixture
def other_serving(started: tuple[Serving, Serving]) -> Serving:
    return started[1].reset()
