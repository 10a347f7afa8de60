"""Available memory, memory needed by a model, and peak memory of a run."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from mars_core.lazy import torch

OVERHEAD = 1.2  # factor for cache, activations and buffers, for contexts of some thousand tokens
FLOAT32_BYTES = 4
# torch's names; int4 stands for weights as a GGUF file has them: see decoder.quantised
_DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16", "gguf": "int4"}
# Where none of these exists, torch has no GPU: of NVIDIA, of NVIDIA under Windows, of AMD.
_GPU_DRIVERS = ("/proc/driver/nvidia", "/dev/dxg", "/dev/kfd")
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Whether a pair fits into memory. ``needed_bytes`` is 0 where its size is unknown until its
    configuration is read."""

    needed_bytes: int
    available_bytes: int
    device: str

    @property
    def fits(self) -> bool:
        return self.needed_bytes <= self.available_bytes


def bytes_each(dtype: torch.dtype) -> int:
    """Return the bytes of one parameter in ``dtype``."""
    return 1 if dtype_name(dtype) == "gguf" else dtype.itemsize


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name that ``pick_dtype`` reads."""
    name = str(dtype).removeprefix("torch.")
    return "gguf" if name == _DTYPES["gguf"] else name


def needed(parameters: int, each: int) -> int:
    """Return the bytes for ``parameters`` of ``each`` bytes, including ``OVERHEAD``."""
    return int(parameters * each * OVERHEAD)


def may_have_gpu() -> bool:
    """Return whether a driver of a GPU is installed, without the seconds that importing torch
    takes; True where that cannot be seen."""
    return sys.platform != "linux" or any(Path(driver).exists() for driver in _GPU_DRIVERS)


def pick_device(wanted: str) -> torch.device:
    """Return the device for ``auto`` (CUDA if available), ``cpu``, ``cuda`` or ``cuda:N``. Raises
    ValueError."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cpu":
        return torch.device("cpu")
    kind, _, index = wanted.partition(":")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind != "cuda" or (index and not index.isdecimal()):
        raise ValueError(f"device is {wanted!r}; it must be auto, cpu, cuda or cuda:N.")
    if int(index or 0) >= count:
        raise ValueError(
            f"device is {wanted!r}, but this machine has {count} CUDA devices; choose auto or cpu."
        )
    return torch.device("cuda", int(index) if index else torch.cuda.current_device())


def pick_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """Return the dtype for ``auto`` (bfloat16 on CUDA, float16 where that is not supported, float32
    on a CPU) or a name. Raises ValueError."""
    if wanted == "gguf" and device.type != "cpu":
        raise ValueError(
            f"dtype is 'gguf', which is for CPUs, and the device is {device}; choose auto."
        )
    if wanted not in ("auto", *_DTYPES):
        raise ValueError(f"dtype is {wanted!r}; it must be auto, {', '.join(_DTYPES)}.")
    if wanted == "auto":
        on_cuda = device.type == "cuda"
        halves = "bfloat16" if on_cuda and torch.cuda.is_bf16_supported() else "float16"
        wanted = halves if on_cuda else "float32"
    dtype: torch.dtype = getattr(torch, _DTYPES[wanted])
    return dtype


def free_bytes(device: torch.device) -> int:
    """Bytes available on ``device``."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        unused: int = (
            sum(  # reserved by torch's allocator; without the private pools of CUDA graphs
                segment["total_size"] - segment["allocated_size"]
                for segment in torch.cuda.memory_snapshot()
                if segment["device"] == index and tuple(segment["segment_pool_id"]) == (0, 0)
            )
        )
        return torch.cuda.mem_get_info(device)[0] + unused
    return host_free_bytes()


def host_free_bytes() -> int:
    """Return the bytes available to this process outside GPUs, within the limit of its container
    (cgroup v2)."""
    available = int(psutil.virtual_memory().available)
    limit = _container_free()
    return available if limit is None else min(available, limit)


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


@cache
def read_speed() -> float:
    """Return how many bytes a second of this machine's memory are read, the best of a few tries."""
    block = torch.ones(2**26)  # 256 MiB, larger than caches

    def tried() -> float:
        began = time.perf_counter()
        block.sum()
        return block.nbytes / (time.perf_counter() - began)

    return max(tried() for _ in range(4))


class PeakMemory:
    """In bytes: on CUDA the peak allocation since construction; elsewhere the process's largest
    resident set so far."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def bytes(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        if sys.platform == "win32":
            return int(psutil.Process().memory_info().peak_wset)
        import resource  # not on Windows

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024  # kilobytes, except on macOS


def _container_free() -> int | None:
    """Free bytes of this container, with reclaimable file cache counted as free; None without a
    limit."""
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
        statistics = dict(
            line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines()
        )
    except (OSError, ValueError):
        return None
    if not limit.isdecimal():
        return None
    return max(0, int(limit) - used + int(statistics.get("inactive_file", 0)))
