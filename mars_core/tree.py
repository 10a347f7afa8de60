"""Draft topology: a token tree whose node 0 is the last committed token. A chain is the tree with one path. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Tree:
    """``parents[i]`` is the node before node i + 1, always a smaller number; children of a node stand in draft order."""

    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(not 0 <= parent <= child for child, parent in enumerate(self.parents)):
            raise ValueError(f"parents {self.parents}: every parent must come before its child")

    @property
    def size(self) -> int:
        """Nodes, the root included."""
        return len(self.parents) + 1

    @property
    def depths(self) -> tuple[int, ...]:
        """Distance of every node from the root; the root's is 0."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(len(self.parents)))


@cache
def chain(length: int) -> Tree:
    """The tree with one path of ``length`` drafted tokens."""
    return Tree(tuple(range(length)))
