"""Functions that take the settings as keyword arguments, as Python, notebooks and Gradio see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, TypeVar

from mars_core.settings.table import KINDS

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "**settings"  # in a docstring


def declared(function: F, left_out: Sequence[str] = ("device", "dtype", "graphs")) -> F:
    """Give a function of ``**settings`` the signature, the annotations and a line of its docstring
    for each of them."""
    has = signature(function).parameters
    own = [each for each in has.values() if each.kind is not Parameter.VAR_KEYWORD]
    kinds = {name: kind for name, kind in KINDS.items() if name not in (*left_out, *has)}
    taken = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None if kind.default is None else kind.plain(kind.default),
            annotation=kind.type | None,
        )
        for name, kind in kinds.items()
    ]
    before, _, after = (function.__doc__ or "").partition(_MARK)
    indent = before[before.rfind("\n") :]
    lines = indent.join(f"{name}: {kind.help}" for name, kind in kinds.items())
    function.__doc__ = f"{before}{lines}{after}"
    function.__signature__ = signature(function).replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
    return function
