"""A private PostgreSQL cluster in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = Path("/usr/lib/postgresql")


@contextmanager
def cluster(options: str = "") -> Iterator[Path | None]:
    """The folder of its socket; None where PostgreSQL is not installed. It listens on no port.
    ``options``: of the server, more."""
    programs = sorted(PROGRAMS.glob("*/bin"), key=lambda path: int(path.parent.name))
    if not programs:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="mars-pg-", dir="/tmp"))  # socket paths must be short
    user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def control(*arguments: str) -> None:
        command = [
            *user,
            str(programs[-1] / "pg_ctl"),
            "-D",
            str(folder / "data"),
            "-w",
            *arguments,
        ]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    options = f"-k {folder} -c listen_addresses='' {options}"
    try:
        control("-o", "-E UTF8 --locale=C.UTF-8 -A trust -U mars", "initdb")
        control("-o", options, "-l", str(folder / "log"), "start")
        try:
            yield folder
        finally:
            control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def databases(folder: str) -> Iterator[dict[str, str]]:
    """URLs by name: a file in ``folder`` and, where PostgreSQL is installed, a server that listens
    on no port."""
    with cluster() as socket:
        urls = {"SQLite": f"sqlite:///{folder}/runs.db"}
        yield urls | (
            {"PostgreSQL": f"postgresql://mars@/postgres?host={socket}"} if socket else {}
        )
