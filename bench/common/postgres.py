"""A private PostgreSQL cluster in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAMS = Path("/usr/lib/postgresql")


@contextmanager
def cluster(options: str = "") -> Iterator[Path | None]:
    """Start a cluster; give the folder of its socket, None where PostgreSQL is not installed. It
    listens on no port. ``options``: of the server, more."""
    programs = sorted(PROGRAMS.glob("*/bin"), key=lambda path: int(path.parent.name))
    if not programs:
        yield None
        return
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

        options = f"-k {folder} -c listen_addresses='' {options}"
        control("-o", "-E UTF8 --locale=C.UTF-8 -A trust -U mars", "initdb")
        control("-o", options, "-l", f"{folder}/log", "start")
        try:
            yield Path(folder)
        finally:
            control("-m", "immediate", "stop")
