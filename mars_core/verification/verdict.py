"""Reads a row of ``columns`` on the host: nodes, their tokens, and the accepted path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mars_core.types.row import Of
from mars_core.verification.columns import HEAD, MEASURED, RowToken, columns_of


class Nodes:
    """The nodes of a row of ``decide``; each is read on access: for most nodes of a tree only the
    draft is needed. Without ``telemetry`` measured columns are nan, 0 for integers, and there are
    no alternatives."""

    def __init__(self, row: Sequence[float]) -> None:
        self._row = row
        self._count, contents, self._width = map(int, row[:HEAD])
        self._columns = columns_of(self._count, contents, self._width)
        self.parents = [-1, *map(int, self.column("parent")[1:])]
        self.children: list[list[int]] = [[] for _ in self.parents]
        for number, parent in enumerate(self.parents[1:], start=1):
            self.children[parent].append(number)

    def __len__(self) -> int:
        return self._count + 1

    def column(self, name: str) -> list[float]:
        """Return the values of a column for all nodes; nan without ``telemetry``."""
        column, start = self._columns[name]
        if start and column.of is Of.NODE:
            return list(self._row[start : start + len(self)])
        drafted = self._row[start : start + self._count] if start else [math.nan] * self._count
        return [column.root, *drafted]

    def charge(self, path: Sequence[int], *, rejected: bool) -> float:
        """Return what the relaxed tokens of a path have charged, and those that were ``rejected``
        at its end."""
        if not self._columns["charge"][1]:
            return 0.0
        charge, strict = self.column("charge"), self.column("strict")
        relaxed = sum(charge[node] for node in path if not strict[node])
        children = self.children[path[-1]] if rejected else []
        if any(strict[child] for child in children):
            return relaxed
        return relaxed + max((charge[child] for child in children), default=0.0)

    def drafted(self, number: int) -> RowToken:
        """Return the drafted token of node 1 … N; its position is that after its parent."""
        identity = {"id": self._row[self._columns["id"][1] + number]}
        return self._token(self.parents[number], number - 1, identity)

    def emitted(self, number: int) -> RowToken:
        """Return the token that is emitted after a node if the step ends there."""
        identity = {"id": self._row[self._columns["emit"][1] + number], "parent": number}
        return self._token(number, self._count + number, identity)

    def _token(self, node: int, at: int, identity: Mapping[str, float]) -> RowToken:
        """Return token ``at`` of the drafted and the emitted ones, after a node. ``edge`` at
        temperature 0: z1 − z2."""
        values, drafted = dict[str, Any](), at < self._count
        for name, (column, start) in self._columns.items():
            index = node if column.of is Of.NODE else at
            value: float = identity.get(name, column.emitted)
            if column.of is Of.WIDE:
                first = start + node * self._width
                values[name] = tuple(self._row[first : first + self._width]) if start else ()
                continue
            if name not in identity and (drafted or column.of is not Of.DRAFTED):
                value = self._row[start + index] if start else column.absent
            values[name] = int(value) if column.dtype == "int64" else value
        if not self._columns["edge"][1] and values["top_z"]:
            values["edge"] = values["top_z"][0] - values["top_z"][1]
        rest = (values[name] for name in RowToken._fields[1:])
        return RowToken({name: values[name] for name in MEASURED}, *rest)


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
