"""Kernels where there is no GPU: by Triton's interpreter, one program after the other, or compiled
and not run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

KERNELS = ("linear", "turn", "attend")
PARTS = ("finished", "weighed", "together")  # functions of kernels


@contextmanager
def interpreted() -> Iterator[None]:
    """Within it the kernels run on the CPU, and models are prepared as on a GPU: without packed
    weights. The interpreter does not know Triton's own functions that are written in Triton, and
    its products are BLAS's, whose sums depend on where a row stands in its tile; here they do not,
    as those of a tensor core, and there are products of bfloat16."""
    import triton.language as tl
    from triton.runtime.interpreter import (
        InterpretedFunction,
        TensorHandle,
        _convert_float,
        interpreter_builder,
    )

    from mars_core.decoder import kernels

    def wide(tile: Any) -> Any:
        if tile.dtype == tl.bfloat16:
            return _convert_float(tile.data, tl.bfloat16, tl.float32, None).view(np.float32)
        return tile.data.astype(np.float32)

    def dot(left: Any, right: Any, total: Any, *_: object) -> Any:
        product = np.einsum("ik,kj->ij", wide(left), wide(right))
        return TensorHandle(product + total.data, total.dtype.scalar)

    standard: Any = tl.standard
    with pytest.MonkeyPatch.context() as patch:
        for name in (*KERNELS, *PARTS):
            patch.setattr(kernels, name, InterpretedFunction(getattr(kernels, name).fn))
        for name, combine in (("sum", standard._sum_combine), ("max", standard._elementwise_max)):
            patch.setattr(tl, name, lambda x, axis, how=combine: tl.reduce(x, axis, how))
        patch.setattr(interpreter_builder, "create_dot", dot)
        quick = replace(interpreter_builder.options, sanitize_overflow=False)
        patch.setattr(interpreter_builder, "options", quick)
        _unpacked(patch)
        yield


@contextmanager
def compiled(arch: int) -> Iterator[dict[str, Any]]:
    """Within it a kernel is compiled for GPUs of sm_``arch`` where it would be launched, and does
    not run. Yields those that were compiled, by their hash."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    from mars_core.decoder import kernels

    made: dict[str, Any] = {}

    class Compiled:
        def __init__(self, kernel: Any) -> None:
            self._kernel = kernel

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            def compile(*arguments: Any, **options: Any) -> None:
                each = self._kernel.warmup(*arguments, grid=grid, **options)
                made[each.hash] = each

            return compile

    device = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", arch, 32),
        get_current_device=lambda: arch,  # whose kernels are looked up
        get_current_stream=lambda _: 0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_active", device)
        for name in KERNELS:
            patch.setattr(kernels, name, Compiled(getattr(kernels, name)))
        _unpacked(patch)
        yield made


def _unpacked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mars_core.decoder.packing._can_pack", lambda: False)
    patch.setattr("mars_core.decoder.packing.halvable", lambda _: False)
