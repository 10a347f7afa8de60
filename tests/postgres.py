"""A private PostgreSQL cluster made for the session of tests: fixtures that tests/conftest.py
imports."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

PROGRAMS = Path("/usr/lib/postgresql")


def connection_to(folder: Path, *, autocommit: bool = False) -> Any:
    """A connection to the first database of the cluster whose socket is in ``folder``."""
    import psycopg

    return psycopg.connect(host=str(folder), user="mars", dbname="postgres", autocommit=autocommit)


@contextmanager
def cluster() -> Iterator[Path]:
    """The socket folder of a private cluster, which listens on no port; without PostgreSQL the test
    is skipped, or fails where CI is set."""
    programs = sorted(PROGRAMS.glob("*/bin"), key=lambda path: int(path.parent.name))
    if not programs:
        reason = (
            f"PostgreSQL's programs are missing from {PROGRAMS}/*/bin (apt-get install postgresql)"
        )
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    # socket paths must be short
    with TemporaryDirectory(prefix="mars-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        command = [str(programs[-1] / "pg_ctl"), "-w", "-D", f"{folder}/data"]
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres")
            command = ["runuser", "-u", "postgres", "--", *command]

        def control(*arguments: str) -> None:
            subprocess.run(
                [*command, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )

        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        control("-o", "-E UTF8 --locale=C.UTF-8 -A trust -U mars", "initdb")
        control("-o", options, "-l", f"{folder}/log", "start")
        try:
            yield Path(folder)
        finally:
            control("-m", "immediate", "stop")


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
