"""Free memory is what this process may really take, also inside a container; the peak is told in bytes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from mars_core.models import Fit, memory
from mars_core.models.memory import PeakMemory

CPU = torch.device("cpu")


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 500000\ninactive_file 150000\n")
    return tmp_path


def test_a_containers_limit_counts_and_its_file_cache_is_free(cgroup: Path) -> None:
    assert memory.free_bytes(CPU) == 450_000
    (cgroup / "memory.current").write_text("2000000")
    assert memory.free_bytes(CPU) == 0


@pytest.mark.parametrize("limit", ["max\n", "", None])
def test_without_a_limit_the_machines_memory_counts(cgroup: Path, limit: str | None) -> None:
    (cgroup / "memory.max").unlink() if limit is None else (cgroup / "memory.max").write_text(limit)
    assert memory.free_bytes(CPU) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_pair_of_unknown_size_is_not_called_too_large() -> None:
    assert Fit(0, 10, "cpu").fits and Fit(10, 10, "cpu").fits and not Fit(11, 10, "cpu").fits


def test_sizes_are_written_in_a_fitting_unit() -> None:
    assert (memory.gigabytes(9_800_000_000), memory.gigabytes(40_000_000)) == ("9.8 GB", "40 MB")


def test_what_the_allocator_keeps_is_free_but_for_pools_of_graphs_and_other_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def segment(device: int, pool: tuple[int, int], total: int, allocated: int) -> dict[str, Any]:
        return {"device": device, "segment_pool_id": pool, "total_size": total, "allocated_size": allocated}

    segments = [
        segment(0, (0, 0), 100, 30), segment(0, (0, 0), 10, 10), segment(0, (0, 7), 1000, 0), segment(1, (0, 0), 5000, 1)
    ]  # fmt: skip
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (20_000, 80_000))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert memory.free_bytes(torch.device("cuda", 0)) == 20_070
    assert memory.free_bytes(torch.device("cuda")) == 24_999


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_peak_is_in_bytes_on_every_system(system: str, unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """getrusage counts kilobytes, but bytes on macOS."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(resource, "getrusage", lambda _who: SimpleNamespace(ru_maxrss=3_000_000))
    assert PeakMemory(CPU).bytes() == 3_000_000 * unit


def test_the_peak_on_windows_is_the_peak_working_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    told = SimpleNamespace(memory_info=lambda: SimpleNamespace(peak_wset=4_000_000_000))
    monkeypatch.setattr(psutil, "Process", lambda: told)
    assert PeakMemory(CPU).bytes() == 4_000_000_000


def test_the_peak_of_this_process_is_at_least_what_it_holds() -> None:
    assert PeakMemory(CPU).bytes() >= 0.9 * psutil.Process().memory_info().rss
