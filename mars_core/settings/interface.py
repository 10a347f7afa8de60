"""Functions that take the settings as keyword arguments, as Python, notebooks and Gradio see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, TypeVar

from mars_core.settings.settings import Settings
from mars_core.settings.table import KINDS

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "**settings"  # in a docstring


def declared(function: F, left_out: Sequence[str] = ("device", "dtype", "graphs")) -> F:
    """Give a function of ``**settings`` the signature, and a line of its docstring for each of
    them."""
    has, usual = signature(function), Settings()
    own = [each for each in has.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    names = [each for each in KINDS if each not in (*left_out, *has.parameters)]
    taken = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None if (value := getattr(usual, name)) is None else KINDS[name].plain(value),
            annotation=KINDS[name].type | None,
        )
        for name in names
    ]
    before, _, after = (function.__doc__ or "").partition(_MARK)
    indent = before[before.rfind("\n") :]
    lines = indent.join(f"{name}: {KINDS[name].help}" for name in names)
    function.__doc__ = f"{before}{lines}{after}"
    function.__signature__ = has.replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
    return function
