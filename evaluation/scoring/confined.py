"""The program of the sandbox's process: gives up what code of a model must not have, then runs it. Linux; standard library only.

Started by ``evaluation.scoring.sandbox`` as a script, and imported by nobody. Its input is a line with a secret word and the code; its
output a line ``ready`` once nothing can be done any more but computing, and the word when the code has run to its end.

A seccomp filter allows the system calls below, by number, and no other: what a future kernel adds is forbidden too.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys

# name → number on x86-64 and on ARM64 (None: does not exist there); Linux, include/uapi/asm-generic/unistd.h and
# arch/x86/entry/syscalls/syscall_64.tbl
_ALLOWED: tuple[tuple[int | None, int | None], ...] = (
    (0, 63),  # read
    (1, 64),  # write: to what is open, and nothing can be opened for writing
    (3, 57),  # close
    (4, None),  # stat
    (5, 80),  # fstat
    (6, None),  # lstat
    (7, None),  # poll
    (8, 62),  # lseek
    (9, 222),  # mmap
    (10, 226),  # mprotect
    (11, 215),  # munmap
    (12, 214),  # brk
    (13, 134),  # rt_sigaction
    (14, 135),  # rt_sigprocmask
    (15, 139),  # rt_sigreturn
    (17, 67),  # pread64
    (19, 65),  # readv
    (20, 66),  # writev
    (21, None),  # access
    (24, 124),  # sched_yield
    (25, 216),  # mremap
    (28, 233),  # madvise
    (32, 23),  # dup
    (33, None),  # dup2
    (292, 24),  # dup3
    (36, 102),  # getitimer
    (37, None),  # alarm
    (38, 103),  # setitimer
    (35, 101),  # nanosleep
    (39, 172),  # getpid
    (60, 93),  # exit
    (63, 160),  # uname
    (72, 25),  # fcntl
    (79, 17),  # getcwd
    (89, None),  # readlink
    (96, 169),  # gettimeofday
    (97, 163),  # getrlimit
    (98, 165),  # getrusage
    (99, 179),  # sysinfo
    (100, 153),  # times
    (102, 174),  # getuid
    (104, 176),  # getgid
    (107, 175),  # geteuid
    (108, 177),  # getegid
    (110, 173),  # getppid
    (131, 132),  # sigaltstack
    (186, 178),  # gettid
    (201, None),  # time
    (202, 98),  # futex
    (204, 123),  # sched_getaffinity
    (217, 61),  # getdents64
    (219, 128),  # restart_syscall
    (228, 113),  # clock_gettime
    (229, 114),  # clock_getres
    (230, 115),  # clock_nanosleep
    (231, 94),  # exit_group
    (262, 79),  # newfstatat
    (267, 78),  # readlinkat
    (269, 48),  # faccessat
    (439, 439),  # faccessat2
    (270, 72),  # pselect6
    (271, 73),  # ppoll
    (273, 99),  # set_robust_list
    (318, 278),  # getrandom
    (332, 291),  # statx
    (334, 293),  # rseq
)
_OPEN = ((257, 2), (2, 1)), ((56, 2),)  # openat and open: number, and which argument has the flags
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}  # column, AUDIT_ARCH
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0o20000000  # the last is O_TMPFILE's own bit
_X32 = 0x40000000  # numbers of the x32 calls begin here
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of struct sock_filter
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000  # SECCOMP_RET_*; refused: EPERM
_PDEATHSIG, _SECCOMP, _NO_NEW_PRIVS = 1, 22, 38  # prctl


def _filter(column: int, architecture: int) -> bytes:
    """The program that the kernel runs at each system call; offsets are those of struct seccomp_data."""
    number, arch, first = 0, 4, 16
    lines = [(_LOAD, 0, 0, arch), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, number)]
    lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for row in _ALLOWED:
        call = row[column]
        if call is not None:
            lines += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _ALLOW)]
    for call, flags in _OPEN[column]:
        lines += [(_EQUAL, 0, 4, call), (_LOAD, 0, 0, first + 8 * flags), (_ANY_BIT, 1, 0, _WRITES)]
        lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    lines.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _prctl(libc: ctypes.CDLL, option: int, *values: int) -> None:
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(option, *arguments):
        raise OSError(ctypes.get_errno(), "prctl")


def _confine(cpu_s: int, memory: int) -> None:
    """Limits first, then no way back. Ends with its parent. Raises OSError or KeyError where the machine cannot do it."""
    for limit, value in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 1024),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 32),
    ):
        resource.setrlimit(limit, (value, value))
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, _PDEATHSIG, 9)
    _prctl(libc, _NO_NEW_PRIVS, 1)
    program = ctypes.create_string_buffer(code := _filter(*_MACHINES[platform.machine()]), len(code))
    wrapped = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(program)))
    _prctl(libc, _SECCOMP, 2, ctypes.addressof(wrapped))


def _main(cpu_s: int, memory: int) -> None:
    word, _, code = sys.stdin.buffer.read().partition(b"\n")
    result = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    _confine(cpu_s, memory)
    os.write(result, b"ready\n")
    exec(compile(code, "<answer>", "exec"), {"__name__": "answer", "__builtins__": __builtins__})
    os.write(result, word)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
