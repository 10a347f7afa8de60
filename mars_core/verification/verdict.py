"""What comes of a judgement: one row of numbers a node, and the kept path. On the host; standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, overload

from mars_core.verification.shift import Child, Rest, shift


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


class Meter(IntEnum):
    """What an answer holds of the shift."""

    OFF = 0  # nothing is measured
    SHARES = 1  # what the law has of each drafted token, and where its rest goes
    DISTANCES = 2  # total variation and KL divergence


_DRAFTED = ("parent", "keep", "strict")  # fields of the drafted tokens, in the order of an answer
_PLACES = ("id", "own", "emit", "z1")  # fields of all nodes
_DRAFTED_METERED = ("p", "q", "rank", "logprob", "forgiveness")
_PLACES_METERED = ("emit_p", "emit_rank", "emit_logprob", "u", "coin", "entropy", "wanted", "upper", "own_p")
_ROOT = {
    "parent": -1.0,
    "keep": 1.0,
    "strict": 1.0,
    "p": 1.0,
    "q": 1.0,
    "rank": 1.0,
    "logprob": 0.0,
    "forgiveness": 0.0,
}
_WIDE = 3  # fields at the end with several numbers a node
_NAN, _INFINITE = float("nan"), float("inf")
_UNMETERED: tuple[object, ...] = (_NAN,) * (len(Node._fields) - Node._fields.index("p") - _WIDE) + ((),) * _WIDE


@cache
def _starts(drafted: int, meter: Meter) -> dict[str, int]:
    """Where each field begins in an answer."""
    starts, at = {}, 2
    shift = {Meter.SHARES: (("share",), ("rest",)), Meter.DISTANCES: ((), ("tv", "kl")), Meter.OFF: ((), ())}[meter]
    metered = () if meter is Meter.OFF else ((_DRAFTED_METERED, drafted), (_PLACES_METERED, drafted + 1))
    groups = ((_DRAFTED, drafted), (_PLACES, drafted + 1), *metered, (shift[0], drafted), (shift[1], drafted + 1))
    for names, count in groups:
        for name in names:
            starts[name] = at
            at += count
    return starts | {"wide": at}


class Nodes(Sequence[Node]):
    """The nodes of an answer, each put together when it is asked for: of most of a tree's only the draft is of interest."""

    def __init__(self, answer: Sequence[float]) -> None:
        self._answer, self._drafted, self._meter = answer, int(answer[0]), Meter(int(answer[1]))
        self._starts = _starts(self._drafted, self._meter)
        self._made: dict[int, Node] = {}
        self.parents = [-1, *map(int, self.column("parent")[1:])]
        self.children: list[list[int]] = [[] for _ in self.parents]
        for number, parent in enumerate(self.parents[1:], start=1):
            self.children[parent].append(number)

    def __len__(self) -> int:
        return self._drafted + 1

    @overload
    def __getitem__(self, number: int) -> Node: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Node]: ...
    def __getitem__(self, number: int | slice) -> Node | Sequence[Node]:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        if not 0 <= number <= self._drafted:
            raise IndexError(number)
        if number not in self._made:
            self._made[number] = self._node(number)
        return self._made[number]

    def column(self, name: str) -> list[float]:
        """A field of the answer, of all nodes; nan where it is not metered."""
        start = self._starts.get(name)
        if start is None:
            return [_NAN] * (self._drafted + 1)
        if name in _ROOT:
            return [_ROOT[name], *self._answer[start : start + self._drafted]]
        return list(self._answer[start : start + self._drafted + 1])

    def _node(self, number: int) -> Node:
        drafted, places = self._drafted_fields, self._place_fields
        if self._meter is Meter.OFF:
            return Node._make((*drafted(_DRAFTED, number), *places(_PLACES, number), *_UNMETERED))
        *after, entropy, wanted, upper, own_p = places(_PLACES_METERED, number)
        top_ids, top_z, top_p = self._wide(number)
        edge = min(wanted - (upper - own_p), upper - wanted) if upper < _INFINITE else top_z[0] - top_z[1]
        values = [*drafted(_DRAFTED, number), *places(_PLACES, number), *drafted(_DRAFTED_METERED, number)]
        return Node._make((*values, *after, edge, entropy, *self._shift(number), top_ids, top_z, top_p))

    def _drafted_fields(self, names: tuple[str, ...], number: int) -> list[Any]:
        if number == 0:
            return [_ROOT[name] for name in names]
        return [self._answer[self._starts[name] + number - 1] for name in names]

    def _place_fields(self, names: tuple[str, ...], number: int) -> list[Any]:
        return [self._answer[self._starts[name] + number] for name in names]

    def _wide(self, number: int) -> list[tuple[float, ...]]:
        start, count = self._starts["wide"], self._drafted + 1
        width = (len(self._answer) - start) // (_WIDE * count)
        firsts = (start + (field * count + number) * width for field in range(_WIDE))
        return [tuple(self._answer[first : first + width]) for first in firsts]

    def _shift(self, number: int) -> tuple[float, float]:
        """TV and KL after a node."""
        answer, starts = self._answer, self._starts
        if self._meter is Meter.DISTANCES:
            return answer[starts["tv"] + number], answer[starts["kl"] + number]
        distinct: dict[float, Child] = {}
        for child in self.children[number]:
            id_ = answer[starts["id"] + child]
            if id_ not in distinct:
                distinct[id_] = Child(id_, answer[starts["p"] + child - 1], answer[starts["share"] + child - 1])
        rest = Rest(int(answer[starts["rest"] + number]))
        return shift(tuple(distinct.values()), rest, answer[starts["emit"] + number], answer[starts["emit_p"] + number])


class Verdict(NamedTuple):
    """The kept path: node numbers from the root (0) on; the step emits the tokens of path[1:] and then ``emit`` of its end."""

    nodes: Nodes
    path: tuple[int, ...]

    @property
    def children(self) -> list[list[int]]:
        return self.nodes.children


def walk(answer: Sequence[float]) -> Verdict:
    """The kept path, from each node to the child that is kept after it. ``answer`` as ``judge`` gives it."""
    nodes = Nodes(answer)
    keep, path = nodes.column("keep"), [0]
    while kept := [child for child in nodes.children[path[-1]] if keep[child]]:
        path.append(kept[0])
    return Verdict(nodes, tuple(path))
