"""What code in the sandbox can and cannot do."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyseccomp import Arch, resolve_syscall

from evaluation.scoring import sandbox
from evaluation.scoring.sandbox import runs

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
    "write a file": "open('x', 'w')",
    "make a file by a flag": "import os\nos.open('x', os.O_RDONLY | os.O_CREAT)",
    "fork": "import os\nos.fork()",
    "start a program": "import subprocess\nsubprocess.run(['true'])",
    "start a thread": "import threading\nthreading.Thread(target=print).start()",
    "start many processes": "import os\nwhile True: os.fork()",
    "signal": "import os\nos.kill(os.getppid(), 0)",
    "raise its limits": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (100, 100))",
    "take memory": "x = bytearray(2 << 30)",
    "write much into its result": "import os\nfor f in range(32):\n  try: os.write(f, b'x' * 10**6)\n  except OSError: pass",
    "crash": "import ctypes\nctypes.string_at(0)",
    "recurse without end": "def f(): f()\nf()",
    "be no Python": "def (",
}


@pytest.mark.parametrize("what", CAN)
def test_code_can(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARS_SECRET", "token")
    assert runs(CAN[what])


@pytest.mark.parametrize("what", CANNOT)
def test_code_cannot(what: str) -> None:
    assert not runs(CANNOT[what])


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(1000)"])
def test_time_is_over_for_code_that_does_not_end(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CPU_S", 1)
    monkeypatch.setattr(sandbox, "WALL_S", 1.5)
    assert not runs(code)


_LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


BEYOND_COMPUTING = {  # by what it would reach: system calls with arguments that the kernel takes
    "another process": (
        "fcntl(fd, 8, os.getppid())",  # F_SETOWN
        "fcntl(fd, 15, (c_int * 2)(1, os.getppid()))",  # F_SETOWN_EX
        "fcntl(fd, 10, 9)",  # F_SETSIG
        "fcntl(fd, 1026, 1)",  # F_NOTIFY
        "fcntl(fd, 4, 0o20000)",  # F_SETFL with O_ASYNC
        "ioctl(fd, 0x5452, (c_int * 1)(1))",  # FIOASYNC
        "kill(os.getppid(), 0)",
        "tkill(os.getppid(), 0)",
        "tgkill(os.getppid(), os.getppid(), 0)",
        "rt_sigqueueinfo(os.getppid(), 0, None)",
        "pidfd_open(os.getppid(), 0)",
        "pidfd_send_signal(fd, 0, None, 0)",
        "prlimit64(os.getppid(), 7, None, None)",
        "setpriority(0, os.getppid(), 5)",
        "ioprio_set(1, os.getppid(), 0)",
        "sched_setaffinity(os.getppid(), 8, (c_int * 2)(1))",
        "sched_setscheduler(os.getppid(), 0, (c_int * 1)())",
        "process_vm_readv(os.getppid(), None, 0, None, 0, 0)",
        "process_vm_writev(os.getppid(), None, 0, None, 0, 0)",
        "ptrace(0, 0, 0, 0)",
        "kcmp(os.getppid(), os.getppid(), 0, 0, 0)",
        "futex((c_int * 1)(), 1, 1)",  # FUTEX_WAKE of shared memory
        "timer_create(0, None, (c_int * 1)())",
    ),
    "a file": (
        "fcntl(fd, 1024, 0)",  # F_SETLEASE
        "fcntl(fd, 6, None)",  # F_SETLK
        "fcntl(fd, 37, None)",  # F_OFD_SETLK
        "fcntl(fd, 1031, 4096)",  # F_SETPIPE_SZ
        "fcntl(fd, 1036, (c_int * 2)())",  # F_SET_RW_HINT
        "flock(fd, 1)",
        "unlinkat(-100, b'x', 0)",
        "renameat2(-100, b'x', -100, b'y', 0)",
        "mkdirat(-100, b'x', 0)",
        "fchmodat(-100, b'x', 0)",
        "symlinkat(b'x', -100, b'y')",
        "truncate(b'x', 0)",
        "openat(-100, b'.', 0o20200002)",  # O_TMPFILE
        "openat(-100, b'x', 0o100, 0)",  # O_CREAT
        "openat(-100, b'/', 0o10000000)",  # O_PATH
        "openat(-100, b'/', 0o1000000)",  # O_NOATIME
        "openat2(-100, b'x', None, 0)",
        "memfd_create(b'x', 0)",
        "inotify_init1(0)",
        "fadvise64(fd, 0, 0, 4)",
        "umask(0)",
    ),
    "the kernel": (
        "madvise(None, 0, 100)",  # MADV_HWPOISON
        "madvise(None, 0, 9)",  # MADV_REMOVE
        "mlockall(1)",
        "prctl(38, 0, 0, 0, 0)",  # PR_SET_NO_NEW_PRIVS
        "prctl(22, 0, 0, 0, 0)",  # PR_SET_SECCOMP
        "prctl(1, 0, 0, 0, 0)",  # PR_SET_PDEATHSIG
        "setns(fd, 0)",
        "unshare(0x10000000)",  # CLONE_NEWUSER
        "mount(b'a', b'b', b'c', 0, 0)",
        "clone3(None, 0)",
        "execveat(-100, b'/bin/true', None, None, 0)",
        "io_uring_setup(1, None)",
        "bpf(0, None, 0)",
        "perf_event_open(None, 0, -1, -1, 0)",
        "userfaultfd(0)",
        "keyctl(0, -3, 0)",
        "shmget(0, 4096, 0o1600)",
        "socketpair(1, 1, 0, (c_int * 2)())",
        "socket(1, 1, 0)",
        "setsid()",
        "setuid(65534)",
    ),
}
_ORDINARY = (
    "fcntl(fd, 3)",  # F_GETFL
    "fcntl(fd, 0, 0)",  # F_DUPFD
    "fcntl(fd, 2, 1)",  # F_SETFD
    "futex((c_int * 1)(), 129, 1)",  # FUTEX_WAKE of this process
    "madvise(None, 0, 4)",  # MADV_DONTNEED
    "openat(-100, b'/', 0o2200000)",  # O_DIRECTORY, O_CLOEXEC
)


def _calling(calls: Iterable[str]) -> str:
    """Code that makes each call of ``calls`` by its number, and keeps in ``seen`` what it gave."""
    lines = [
        f"{_LIBC}import os\nfrom ctypes import c_int\nfd, seen = os.open('/', os.O_RDONLY), []"
    ]
    for call in calls:
        name, _, arguments = call.partition("(")
        number = resolve_syscall(Arch.NATIVE, name)
        lines.append("ctypes.set_errno(0)")
        lines.append(f"seen.append((libc.syscall({number}, {arguments}, ctypes.get_errno()))")
    return "\n".join(lines)


@pytest.mark.parametrize("reached", BEYOND_COMPUTING)
def test_system_calls_beyond_computing_are_refused(reached: str) -> None:
    calls = BEYOND_COMPUTING[reached]
    assert runs(f"{_calling(calls)}\nassert seen == [(-1, 1)] * {len(calls)}")  # EPERM


def test_limited_system_calls_serve_ordinary_code() -> None:
    assert runs(f"{_calling(_ORDINARY)}\nassert min(seen)[0] >= 0")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 calls exist on x86-64 only")
def test_calls_of_another_architecture_end_the_process() -> None:
    assert runs(f"{_LIBC}libc.syscall(39)")  # getpid
    assert not runs(f"{_LIBC}libc.syscall(0x40000000 + 39)")


def test_the_process_ends_with_its_parent() -> None:
    """The code's process is identified by its command line, and is gone once the process that started it
    was killed."""
    script = "from evaluation.scoring import sandbox\nsandbox.runs('import time\\ntime.sleep(20)')"
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=Path(sandbox.__file__).parents[2])
    try:
        child = _wait_for(lambda: next(iter(psutil.Process(parent.pid).children()), None))
        _wait_for(
            lambda: (
                child.status() == psutil.STATUS_SLEEPING
                and "confined.py" in " ".join(child.cmdline())
            )
        )
        _wait_for(lambda: _seccomp_mode(child.pid) == "2")
    finally:
        parent.kill()
        parent.wait()
    assert _wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def _seccomp_mode(pid: int) -> str:
    """2 where a filter is in force."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Seccomp:"))


def _wait_for(condition: Callable[[], Any]) -> Any:
    for _ in range(500):
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("The condition never held.")


def test_without_libseccomp_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library is hidden from the process by an empty module of its name."""
    (tmp_path / "pyseccomp.py").touch()
    program = sandbox._PROGRAM.read_text(encoding="utf-8")
    (tmp_path / "confined.py").write_text(
        program.replace("from pyseccomp", f"sys.path[0] = {str(tmp_path)!r}\nfrom pyseccomp")
    )
    monkeypatch.setattr(sandbox, "_PROGRAM", tmp_path / "confined.py")
    with pytest.raises(ValueError, match="needs Linux with seccomp"):
        runs(f"open({str(tmp_path / 'x')!r}, 'w')")
    assert not (tmp_path / "x").exists()
