"""Runs code that nobody has read, so that it can compute and do nothing else. Linux on x86-64 or ARM64; elsewhere it runs nothing.

What the code gets: a process of its own, ``CPU_S`` seconds of one core and ``WALL_S`` in all, ``MEMORY`` bytes of address space, an
empty folder to be in, an environment without the variables of this process. A seccomp filter, which cannot be taken off again, refuses
every system call that computing does not need: no socket of any kind, so no network; no file opened for writing, removed or changed; no
process or thread started, signalled or looked into; no call of the kernel's administration, not even for root. What it prints is thrown
away; all that comes back is whether it ran to its end. The process ends with the one that started it.

What this does not protect from: the code can read what this user can read (and tell nobody); it can use its core and its memory until
its time is over; it shares a process with the tests, so code that is written to cheat can pass them; and an error in the kernel's own
handling of the allowed calls, or of the processor, is an open door. For the code of an adversary, use a virtual machine.
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
_KEPT = ("LD_LIBRARY_PATH", "SYSTEMROOT")  # without which Python may not start
_MUST_FAIL = "import socket\nsocket.socket()"
_SET = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}  # the same order of sets; no threads


def runs(code: str) -> bool:
    """Whether ``code`` runs to its end within the limits, without an exception. Raises ValueError where nothing can be run safely."""
    word = secrets.token_hex(16)
    output = _output(f"{word}\n{code}".encode(errors="replace"))
    if output is None:
        return False
    ready, _, said = output.partition("\n")
    if ready != "ready":
        raise ValueError(
            "Code of a model cannot be run here: it needs Linux on x86-64 or ARM64 with seccomp, to keep it from network and files."
        )
    return said == word


def check_sandbox() -> None:
    """Raises ValueError where the sandbox does not work on this machine."""
    if not runs("") or runs(_MUST_FAIL):
        raise ValueError("Code of a model cannot be run here: its sandbox does not do what it must.")


def _output(given: bytes) -> str | None:
    """What the process wrote, into a file that its limits keep short; None where its time was over."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | _SET
    command = [sys.executable, "-P", "-s", "-B", "-X", "utf8", str(_PROGRAM), str(CPU_S), str(MEMORY)]
    with tempfile.TemporaryDirectory(prefix="mars-code-") as folder, tempfile.TemporaryFile() as output:
        try:
            subprocess.run(
                command,
                input=given,
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
