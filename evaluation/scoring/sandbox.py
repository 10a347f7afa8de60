"""Runs untrusted code that can only compute. Linux with libseccomp; elsewhere it raises ValueError.

The code runs in a separate process with ``CPU_S`` seconds of one core, ``WALL_S`` seconds in total,
``MEMORY`` bytes of address space, an empty working folder, and an environment without the variables
of this process, under the seccomp filter of ``confined``. Its output is discarded; the only result
is whether it ran to its end. What it can do all the same: docs/evaluation.md.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

CPU_S, WALL_S = 5, 30.0  # WALL_S is long, so that a busy machine does not change scores
MEMORY = 1 << 30  # bytes
_PROGRAM = Path(__file__).with_name("confined.py")
_INHERITED = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # Python may need these to start
_MUST_FAIL = "import socket\nsocket.socket()"
# Deterministic set order; no threads.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def runs(code: str) -> bool:
    """Return whether ``code`` runs to its end within the limits, without an exception. Raises
    ValueError where code cannot be run safely."""
    token = secrets.token_hex(16)
    output = _output(f"{token}\n{code}".encode(errors="replace"))
    if output is None:
        return False
    ready, _, rest = output.partition("\n")
    if ready != "ready":
        raise ValueError(
            "Code of a model cannot be run here: it needs Linux with seccomp, libseccomp "
            "(Debian's libseccomp2) and pyseccomp (the extra eval; make eval in a checkout), to "
            "keep it from network and files."
        )
    return rest == token


def check_sandbox() -> None:
    """Raises ValueError where the sandbox does not work on this machine."""
    if not runs("") or runs(_MUST_FAIL):
        raise ValueError(
            "Code of a model cannot be run here: the sandbox does not block system calls."
        )


def _output(message: bytes) -> str | None:
    """Return the output of the process, via a file of limited size; None after a time-out."""
    environment = {
        name: os.environ[name] for name in _INHERITED if name in os.environ
    } | _ENVIRONMENT
    command = [
        sys.executable,
        "-P",
        "-s",
        "-B",
        "-X",
        "utf8",
        str(_PROGRAM),
        str(CPU_S),
        str(MEMORY),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="mars-code-") as folder,
        tempfile.TemporaryFile() as output,
    ):
        try:
            subprocess.run(
                command,
                input=message,
                stdout=output,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=environment,
                timeout=WALL_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            raise ValueError(f"Code of a model cannot be run here: {error.strerror}.") from None
        output.seek(0)
        return output.read().decode("ascii", "replace")
