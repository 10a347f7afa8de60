"""The bundled pair behind a stand-in server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mars_core.models import ModelPool
from mars_core.models.catalog import CATALOG
from mars_core.session import Session
from tests.served_server import Serving, serve_models


@pytest.fixture(scope="package")
def session() -> Session:
    return Session(ModelPool(device="cpu", dtype="float32").get(CATALOG[0]))


@pytest.fixture
def serving(session: Session) -> Iterator[Serving]:
    with serve_models(session) as found:
        yield found
