"""A private PostgreSQL cluster made for the session of tests: fixtures that tests/conftest.py
imports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.common import postgres


def connection_to(folder: Path, *, autocommit: bool = False) -> Any:
    """A connection to the first database of the cluster whose socket is in ``folder``."""
    import psycopg

    return psycopg.connect(host=str(folder), user="mars", dbname="postgres", autocommit=autocommit)


@contextmanager
def cluster() -> Iterator[Path]:
    """The socket folder of a private cluster; without PostgreSQL the test is skipped, or fails
    where CI is set."""
    with postgres.cluster("-c fsync=off") as folder:
        if folder is None:
            reason = f"PostgreSQL's programs are missing from {postgres.PROGRAMS}/*/bin (apt-get install postgresql)"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        yield folder


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    with cluster() as folder:
        yield folder


@pytest.fixture
def postgres_url(postgres_folder: Path) -> str:
    with connection_to(postgres_folder) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return f"postgresql://mars:secret@/postgres?host={postgres_folder}"
