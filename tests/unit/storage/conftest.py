"""Stores to test on: SQLite in a temporary folder, and PostgreSQL in the private cluster of
tests/postgres.py."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from storage import RunStore
from storage.schema import Base
from tests.postgres import connection_to
from tests.traces import make_trace
from tests.unit.storage.exports import save


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'new folder' / 'runs.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database, on each of the supported ones: none of our tables is in it."""
    value: str = request.getfixturevalue(f"{request.param}_url")
    return value


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file on the current schema, without rows: copied, since making one takes longer than
    most tests."""
    path = tmp_path_factory.mktemp("empty") / "runs.db"
    RunStore(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def postgres_tables(postgres_folder: Path) -> Iterator[RunStore]:
    """A PostgreSQL database on the current schema."""
    with RunStore(_new_database(postgres_folder)) as opened:
        yield opened


@pytest.fixture
def sqlite_store(sqlite_url: str, empty_file: Path) -> Iterator[RunStore]:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.parent.mkdir()
    shutil.copy(empty_file, path)
    with RunStore(sqlite_url) as opened:
        yield opened


@pytest.fixture
def postgres_store(postgres_tables: RunStore) -> RunStore:
    with postgres_tables.read() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(delete(table))
        connection.commit()
    return postgres_tables


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> RunStore:
    """A store without rows, on each of the supported databases."""
    value: RunStore = request.getfixturevalue(f"{request.param}_store")
    return value


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def lasting_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_file: Path
) -> Iterator[RunStore]:
    """One store for all tests of a module, which must not mind what the others leave in it."""
    if request.param == "sqlite":
        url = f"sqlite:///{shutil.copy(empty_file, tmp_path_factory.mktemp('lasting'))}"
    else:
        url = _new_database(request.getfixturevalue("postgres_folder"))
    with RunStore(url) as opened:
        yield opened


def _new_database(folder: Path) -> str:
    name = f"tables_{uuid.uuid4().hex}"
    with connection_to(folder, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://mars:secret@/{name}?host={folder}"


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database file."""
    path = tmp_path_factory.mktemp("good") / "runs.db"
    with RunStore(f"sqlite:///{path}") as store:
        for seed in range(3):
            save(store, make_trace(seed=seed, new_tokens=60))
    return path.read_bytes()


@pytest.fixture
def path(three_runs: bytes) -> Iterator[Path]:
    """A database with three runs, in a folder that nobody else minds and anybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="mars-bad-day-"))
    folder.chmod(0o755)
    (folder / "runs.db").write_bytes(three_runs)
    try:
        yield folder / "runs.db"
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
