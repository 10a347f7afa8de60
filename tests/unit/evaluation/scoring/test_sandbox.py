"""What code in the sandbox can and cannot do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from evaluation.scoring import sandbox
from evaluation.scoring.sandbox import check_sandbox, runs

CAN = {
    "compute": "import collections, functools, hashlib, itertools, math, re, typing\nassert math.gcd(4, 6) == 2",
    "print": "print('x' * 10**6)",
    "see little of the environment": "import os\nassert len(os.environ) < 8 and 'MARS_SECRET' not in os.environ and os.listdir() == []",
}
CANNOT = {
    "be wrong": "assert False",
    "leave early": "import sys\nsys.exit(0)",
    "leave at once": "import os\nos._exit(0)",
    "reach the network": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "open a socket": "import socket\nsocket.socket(socket.AF_UNIX)",
    "write a file": "open('x', 'w')",
    "make a file by a flag": "import os\nos.open('x', os.O_RDONLY | os.O_CREAT)",
    "remove": "import os\nos.unlink('{file}')",
    "rename": "import os\nos.rename('{file}', '{file}2')",
    "make a folder": "import os\nos.mkdir('x')",
    "change rights": "import os\nos.chmod('{file}', 0)",
    "fork": "import os\nos.fork()",
    "start a program": "import subprocess\nsubprocess.run(['true'])",
    "start a thread": "import threading\nthreading.Thread(target=print).start()",
    "signal": "import os\nos.kill(os.getppid(), 0)",
    "raise its limits": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (100, 100))",
    "take memory": "x = bytearray(2 << 30)",
    "write much into its result": "import os\nfor f in range(32):\n  try: os.write(f, b'x' * 10**6)\n  except OSError: pass",
    "crash": "import ctypes\nctypes.string_at(0)",
    "recurse without end": "def f(): f()\nf()",
    "be no Python": "def (",
}


def test_sandbox_works_here() -> None:
    check_sandbox()


@pytest.mark.parametrize("what", CAN)
def test_code_can(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARS_SECRET", "token")
    assert runs(CAN[what])


@pytest.mark.parametrize("what", CANNOT)
def test_code_cannot(what: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    assert not runs(CANNOT[what].replace("{file}", str(kept)))
    assert kept.read_text() == "mine" and os.access(kept, os.R_OK) and list(tmp_path.iterdir()) == [kept]


def test_refusals_are_the_sandboxes_and_no_accident() -> None:
    """The same calls, seen from inside: refused with EPERM, and the code goes on."""
    calls = "os.fork()", "os.kill(os.getppid(), 0)", "os.unlink('x')", "socket.socket()", "os.open('x', os.O_WRONLY)"
    lines = [f"try:\n    {call}\nexcept PermissionError:\n    count += 1" for call in calls]
    assert runs("\n".join(["import os, socket", "count = 0", *lines, f"assert count == {len(calls)}"]))


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(1000)"])
def test_time_is_over_for_code_that_does_not_end(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "CPU_S", 1)
    monkeypatch.setattr(sandbox, "WALL_S", 1.5)
    begun = time.monotonic()
    assert not runs(code)
    assert time.monotonic() - begun < 10


def test_where_nothing_can_be_confined_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "confined.py"
    broken.write_text("import sys\nsys.stdin.read()\nraise OSError('no seccomp')\n")
    monkeypatch.setattr(sandbox, "_PROGRAM", broken)
    with pytest.raises(ValueError, match="needs Linux on x86-64 or ARM64 with seccomp"):
        check_sandbox()
