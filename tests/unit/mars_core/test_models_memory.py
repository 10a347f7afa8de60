"""Free memory is what this process may really take, also inside a container."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch

from mars_core.models import Fit, memory

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
