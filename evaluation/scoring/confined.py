"""The program of the sandbox process: drops privileges, then runs untrusted code. Linux; needs
libseccomp.

Started by ``evaluation.scoring.sandbox`` as a script; do not import it. Its input is a line with a
random token and the code; its output a line ``ready`` once the filter is in force, and the token
when the code has run to its end.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import sys

from pyseccomp import (
    ALLOW,
    ERRNO,
    KILL_PROCESS,
    MASKED_EQ,
    Arch,
    Arg,
    Attr,
    SyscallFilter,
    resolve_syscall,
)

# The only system calls that are allowed; all others, including future ones, fail with EPERM.
# ``write`` is limited to what is open, because files cannot be opened for writing. None of them has
# an argument that reaches another process; those that have are in ``_LIMITED``. Calls that this
# architecture does not have are skipped.
_ALLOWED = (
    "access",
    "alarm",
    "brk",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "dup",
    "dup2",
    "dup3",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fstat",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getitimer",
    "getpid",
    "getppid",
    "getrandom",
    "getrlimit",
    "getrusage",
    "gettid",
    "gettimeofday",
    "getuid",
    "lseek",
    "lstat",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "nanosleep",
    "newfstatat",
    "poll",
    "ppoll",
    "pread64",
    "pselect6",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "setitimer",
    "sigaltstack",
    "stat",
    "statx",
    "sysinfo",
    "time",
    "times",
    "uname",
    "write",
    "writev",
)
# Calls that are allowed with certain arguments only: index of the argument, bits that count, and the
# values that these may have. A file is opened for reading, and by no flag that makes or changes one;
# a descriptor is copied or asked, never given an owner, a signal, a lease or a lock; memory is given
# back, never marked as broken; a futex is of this process.
_BITS = 0xFFFFFFFF
_READING = (
    os.O_CLOEXEC | os.O_DIRECTORY | os.O_LARGEFILE | os.O_NOCTTY | os.O_NOFOLLOW | os.O_NONBLOCK
)
_FUTEX_PRIVATE = 128
_LIMITED: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "fcntl": (
        1,
        _BITS,
        (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_GETFL, fcntl.F_SETFD),
    ),
    "futex": (1, _FUTEX_PRIVATE, (_FUTEX_PRIVATE,)),
    "madvise": (
        2,
        _BITS,
        (mmap.MADV_DONTNEED, mmap.MADV_FREE, mmap.MADV_HUGEPAGE, mmap.MADV_NOHUGEPAGE),
    ),
    "open": (1, _BITS & ~_READING, (0,)),
    "openat": (2, _BITS & ~_READING, (0,)),
}
_PR_SET_PDEATHSIG = 1


def _limit(cpu_s: int, memory: int) -> None:
    """Sets soft and hard limits of the process; it is killed when its parent ends."""
    limits = {"CPU": cpu_s, "AS": memory, "FSIZE": 1024, "CORE": 0, "NOFILE": 32}
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _filter() -> SyscallFilter:
    """Calls of another architecture (32-bit, x32) kill the process. libseccomp also sets
    ``no_new_privs``."""
    calls = SyscallFilter(ERRNO(errno.EPERM))
    calls.set_attr(Attr.ACT_BADARCH, KILL_PROCESS)
    for name in _ALLOWED:
        if resolve_syscall(Arch.NATIVE, name) >= 0:
            calls.add_rule(ALLOW, name)
    for name, (argument, bits, values) in _LIMITED.items():
        if resolve_syscall(Arch.NATIVE, name) >= 0:
            for value in values:
                calls.add_rule(ALLOW, name, Arg(argument, MASKED_EQ, bits, value))
    return calls


def _main(cpu_s: int, memory: int) -> None:
    token, _, code = sys.stdin.buffer.read().partition(b"\n")
    result = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    seccomp = _filter()
    _limit(cpu_s, memory)
    seccomp.load()
    os.write(result, b"ready\n")
    exec(compile(code, "<answer>", "exec"), {"__name__": "answer", "__builtins__": __builtins__})
    os.write(result, token)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
