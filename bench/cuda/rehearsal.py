"""Captures as a CPU can play them, so that everything else of a captured step is run there too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from mars_core.engine import capture

Outputs = TypeVar("Outputs")


class Called(Generic[Outputs]):
    """In place of ``Captured``: the function is called, instead of being replayed."""

    def __init__(self, function: Callable[[], Outputs], device: torch.device) -> None:
        assert device.type == "cpu"
        self._function = function
        self.outputs = function()

    def replay(self) -> Outputs:
        self.outputs = self._function()
        return self.outputs


def without_graphs() -> None:
    """For the rest of this process."""
    capture.Captured = Called  # type: ignore[misc, assignment]
