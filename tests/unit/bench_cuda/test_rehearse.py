"""CUDA rehearsed without a device: a chain and a tree are free of faults, and planted faults are
found, with their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bench.cuda import rehearse
from bench.cuda.fake import fake_device, has_kernel
from bench.cuda.rehearse import ENDS, Rehearsal
from bench.cuda.trial import switched
from mars_core.decoder import ANY_SHAPE
from mars_core.models import Pair
from mars_core.models.catalog import SMALL_TREE
from mars_core.models.checks.exactness import ShapeSearch
from mars_core.rules import RULES
from mars_core.rules.base import Evidence
from mars_core.types import DrafterConfig, Sampling

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
THIS = "tests/unit/bench_cuda/test_rehearse.py"
CHAIN = DrafterConfig("model", k=3)
TREE = DrafterConfig("eagle3", tree=SMALL_TREE)


@pytest.fixture(scope="module")
def pair() -> Pair:
    """Without the search for shapes, which takes long."""
    with fake_device() as device, pytest.MonkeyPatch.context() as patch:
        search = ShapeSearch(ANY_SHAPE, "not searched")
        patch.setattr("mars_core.models.loading.find_shapes", lambda *_: search)
        pair = rehearse.loaded()
        assert not device.faults
    return pair


@pytest.fixture
def rehearsal() -> Iterator[Rehearsal]:
    with fake_device() as device:
        yield Rehearsal(device)


@pytest.mark.parametrize(
    ("drafter", "graphs", "end"), [(CHAIN, True, ENDS[1]), (TREE, False, ENDS[2])]
)
def test_a_step_waits_for_its_row_only(
    drafter: DrafterConfig, graphs: bool, end: str, rehearsal: Rehearsal, pair: Pair
) -> None:
    rehearsal.run(switched(pair, graphs=graphs), "mars", drafter, Sampling())
    assert not rehearsal.faults
    assert rehearsal.ends[ENDS[0]] and rehearsal.ends[end]


def test_operators_have_kernels_where_torch_lists_one() -> None:
    names = {"aten::add.Tensor": True, "aten::mm.dtype": True, "aten::view": True}
    names |= {"aten::_weight_int4pack_mm_for_cpu": False, "mkldnn::_linear_pointwise": False}
    assert {name: has_kernel(name) for name in names} == names


def elsewhere(strict: Tensor) -> Tensor:
    return torch.zeros(len(strict), dtype=torch.long)


LINEAR = torch.ops.mkldnn._linear_pointwise
PLANTED: list[tuple[str, Callable[[Tensor], object]]] = [
    ("aten.add.Tensor of tensors on cpu and cuda:0", lambda s: s + torch.ones(len(s), 1)),
    ("aten.add.Tensor of tensors on cpu and cuda:0", lambda s: torch.ones(2) + s.sum()),
    ("aten.add_.Tensor of tensors on cpu and cuda:0", lambda s: torch.zeros(()).add_(s.sum())),
    ("aten.index.Tensor of tensors on cpu and cuda:0", lambda s: s[elsewhere(s)]),
    ("aten._local_scalar_dense.default: the host reads values", lambda s: s.sum().item()),
    ("aten._local_scalar_dense.default: the host reads values", lambda s: bool(s.any())),
    ("aten.index.Tensor: the host reads values", lambda s: s[s > 0]),
    ("the host waits for a copy to cpu: it blocks or is not pinned", lambda s: s.cpu()),
    (
        "the host waits for a copy to cuda: it blocks or is not pinned",
        lambda s: s.new_tensor([1.0]),
    ),
    ("a synchronisation before the copy back", lambda _: torch.cuda.synchronize()),
    ("aten.mm.default of torch.int64, for which CUDA has none", lambda s: s.long() @ s.long().T),
    (
        "mkldnn._linear_pointwise.default has no kernel for CUDA",
        lambda s: LINEAR(s, s, None, "none", [], ""),
    ),
    (
        "expected m1 and m2 to have the same dtype, but got: float != double",
        lambda s: s @ s.double().T,
    ),
]


def test_planted_faults_are_named_with_their_lines(
    rehearsal: Rehearsal, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accept(evidence: Evidence, _: object) -> Tensor:
        for _, fault in PLANTED:
            fault(evidence.strict)
        return evidence.strict

    strict = replace(RULES["strict"], accept=accept)
    monkeypatch.setattr("mars_core.engine.build.RULES", {**RULES, "strict": strict})
    rehearsal.run(switched(pair, graphs=False), "strict", CHAIN, Sampling(), 4)
    lines = [(fault.__code__.co_firstlineno, what) for what, fault in PLANTED]
    assert [*rehearsal.faults] == [f"{THIS}:{line}: {what}" for line, what in lines]


def test_what_is_read_before_it_arrives_has_no_values(
    rehearsal: Rehearsal, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mars_core.engine.engine.synchronise", lambda _: None)
    rehearsal.run(switched(pair, graphs=False), "strict", CHAIN, Sampling(), 4)
    assert any("NaN" in fault for fault in rehearsal.faults)


@pytest.mark.parametrize("fault", ["", "a.py:3: a fault"])
def test_a_line_a_check_and_status_one_with_a_fault(
    fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def checks(rehearsal: Rehearsal, _: object) -> Iterator[str]:
        rehearsal.ends.update(ENDS)
        rehearsal.rules.update(RULES)
        rehearsal.faults.update(dict.fromkeys([fault] if fault else []))
        yield "a check"

    monkeypatch.setattr(rehearse, "loaded", lambda: None)
    monkeypatch.setattr(rehearse, "checks", checks)
    assert rehearse.main(["--out", str(tmp_path)]) == bool(fault)
    (path,) = tmp_path.glob("*-cuda-fake-cpu.md")
    assert f"\na check: {int(bool(fault))} faults\n" in capsys.readouterr().out
    assert ("a.py:3: a fault" in path.read_text()) is bool(fault)
