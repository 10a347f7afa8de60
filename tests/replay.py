"""A stand-in for CUDA graphs that runs anywhere: a replay computes, in the memory of the capture,
and undoes what Python assigned.

So code that works here does not rely on attributes that are assigned while a step is computed: a
graph's replay runs no Python.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

UNCAPTURED = {
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "lift_fresh",
    "is_nonzero",
    "unique",
    "equal",
    "_to_cpu",
    "bincount",
    "index by a mask",
    "index_put by a mask",
    "index_put_ by a mask",
}


class Operations(TorchDispatchMode):
    """Names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = str(function).split(".")[1]
        masks = (
            name.startswith("index")
            and isinstance(args[1], list | tuple)
            and any(each is not None and each.dtype == torch.bool for each in args[1])
        )
        self.operators.add(f"{name} by a mask" if masks else name)
        return function(*args, **(kwargs or {}))

    @property
    def uncaptured(self) -> set[str]:
        """Those that a graph cannot hold: values that go to the host, constants that come from it,
        shapes that depend on values."""
        return self.operators & UNCAPTURED


class Replayed:
    """As ``mars_core.capture.Captured``: a replay overwrites the outputs of later captures.
    ``captures`` and ``replays`` count, ``watch`` is entered around replays."""

    captures = replays = 0
    watch: Any = None
    made: weakref.WeakSet[Replayed]

    def __init__(self, function: Callable[[], Any], _device: torch.device) -> None:
        type(self).captures += 1
        self._function, self._number = function, self.captures
        for _ in range(3):
            outputs = function()
        # what a function passes on is not in the memory of the captures
        self.outputs = deepcopy(outputs)
        self.made.add(self)

    def replay(self) -> Any:
        type(self).replays += 1
        for other in self.made:
            if other._number > self._number:
                for overwritten in tensors(other.outputs):
                    overwritten.zero_()
        before = [(part, dict(vars(part))) for part in parts(self._function)]
        if self.watch is None:
            outputs = self._function()
        else:
            with self.watch:
                outputs = self._function()
        for goal, source in zip(tensors(self.outputs), tensors(outputs), strict=True):
            assert goal.shape == source.shape, "a graph's shapes are those of its capture"
            goal.copy_(source)
        for part, attributes in before:
            vars(part).clear()
            vars(part).update(attributes)
        return self.outputs


def replayed(monkeypatch: pytest.MonkeyPatch) -> type[Replayed]:
    """Puts a stand-in with a separate count instead of ``Captured``."""
    stand_in = type("Replayed", (Replayed,), {"made": weakref.WeakSet()})
    monkeypatch.setattr("mars_core.capture.Captured", stand_in)
    monkeypatch.setattr(
        "mars_core.verification.coupled.READABLE", ()
    )  # a CPU that stands for a GPU is not queried
    return stand_in


def tensors(outputs: Any) -> list[Tensor]:
    if isinstance(outputs, Tensor):
        return [outputs]
    if isinstance(outputs, list):
        return [value for each in outputs for value in tensors(each)]
    return [
        value
        for field in fields(outputs)
        if isinstance(value := getattr(outputs, field.name), Tensor)
    ]


def parts(function: Callable[[], Any]) -> Iterator[Any]:
    """The project's objects that a function reaches and that have attributes, models excepted."""
    left, visited = list[Any]([function]), set()
    while left:
        each = left.pop()
        if isinstance(each, partial):
            left += [each.func, *each.args, *each.keywords.values()]
            continue
        if callable(each) and hasattr(each, "__code__"):
            left += [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
            left.append(getattr(each, "__self__", None))
            continue
        if id(each) in visited or isinstance(each, Tensor | nn.Module):
            continue
        visited.add(id(each))
        if isinstance(each, list | tuple):
            left += each
        elif type(each).__module__.startswith("mars_core"):
            if is_dataclass(each):
                left += [getattr(each, field.name) for field in fields(each)]
            elif hasattr(each, "__dict__"):
                yield each
                left += vars(each).values()
