"""Captures as a CPU can play them, so that everything else of a captured step is run there too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from mars_core.engine import capture

Outputs = TypeVar("Outputs")


class Called(Generic[Outputs]):
    """In place of ``Captured``: the function is called instead of being replayed, and its numbers go where those of the first call
    stand, as a graph writes them."""

    def __init__(self, function: Callable[[], Outputs], device: torch.device) -> None:
        assert device.type == "cpu"
        self._function = function
        self.outputs = function()

    def replay(self) -> Outputs:
        for first, later in zip(_tensors(self.outputs), _tensors(self._function()), strict=True):
            first.copy_(later)
        return self.outputs


def without_graphs() -> None:
    """For the rest of this process."""
    capture.Captured = Called  # type: ignore[misc, assignment]


def _tensors(outputs: Any) -> Iterable[Tensor]:
    """Of a tensor, a list of them, or a value with fields that are."""
    if isinstance(outputs, Tensor):
        return [outputs]
    values = [getattr(outputs, each.name) for each in fields(outputs)] if is_dataclass(outputs) else outputs
    return [value for value in values if isinstance(value, Tensor)]
