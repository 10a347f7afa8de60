"""Parameters that depend on the position: arithmetic over what is known of it before the draw, such
as ``0.9 - 0.1*min(1, entropy/2)``. A syntax tree of few kinds of nodes is read, nothing is
executed."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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


@dataclass(frozen=True)
class Expression:
    """``names``: the variables that it reads; ``span``: the tokens between which ``thinking`` is
    1."""

    tree: ast.expr
    names: frozenset[str]
    span: tuple[str, str] | None

    def value(self, variables: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return it at each position, [P, 1], from the variables that it reads, [P, 1] float64."""
        like = next(iter(variables.values()))

        def of(node: ast.AST) -> Any:
            match node:
                case ast.Constant(number):
                    return torch.full_like(like, float(str(number)))
                case ast.Name(name) | ast.Call(ast.Name("thinking" as name)):
                    return variables[name]
                case ast.Call(ast.Name(name), arguments):
                    return _FUNCTIONS[name][1](*map(of, arguments))
                case ast.IfExp(test, there, elsewhere):
                    return torch.where(of(test) > 0, of(there), of(elsewhere))
                case ast.UnaryOp(sign, operand):
                    return _OPERATORS[type(sign)](of(operand))
                case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
                    return _OPERATORS[type(sign)](of(left), of(right)).to(like.dtype)
            raise AssertionError("parse has refused it")

        result: torch.Tensor = of(self.tree)
        return result


@lru_cache(256)
def parse(text: str) -> Expression:
    """Raises ValueError with one sentence, without the name of the parameter."""
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text)} characters; an expression has {LONGEST} at most")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        spans = [*_spans(tree, 1)]
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        reason = f": {error.args[0]}" if isinstance(error, _RefusedError) else ""
        raise ValueError(
            f"is {text!r}{reason}; it takes a number or an expression of numbers, + - * /, "
            f"comparisons, a if b else c, {', '.join(_FUNCTIONS)}, and {', '.join(VARIABLES)}"
        ) from None
    if len(set(spans)) > 1:
        raise ValueError(f"is {text!r}; thinking has one pair of tokens")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & VARIABLES.keys()
    return Expression(tree, frozenset(names), spans[0] if spans else None)


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


def _spans(node: ast.AST, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the tokens of each ``thinking``. Raises _RefusedError for anything that is not
    arithmetic."""
    below: list[ast.expr] = []
    match node:
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            if not math.isfinite(float(number)):
                raise _RefusedError("a number is too large")
        case ast.Name("thinking"):
            yield _SPAN
        case ast.Name(name) if name in VARIABLES:
            pass
        case ast.Call(
            ast.Name("thinking"), [ast.Constant(str() as begin), ast.Constant(str() as end)], []
        ):
            yield begin, end
        case ast.Call(ast.Name(name), below, []) if name in _FUNCTIONS:
            if not below or _FUNCTIONS[name][0] not in (None, len(below)):
                raise _RefusedError(f"{name} has {len(below)} arguments")
        case ast.IfExp(test, there, elsewhere):
            below = [test, there, elsewhere]
        case ast.UnaryOp(sign, operand) if type(sign) in _OPERATORS:
            below = [operand]
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) if (
            type(sign) in _OPERATORS
        ):
            below = [left, right]
        case _:
            raise _RefusedError(f"{ast.unparse(node)!r} is unknown")
    if depth > DEEPEST:
        raise _RefusedError(f"more than {DEEPEST} operations are nested")
    for each in below:
        yield from _spans(each, depth + 1)
