"""torch, imported on first use, so that the page starts seconds earlier; and imports of modules that
bring it and transformers with them."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            import torch

            return getattr(torch, name)

    torch = _Torch()


def imported(name: str) -> ModuleType:
    """Import a module without the garbage collector, which takes a sixth of the time of importing
    torch and transformers, and need not look through what they leave later either.

    >>> imported("math").sqrt(4)
    2.0
    """
    if name in sys.modules:
        return sys.modules[name]
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        if collects:
            gc.enable()
