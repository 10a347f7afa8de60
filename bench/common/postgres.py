"""A private PostgreSQL cluster in a temporary folder, for the duration of a measurement."""

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
def postgres() -> Iterator[str | None]:
    """The URL of its database; None where PostgreSQL is not installed. It listens on no port."""
    found = sorted(PROGRAMS.glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="mars-pg-", dir="/tmp"))  # socket paths must be short
    user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def control(*arguments: str) -> None:
        command = [*user, str(found[-1] / "pg_ctl"), "-D", str(folder / "data"), "-w", *arguments]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    try:
        control("-o", "-E UTF8 --locale=C.UTF-8 -A trust -U mars", "initdb")
        control("-o", f"-k {folder} -c listen_addresses=''", "-l", str(folder / "log"), "start")
        try:
            yield f"postgresql://mars@/postgres?host={folder}"
        finally:
            control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
