"""The pool keeps what is used, frees what is not, and never loads a pair twice; free memory is what
this process may really take."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from mars_core.models import (
    ModelError,
    ModelPool,
    PairSpec,
    custom_pair,
    memory,
)
from mars_core.models import pool as pool_module
from mars_core.models.catalog import CUSTOM
from mars_core.models.memory import bytes_each
from mars_core.models.summary import summarised
from tests.checkpoints import tiny_checkpoint


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> tuple[PairSpec, ...]:
    folders = [
        tiny_checkpoint("llama", tmp_path_factory.mktemp(f"m{seed}"), seed=seed)
        for seed in range(3)
    ]
    return tuple(
        summarised(replace(custom_pair(str(folder), str(folder)), key=folder.parent.name))[0]
        for folder in folders
    )


def test_the_least_recently_used_pair_is_freed_for_one_too_many(
    specs: tuple[PairSpec, ...],
) -> None:
    pool = ModelPool(device="cpu", max_pairs=2)
    dead = weakref.ref(pool.get(specs[1]).target)
    first = pool.get(specs[0])
    pool.get(specs[1])
    assert pool.get(specs[0]) is first
    assert pool.margins(specs[0]) == first.margins != () == pool.margins(specs[2])
    messages: list[str] = []
    pool.get(specs[2], messages.append)
    assert pool.loaded() == (specs[0], specs[2])
    freed, loaded = (
        f"Freeing {specs[1].title}",
        f"Loading {Path(specs[2].target.name).name}: weights, 0 MB",
    )
    assert messages.index(freed) < messages.index(loaded)
    gc.collect()
    assert dead() is None
    pool.clear()
    assert pool.loaded() == ()


def test_a_pair_of_own_models_is_freed_once_another_pair_is_used(
    specs: tuple[PairSpec, ...],
) -> None:
    pool = ModelPool(device="cpu", max_pairs=3)
    own, other = (replace(spec, key=CUSTOM) for spec in specs[1:])
    listed = pool.get(specs[0])
    for following in (specs[0], other):
        left = weakref.ref(pool.get(own).target)
        assert pool.get(own).target is left() and pool.loaded() == (specs[0], own)
        messages: list[str] = []
        pool.get(following, messages.append)
        assert f"Freeing {own.title}" in messages
        gc.collect()
        assert left() is None and pool.get(specs[0]) is listed and pool.loaded() == (specs[0],)


def test_pairs_are_freed_while_memory_is_short(
    specs: tuple[PairSpec, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ModelPool(device="cpu", max_pairs=9)
    need = specs[0].memory_bytes(bytes_each(pool.dtype))
    monkeypatch.setattr(
        pool_module, "free_bytes", lambda _device: (3 - len(pool.loaded())) * need - need // 2
    )
    for spec in specs:
        pool.get(spec)
    assert pool.loaded() == specs[1:]


def test_a_pair_that_never_fits_is_refused_with_both_numbers_and_failures_leave_the_pool_usable(
    specs: tuple[PairSpec, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ModelPool(device="cpu")
    with monkeypatch.context() as patch:
        patch.setattr(pool_module, "free_bytes", lambda _device: 1000)
        assert not pool.fits(specs[0]).fits
        with pytest.raises(
            ModelError, match=r"needs about 0 MB .* in float32, and 0 MB are free here: choose a"
        ):
            pool.get(specs[0])
    with pytest.raises(ModelError):
        pool.get(custom_pair(str(tmp_path / "nothing")))
    assert pool.get(specs[0]).spec is specs[0]


def test_threads_that_want_one_pair_share_it(specs: tuple[PairSpec, ...]) -> None:
    pool = ModelPool(device="cpu")
    messages: list[str] = []
    with ThreadPoolExecutor(4) as threads:
        pairs = list(threads.map(lambda _: pool.get(specs[0], messages.append), range(4)))
    assert len({id(pair) for pair in pairs}) == 1
    assert sum(message.endswith(": weights, 0 MB") for message in messages) == 2  # target and draft


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


def test_what_the_allocator_keeps_is_free_but_for_pools_of_graphs_and_other_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def segment(device: int, pool: tuple[int, int], total: int, allocated: int) -> dict[str, Any]:
        return {
            "device": device,
            "segment_pool_id": pool,
            "total_size": total,
            "allocated_size": allocated,
        }

    segments = [
        segment(0, (0, 0), 100, 30),
        segment(0, (0, 0), 10, 10),
        segment(0, (0, 7), 1000, 0),
        segment(1, (0, 0), 5000, 1),
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (20_000, 80_000))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert memory.free_bytes(torch.device("cuda", 0)) == 20_070
    assert memory.free_bytes(torch.device("cuda")) == 24_999
