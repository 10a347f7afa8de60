"""A CUDA device without one: torch's fake tensors, which have a device but no values, each with a
twin on the CPU that has them. Programs decide as on a device; what a device refuses, and what the
host waits for, are faults.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from bench.common.command import CPU, ROOT
from mars_core.engine import capture
from mars_core.models import loading

_THIS = Path(__file__)
DEVICE = torch.device("cuda", 0)
_MODE = FakeTensorMode()  # one for the process: constants on the device are computed once
_ATEN = torch.ops.aten
_COPIES = (_ATEN._to_copy.default, _ATEN.copy_.default)
_PRODUCTS = (_ATEN.mm.default, _ATEN.bmm.default, _ATEN.addmm.default, _ATEN.baddbmm.default)
_FUNCTIONS = "torchgen/packaged/ATen/native/native_functions.yaml"
_READS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_MASKS = (torch.bool, torch.uint8)
# methods that select the device of their tensor, which a torch without CUDA cannot
_SELECTING = (
    "__float__ __getitem__ __int__ __invert__ __setitem__ contiguous copy_ cuda new_tensor nonzero"
)


class FakeDevice(TorchDispatchMode):
    """``DEVICE``, while entered. ``copies``: how many a step may make, by the kind of device that
    they go to; None outside steps, where the host may wait for anything."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.faults = dict[str, None]()  # file:line: what
        self.copies: Counter[str] | None = None
        self._pinned = set[int]()  # addresses
        self._arriving = list[tuple[Tensor, Tensor]]()  # copies on the host, and their values

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.prim.device.default:
            return function(*args)
        hidden, _MODE.in_kernel_invocation = _MODE.in_kernel_invocation, False
        try:
            return self._call(function, args, dict(kwargs or {}))
        finally:
            _MODE.in_kernel_invocation = hidden

    def _call(self, function: Any, args: Any, kwargs: Any) -> Any:
        pinned, leaves = kwargs.pop("pin_memory", False), list[Any]()
        _mapped(leaves.append, (args, kwargs))
        tensors = [each for each in leaves if isinstance(each, Tensor)]
        touched = any(map(_is_on_device, leaves))
        if touched and _is_composite(function.name()):
            with self:
                return function.decompose(*args, **kwargs)
        with unset_fake_temporarily():
            if touched and function in _COPIES:
                asynchronous = any(each is True for each in (kwargs.get("non_blocking"), *args))
                self._copy(tensors, kwargs.get("device"), asynchronous)
            elif touched:
                self._check(function, args, tensors)
            values = _computed(function, *_mapped(_twin, (args, kwargs)))
            if pinned:
                self._pinned.add(values.untyped_storage().data_ptr())
            for host, _ in self._arriving:  # until the device is waited for
                host.fill_(math.nan)
            to = kwargs.get("device") or next((x.device for x in tensors if _is_on_device(x)), CPU)
            same = {id(_twin(each)): each for each in tensors}
            return _mapped(lambda x: same[id(x)] if id(x) in same else _faked(x, to), values)

    def _check(self, function: Any, args: Any, tensors: list[Tensor]) -> None:
        # a number of the CPU goes with a device, where it is not written to
        devices = {str(each.device) for each in tensors if each.dim() or each.is_cuda}
        if function._schema.is_mutable:
            devices.add(str(tensors[0].device))
        if len(devices) > 1:
            self._fault(f"{function} of tensors on {' and '.join(sorted(devices))}")
        if not has_kernel(function.name()):
            self._fault(f"{function} has no kernel for CUDA")
        if function in _PRODUCTS and not tensors[0].is_floating_point():
            self._fault(f"{function} of {tensors[0].dtype}, for which CUDA has none")
        reads = not _READS.isdisjoint(function.tags)
        if function.name().startswith("aten::index"):
            indices = args[1] if isinstance(args[1], list | tuple) else ()
            reads = any(each is not None and each.dtype in _MASKS for each in indices)
        if reads:
            self._wait(f"{function}: the host reads values")

    def _copy(self, tensors: list[Tensor], to: torch.device | None, asynchronous: bool) -> None:
        """``_to_copy(source, device=to)`` or ``copy_(target, source)``."""
        source, to = tensors[-1], to or tensors[0].device
        if source.device.type == to.type:
            return
        host = next((each for each in tensors if each.device.type == "cpu"), None)
        pinned = host is None or host.untyped_storage().data_ptr() in self._pinned
        if not asynchronous or not pinned:
            self._wait(f"the host waits for a copy to {to.type}: it blocks or is not pinned")
            return
        if self.copies is not None:
            self.copies[to.type] -= 1
            if self.copies[to.type] < 0:
                self._fault(f"one copy to {to.type} too many")
        if host is tensors[0] and to.type == "cpu":
            self._arriving.append((host, _twin(source).clone()))

    def synchronise(self, *_: object) -> None:
        """Instead of ``torch.cuda.synchronize``: what was copied to the host arrives."""
        if not self._arriving:
            self._wait("a synchronisation before the copy back")
        arrived, self._arriving = self._arriving, []
        for host, values in arrived:
            host.copy_(values)

    def _wait(self, what: str) -> None:
        if self.copies is not None:
            self._fault(what)

    def _fault(self, what: str) -> None:
        self.faults[f"{where(walk_stack(None))}: {what}"] = None


