"""Wrapping of vLLM's functions, where they begin with the parameters that the plugin needs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def wrap(owner: Any, name: str, first: str, around: Callable[..., Any]) -> None:
    """Make a function of a class or module call ``around`` with what it was, then its arguments;
    once, however often that is asked for.

    Raises RuntimeError where its parameters do not begin with ``first``: a version may have more.
    """
    inner, expected = getattr(owner, name, None), first.split()
    if getattr(inner, "mars", False):
        return
    names = list(inspect.signature(inner).parameters) if callable(inner) else None
    if inner is None or names is None or names[: len(expected)] != expected:
        raise RuntimeError(
            f"mars-vllm expects {owner.__name__}.{name}({', '.join(expected)}, …); this vLLM has "
            f"{names}."
        )

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return around(inner, *args, **kwargs)

    outer.mars = True  # type: ignore[attr-defined]
    setattr(owner, name, outer)
