"""Reads a row of ``columns`` on the host: nodes, their tokens, and the accepted path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from mars_core.types.row import Of
from mars_core.verification.columns import HEAD, MEASURED, RowToken, layout

TokenValues = dict[str, Any]  # by column: a number, or a tuple where it is wide


class Nodes:
    """The nodes of a row of ``decide``; each is read on access: for most nodes of a tree only the
    draft is needed. Without ``telemetry`` measured columns are nan, 0 for integers, and there are
    no alternatives."""

    def __init__(self, row: Sequence[float]) -> None:
        self._row = row
        self._count, contents, self._width = map(int, row[:HEAD])
        self._layout = layout(self._count, contents, self._width)
        self._starts = self._layout.starts
        self.parents = [-1, *map(int, self.column("parent")[1:])]
        self.children: list[list[int]] = [[] for _ in self.parents]
        for number, parent in enumerate(self.parents[1:], start=1):
            self.children[parent].append(number)

    def __len__(self) -> int:
        return self._count + 1

    def column(self, name: str) -> list[float]:
        """Return the values of a column for all nodes; nan without ``telemetry``."""
        drafted, node, token, _ = self._starts
        if name in node:
            return list(self._row[node[name] : node[name] + len(self)])
        start = drafted.get(name) or token.get(name)
        drafts = self._row[start : start + self._count] if start else [math.nan] * self._count
        return [self._layout.root.get(name, math.nan), *drafts]

    def charge(self, path: Sequence[int], *, rejected: bool) -> float:
        """Return what the relaxed tokens of a path have charged, and those that were ``rejected``
        at its end."""
        if "charge" not in self._starts[Of.DRAFTED]:
            return 0.0
        charge, strict = self.column("charge"), self.column("strict")
        relaxed = sum(charge[node] for node in path if not strict[node])
        children = self.children[path[-1]] if rejected else []
        if any(strict[child] for child in children):
            return relaxed
        return relaxed + max((charge[child] for child in children), default=0.0)

    def drafted(self, number: int) -> RowToken:
        """Return the drafted token of node 1 … N; its position is that after its parent."""
        identity = {"id": self._row[self._starts[Of.NODE]["id"] + number]}
        drafted = self._read(Of.DRAFTED, number - 1)
        return self._token(self.parents[number], number - 1, drafted | identity)

    def emitted(self, number: int) -> RowToken:
        """Return the token that is emitted after a node if the step ends there."""
        identity = {"id": self._row[self._starts[Of.NODE]["emit"] + number], "parent": number}
        return self._token(number, self._count + number, self._layout.emitted | identity)

    def _node_row(self, number: int) -> TokenValues:
        """Columns of the position after a node, and the values of absent columns. ``edge`` at temperature 0: z1 − z2."""
        row = self._layout.absent | self._read(Of.NODE, number)
        for name, start in self._starts[Of.WIDE].items():
            row[name] = tuple(
                self._row[start + number * self._width : start + (number + 1) * self._width]
            )
        if "edge" in self._layout.absent and row["top_z"]:
            row["edge"] = row["top_z"][0] - row["top_z"][1]
        return row

    def _read(self, of: Of, index: int) -> TokenValues:
        row = self._row
        return {name: row[start + index] for name, start in self._starts[of].items()}

    def _token(self, node: int, at: int, columns: TokenValues) -> RowToken:
        """Token ``at``, after a node, with int in the integer columns."""
        columns = self._node_row(node) | columns | self._read(Of.TOKEN, at)
        columns |= {name: int(columns[name]) for name in self._layout.integers}
        rest = (columns[name] for name in RowToken._fields[1:])
        return RowToken({name: columns[name] for name in MEASURED}, *rest)


class StepVerdict(NamedTuple):
    """The accepted path: node numbers from the root (0) on; the step emits the tokens of path[1:]
    and then ``emit`` of its end."""

    nodes: Nodes
    path: tuple[int, ...]


def walk(row: Sequence[float]) -> StepVerdict:
    """Return the accepted path, from each node to the child that is accepted after it. ``row``: the
    result of ``decide``."""
    nodes = Nodes(row)
    keep, path = nodes.column("keep"), [0]
    while accepted := [child for child in nodes.children[path[-1]] if keep[child]]:
        path.append(accepted[0])
    return StepVerdict(nodes, tuple(path))
