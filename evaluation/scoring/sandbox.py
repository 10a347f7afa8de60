"""Runs untrusted code so that it can compute and do nothing else. Linux with libseccomp; elsewhere it runs nothing.

The code gets a process of its own, ``CPU_S`` seconds of one core and ``WALL_S`` in all, ``MEMORY`` bytes of address space, an empty
working folder, and an environment without the variables of this process. A seccomp filter, which cannot be removed again, refuses
every system call that computing does not need: no socket of any kind, so no network; no file opened for writing, removed or changed; no
process or thread started, signalled or traced; no call of the kernel's administration, not even for root. What it prints is discarded;
all that comes back is whether it ran to its end. The process ends with the one that started it.

Not protected: the code can read what this user can read (and send it nowhere); it can use its core and its memory until its time is
over; it shares a process with the tests, so code that is written to cheat can pass them; and an error in the kernel's handling of the
allowed calls, or in the processor, is an open door. For the code of an adversary, use a virtual machine.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

CPU_S, WALL_S = 5, 30.0  # the second is long, so that a busy machine changes no score
MEMORY = 1 << 30  # bytes
_PROGRAM = Path(__file__).with_name("confined.py")
_INHERITED = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # without which Python may not start
_MUST_FAIL = "import socket\nsocket.socket()"
# The same order of sets every time; no threads.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def runs(code: str) -> bool:
    """Whether ``code`` runs to its end within the limits, without an exception. Raises ValueError where nothing can be run safely."""
    token = secrets.token_hex(16)
    output = _output(f"{token}\n{code}".encode(errors="replace"))
    if output is None:
        return False
    ready, _, rest = output.partition("\n")
    if ready != "ready":
        raise ValueError(
            "Code of a model cannot be run here: it needs Linux with seccomp, libseccomp (Debian's libseccomp2) and pyseccomp "
            "(pip install -r requirements-eval.txt), to keep it from network and files."
        )
    return rest == token


def check_sandbox() -> None:
    """Raises ValueError where the sandbox does not work on this machine."""
    if not runs("") or runs(_MUST_FAIL):
        raise ValueError("Code of a model cannot be run here: its sandbox does not refuse what it must.")


def _output(given: bytes) -> str | None:
    """What the process wrote, into a file that its limits keep short; None where its time was over."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ} | _ENVIRONMENT
    command = [sys.executable, "-P", "-s", "-B", "-X", "utf8", str(_PROGRAM), str(CPU_S), str(MEMORY)]
    with tempfile.TemporaryDirectory(prefix="mars-code-") as folder, tempfile.TemporaryFile() as output:
        try:
            subprocess.run(
                command, input=given, stdout=output, stderr=subprocess.DEVNULL, cwd=folder, env=environment,
                timeout=WALL_S, start_new_session=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        except OSError as error:
            raise ValueError(f"Code of a model cannot be run here: {error.strerror}.") from None
        output.seek(0)
        return output.read().decode("ascii", "replace")
