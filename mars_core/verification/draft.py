"""What is judged and what comes of it: the drafted tree, one row of numbers a node, the kept path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from mars_core.tree import chain

TOP = 5  # alternatives kept for each node


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes: N nodes after the root, which is the last committed token.

    ``ids`` [N + 1], root first; ``parents`` [N] and ``depths`` [N + 1] as in ``tree``; ``q`` [N] the drafter's probability of each
    drafted token after its parent (1 where it has none); ``law`` [N, V'] the drafter's whole law at the place of each drafted token
    of a chain, V' ≤ V, None where there is none. ``depth`` bounds the depths; ``is_chain`` says that there is one path.
    """

    ids: Tensor
    parents: Tensor
    depths: Tensor
    q: Tensor
    depth: int
    is_chain: bool
    law: Tensor | None = None

    @property
    def size(self) -> int:
        """Drafted nodes, without the root."""
        return len(self.parents)


def chain_draft(ids: Tensor, q: Tensor, law: Tensor | None = None) -> Draft:
    """A draft with one path: ids [N + 1], q [N], law [N, V']."""
    count = len(ids) - 1
    parents, depths = chain(count, ids.device)
    return Draft(ids, parents, depths, q, count, True, law)


class Node(NamedTuple):
    """One node of the tree after the verdict. As a drafted token it was judged by its parent's logits; the rest is its own.

    From ``p`` on nan where the run is not metered.
    """

    parent: float  # node number; -1 for the root
    keep: float  # 1: the rule keeps this drafted token after its parent
    strict: float  # 1: so does strict, with the same u
    id: float
    own: float  # what the target draws after this node
    emit: float  # what the run emits if the step ends here
    z1: float  # largest logit after this node
    p: float  # of this token under the parent's law
    q: float
    rank: float  # of this token among the parent's logits, 1 = largest
    logprob: float  # of this token under softmax(z) of its parent
    forgiveness: float
    emit_p: float
    emit_rank: float
    emit_logprob: float
    u: float  # the drawing uniform of the token after this node
    coin: float  # its accepting uniform
    edge: float  # distance of the drawing uniform to the nearer end of own's interval; at temperature 0 z1 - z2
    entropy: float
    tv: float  # between the law of the token after this node and p
    kl: float
    top_ids: tuple[float, ...]
    top_z: tuple[float, ...]
    top_p: tuple[float, ...]  # of the shown law


BASIC = Node._fields.index("p")  # fields of a node that is not metered
WIDE = 3  # fields at the end that hold several numbers
_UNMETERED: tuple[object, ...] = (float("nan"),) * (len(Node._fields) - BASIC - WIDE) + ((),) * WIDE


class Verdict(NamedTuple):
    """The kept path: node numbers from the root (0) on; the step emits the tokens of path[1:] and then ``emit`` of its end."""

    nodes: tuple[Node, ...]
    path: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]


def walk(columns: list[list[float]]) -> Verdict:
    """The kept path, from each node to the child that is kept after it. ``columns`` as ``judge`` gives them."""
    nodes = _nodes(columns)
    children: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes[1:], start=1):
        children[int(node.parent)].append(number)
    path = [0]
    while kept := [child for child in children[path[-1]] if nodes[child].keep]:
        path.append(kept[0])
    return Verdict(nodes, tuple(path), tuple(map(tuple, children)))


def _nodes(columns: list[list[float]]) -> tuple[Node, ...]:
    if len(columns) == BASIC:
        return tuple(Node._make((*values, *_UNMETERED)) for values in zip(*columns, strict=True))
    fixed = len(Node._fields) - WIDE
    width = (len(columns) - fixed) // WIDE
    wide = (list(zip(*columns[at : at + width], strict=True)) for at in range(fixed, len(columns), width))
    return tuple(Node._make(values) for values in zip(*columns[:fixed], *wide, strict=True))
