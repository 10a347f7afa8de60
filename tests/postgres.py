"""A private PostgreSQL cluster made for the session of tests: fixtures that tests/conftest.py imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _as_postgres() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def connection_to(folder: Path, *, autocommit: bool = False) -> Any:
    """A connection to the first database of the cluster whose socket is in ``folder``."""
    import psycopg

    return psycopg.connect(host=str(folder), user="mars", dbname="postgres", autocommit=autocommit)


@contextmanager
def cluster(network: str = "", port: int = 5432, inside: Sequence[str] = ()) -> Iterator[Path]:
    """The socket folder of a running private cluster. It listens on ``port`` for a ``network`` (CIDR), without one on no port.
    ``inside``: words before its commands."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        reason = "PostgreSQL's programs are missing from /usr/lib/postgresql/*/bin (apt-get install postgresql)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="mars-pg-", dir="/tmp"))  # a socket's path must be short
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    run = [*inside, *_as_postgres(), str(found[-1] / "pg_ctl"), "-D", str(folder / "data"), "-w"]
    settings = f"-k {folder} -p {port} -c listen_addresses={'*' if network else chr(39) * 2} -c fsync=off -c max_connections=60"
    try:
        subprocess.run(
            [*run, "-o", "-E UTF8 --locale=C -A trust -U mars", "initdb"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        if network:
            with (folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {network} trust\n")
        subprocess.run(
            [*run, "-o", settings, "-l", str(folder / "log"), "start"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield folder
        finally:
            subprocess.run([*run, "-m", "immediate", "stop"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