class Called:
    """Instead of ``Captured``: the function is called again, and its outputs are copied to those of
    the first call, as in a graph."""

    def __init__(self, function: Callable[[], Any], _device: torch.device) -> None:
        self._function, self.outputs = function, function()

    def replay(self) -> Any:
        for first, later in zip(_tensors(self.outputs), _tensors(self._function()), strict=True):
            first.copy_(later)
        return self.outputs


def _tensors(outputs: Any) -> list[Tensor]:
    """Those in a tensor, a list, or a value with such fields."""
    if isinstance(outputs, Tensor):
        return [outputs]
    if is_dataclass(outputs):
        outputs = [getattr(outputs, each.name) for each in fields(outputs)]
    return [*chain(*map(_tensors, outputs))] if isinstance(outputs, list | tuple) else []


def where(stack: Iterable[tuple[FrameType, int]]) -> str:
    """``file:line`` of the first frame, from the innermost one, in this project."""
    for frame, line in stack:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and "site-packages" not in path.parts and path != _THIS:
            return f"{path.relative_to(ROOT)}:{line}"
    return "unknown"


def _is_on_device(value: object) -> bool:
    return isinstance(value, FakeTensor) or (
        isinstance(value, torch.device) and value.type == "cuda"
    )


def _twin(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return vars(value)["twin"]
    return CPU if _is_on_device(value) else value


def _computed(function: Any, args: Any, kwargs: Any) -> Any:
    if function is _ATEN.mm.dtype:  # CUDA's only
        return torch.mm(*(each.to(args[2]) for each in args[:2]))
    return function(*args, **kwargs)


def _faked(value: Any, device: torch.device) -> Any:
    if not isinstance(value, Tensor) or device.type != "cuda":
        return value
    with torch.inference_mode(value.is_inference()):  # views are what their tensor is
        like = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        fake = FakeTensor(_MODE, like, device)
    vars(fake)["twin"] = value
    return fake


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of everything in a value; in less time than torch's trees."""
    if isinstance(value, list | tuple):
        return type(value)([_mapped(function, each) for each in value])
    if isinstance(value, dict):
        return {name: _mapped(function, each) for name, each in value.items()}
    return function(value)


@cache
def _is_composite(name: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")


@cache
def has_kernel(name: str) -> bool:
    """Whether an operator has a kernel for CUDA, or consists of others, in torch's list: a
    torch without CUDA has it too."""
    namespace, _, name = name.partition("::")
    text = (Path(torch.__file__).parents[1] / _FUNCTIONS).read_text(encoding="utf-8")
    match = re.search(rf"^- func: {re.escape(name)}\((.*?)(?=^- func: |\Z)", text, re.M | re.S)
    if namespace != "aten" or match is None:
        return namespace == "aten"
    if delegate := re.search(r"structured_delegate: (\S+)", match[1]):
        return has_kernel(f"aten::{delegate[1]}")
    return "dispatch:" not in match[1] or bool(re.search(r"[ ,]CUDA[,:]|Composite|ufunc", match[1]))


def _selecting(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a tensor whose device is hidden until the first operator."""

    def call(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        if method is Tensor.__setitem__ and not isinstance(args[1], Tensor):
            args = args[0], torch.full((), args[1], dtype=tensor.dtype, device=tensor.device)
        _MODE.in_kernel_invocation = True
        try:
            return method(tensor, *args, **kwargs)
        finally:
            _MODE.in_kernel_invocation = False

    return call


@contextmanager
def fake_device() -> Iterator[FakeDevice]:
    """Models are read on the CPU, then moved: reading them on a device is transformers' part."""
    device, read = FakeDevice(), loading._read

    def moved(plan: Any, folder: Any, _: torch.device, dtype: Any, progress: Any, __: Any) -> Any:
        return read(plan, folder, CPU, dtype, progress, None).to(DEVICE)  # type: ignore[arg-type]

    methods: Any = {name: _selecting(getattr(Tensor, name)) for name in _SELECTING.split()}
    cuda: Any = {
        "device": MagicMock(),
        "Event": MagicMock(),
        "synchronize": device.synchronise,
        "get_device_name": lambda _: "a fake device",
        "mem_get_info": lambda _: (2**36, 2**36),
        "memory_snapshot": list,
    }
    with ExitStack() as stack:
        for each in (
            patch.multiple(FakeTensor, create=True, **methods),
            patch.multiple(torch.cuda, **cuda),
            patch("mars_core.decoder.linear.Tensor", FakeTensor),  # of plain layers
            patch.object(loading, "_read", moved),
            patch.object(capture, "Captured", Called),
            _MODE,
            device,
        ):
            stack.enter_context(each)
        yield device
