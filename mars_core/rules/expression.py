"""Parameters that depend on the position: arithmetic over what is known of it before the draw, such
as ``0.9 - 0.1*min(1, entropy/2)``. A syntax tree of few kinds of nodes is read, nothing is
executed."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, NamedTuple

from mars_core.lazy import torch
from mars_core.types import Parameters

SCORE = "score"
VARIABLES = {
    "entropy": "of the target's distribution, nats; at temperature 0 of softmax(z)",
    "p1": "its largest probability",
    "gap": "z₁ − z₂",
    "position": "output position, from 0",
    "thinking": "1 between <think> and </think>, else 0; thinking('BEGIN', 'END') names other tokens",
    "tv": "TV of the output before this step",
    SCORE: "of the pair's classifier, 0 to 1",
}
SCOPES = {"thinking": "thinking", "answer": "1 - thinking"}  # names of WHERE's expressions
LONGEST, DEEPEST = 200, 20  # characters, and nested operations
_SPAN = ("<think>", "</think>")
_PIECES = re.compile(  # quoted texts, also without their end, and characters
    r"""'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|.""", re.DOTALL
)
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Mapping[str, tuple[int | None, Callable[..., Any]]] = {  # arguments; None: one or more
    "min": (None, lambda *each: reduce(torch.minimum, each)),
    "max": (None, lambda *each: reduce(torch.maximum, each)),
    "exp": (1, lambda x: x.exp()),
    "log": (1, lambda x: x.log()),
    "abs": (1, lambda x: x.abs()),
}


class Span(NamedTuple):
    """The tokens that begin and end a thinking phase, by id."""

    begin: int
    end: int

    def inside(self, ids: Iterable[int], before: bool = False) -> bool:
        """Return whether the text goes on within the phase after these tokens."""
        for each in ids:
            before = each != self.end and (before or each == self.begin)
        return before


Variables = Mapping[str, "torch.Tensor"]  # [P, 1] float64 each


@dataclass(frozen=True)
class Expression:
    """``value``: it at each position, [P, 1], from the variables that it reads; ``names``: these;
    ``span``: the tokens between which ``thinking`` is 1."""

    value: Callable[[Variables], torch.Tensor]
    names: frozenset[str]
    span: tuple[str, str] | None


@lru_cache(256)
def parse(text: str) -> Expression:
    """Raises ValueError with one sentence, without the name of the parameter."""
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text)} characters; an expression has {LONGEST} at most")
    reader = _Reader()
    try:
        value = reader.read(ast.parse(text.strip(), mode="eval").body, 1)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        reason = f": {error.args[0]}" if isinstance(error, _RefusedError) else ""
        raise ValueError(
            f"is {text!r}{reason}; it takes a number or an expression of numbers, + - * /, "
            f"comparisons, a if b else c, {', '.join(_FUNCTIONS)}, and {', '.join(VARIABLES)}"
        ) from None
    if len(reader.spans) > 1:
        raise ValueError(f"is {text!r}; thinking has one pair of tokens")
    return Expression(value, frozenset(reader.names), next(iter(reader.spans), None))


def split_values(text: str) -> list[str]:
    """Parts between commas that are in no parentheses and no quotes."""
    parts, depth = [""], 0
    for piece in _PIECES.findall(text):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def expressions(parameters: Parameters) -> dict[str, Expression]:
    """Return those of the parameters that are expressions."""
    return {name: parse(text) for name, text in parameters.items() if isinstance(text, str)}


class _RefusedError(ValueError):
    """With what is refused."""


class _Reader:
    """Reads arithmetic; ``names``: its variables; ``spans``: the tokens of each ``thinking``."""

    def __init__(self) -> None:
        self.names, self.spans = set[str](), set[tuple[str, str]]()

    def read(self, node: ast.AST, depth: int) -> Callable[[Variables], Any]:
        """Return what computes a node. Raises _RefusedError for anything else."""
        if depth > DEEPEST:
            raise _RefusedError(f"more than {DEEPEST} operations are nested")

        def applied(function: Callable[..., Any], *operands: ast.AST) -> Callable[[Variables], Any]:
            below = [self.read(each, depth + 1) for each in operands]
            return lambda known: function(*(each(known) for each in below))

        match node:
            case ast.Constant(int() | float() as number) if not isinstance(number, bool):
                if not math.isfinite(float(number)):
                    raise _RefusedError("a number is too large")
                return lambda known: torch.full_like(next(iter(known.values())), float(number))
            case ast.Name("thinking"):
                return self._thinking(_SPAN)
            case ast.Call(
                ast.Name("thinking"), [ast.Constant(str() as begin), ast.Constant(str() as end)], []
            ):
                return self._thinking((begin, end))
            case ast.Name(name) if name in VARIABLES:
                self.names.add(name)
                return operator.itemgetter(name)
            case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS:
                count, function = _FUNCTIONS[name]
                if not arguments or count not in (None, len(arguments)):
                    raise _RefusedError(f"{name} has {len(arguments)} arguments")
                return applied(function, *arguments)
            case ast.IfExp(test, there, elsewhere):
                return applied(lambda x, a, b: torch.where(x > 0, a, b), test, there, elsewhere)
            case ast.UnaryOp(sign, operand) if type(sign) in _OPERATORS:
                return applied(_OPERATORS[type(sign)], operand)
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) if (
                type(sign) in _OPERATORS
            ):
                combine = _OPERATORS[type(sign)]
                return applied(lambda a, b: combine(a, b).to(a.dtype), left, right)
        raise _RefusedError(f"{ast.unparse(node)!r} is unknown")

    def _thinking(self, span: tuple[str, str]) -> Callable[[Variables], Any]:
        self.names.add("thinking")
        self.spans.add(span)
        return operator.itemgetter("thinking")
