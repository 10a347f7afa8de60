"""Peak memory of a run, in bytes."""

from __future__ import annotations

import sys

import psutil
import torch


class PeakMemory:
    """On CUDA what the run allocated at most; elsewhere the process's largest resident set so far."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def bytes(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        return peak_resident()


def peak_resident() -> int:
    """The largest resident set of this process so far, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes, but for macOS
