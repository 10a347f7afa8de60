"""The pool keeps what is used, frees what is not, and never loads a pair twice."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from mars_core.models import CATALOG, ModelError, ModelPool, PairSpec, custom_pair
from mars_core.models import pool as pool_module
from tests.checkpoints import tiny_checkpoint


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> tuple[PairSpec, ...]:
    folders = [tiny_checkpoint("llama", tmp_path_factory.mktemp(f"m{seed}"), seed=seed) for seed in range(3)]
    return tuple(custom_pair(str(folder), str(folder)) for folder in folders)


def test_the_least_recently_used_pair_is_freed_for_one_too_many(specs: tuple[PairSpec, ...]) -> None:
    pool = ModelPool(device="cpu", max_pairs=2)
    dead = weakref.ref(pool.get(specs[1]).target)
    kept = pool.get(specs[0])
    pool.get(specs[1])
    assert pool.get(specs[0]) is kept
    messages: list[str] = []
    pool.get(specs[2], messages.append)
    assert pool.loaded() == (specs[0], specs[2])
    freed, loaded = f"Freeing {specs[1].title}", f"Loading {Path(specs[2].target.name).name}: weights"
    assert messages.index(freed) < messages.index(loaded)
    gc.collect()
    assert dead() is None
    pool.clear()
    assert pool.loaded() == ()


def test_pairs_are_freed_while_memory_is_short(specs: tuple[PairSpec, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ModelPool(device="cpu", max_pairs=9)
    need = specs[0].memory_bytes(pool.dtype)
    monkeypatch.setattr(pool_module, "free_bytes", lambda _device: (3 - len(pool.loaded())) * need - need // 2)
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
        with pytest.raises(ModelError, match=r"needs about 0 MB .* in float32, and 0 MB are free here: choose a"):
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
    assert len([message for message in messages if message.endswith(": weights")]) == 2  # target and draft, once each


def test_progress_names_stages_in_order_and_writes_nothing_to_the_terminal(
    specs: tuple[PairSpec, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    messages: list[str] = []
    ModelPool(device="cpu").get(specs[0], messages.append)
    name = Path(specs[0].target.name).name
    assert messages[0] == f"Loading {name}: configuration"
    counted = [message.rpartition("weights ")[2].split(" of ") for message in messages if " of " in message]
    assert counted and all(int(done) <= int(total) for done, total in counted)
    assert messages[-1] == f"Loading {name}: checking that its cache can be rolled back"
    assert capfd.readouterr() == ("", "")


def test_memory_grows_with_the_width_of_the_dtype() -> None:
    for spec in CATALOG[1:]:
        assert spec.memory_bytes(torch.float32) == pytest.approx(2 * spec.memory_bytes(torch.bfloat16))
        assert spec.memory_bytes(torch.bfloat16) > 2 * (spec.target_parameters + spec.draft_parameters)


@pytest.mark.parametrize(
    ("exact", "dtype", "expected"),
    [("auto", "float32", False), ("auto", "bfloat16", True), ("on", "float32", True), ("off", "bfloat16", False)],
)
def test_pairs_are_exact_as_asked_or_where_rounding_depends_on_the_shape_of_a_pass(
    specs: tuple[PairSpec, ...], exact: str, dtype: str, expected: bool
) -> None:
    assert ModelPool(device="cpu", dtype=dtype, exact=exact).get(specs[0]).exact is expected


@pytest.mark.parametrize(
    "field", [{"device": "tpu"}, {"device": "cuda:x"}, {"device": "cuda:99"}, {"dtype": "int3"}, {"exact": "yes"}]
)
def test_a_setting_that_cannot_be_met_is_named(field: dict[str, str]) -> None:
    ((name, value),) = field.items()
    with pytest.raises(ValueError, match=f"{name} is '{value}'"):
        ModelPool(**{"device": "cpu", **field})
    with pytest.raises(ValueError, match="max_pairs is 0"):
        ModelPool(max_pairs=0)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_a_pair_runs_in_bfloat16(specs: tuple[PairSpec, ...]) -> None:
    pair = ModelPool().get(specs[0])
    assert pair.device.type == "cuda" and pair.target.dtype == torch.bfloat16
