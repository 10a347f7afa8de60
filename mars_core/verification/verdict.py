"""What comes of a judgement: one row of numbers a node, and the kept path. On the host; standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple, overload

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


# An answer is how many tokens are drafted, a Meter, the alternatives a place (HEAD numbers), and then these, group by group: what
# stands together is of one type on the device. What has a value for each drafted token, not for each node, is in _OF_DRAFTED.
HEAD = 3
_BOOLS = ("keep", "strict")
_INTEGERS = ("parent", "id", "own", "emit")
_SINGLES = ("z1",)
_METERED_INTEGERS = ("above", "emit_above", "top_ids")
_METERED_SINGLES = ("p", "q", "logprob", "emit_p", "emit_logprob", "entropy", "own_p", "top_z", "top_p")
_METERED_DOUBLES = ("forgiveness", "u", "coin", "wanted", "upper")
_SHIFT = {Meter.OFF: (), Meter.SHARES: ("share", "rest"), Meter.DISTANCES: ("tv", "kl")}
_OF_DRAFTED = {"keep", "strict", "parent", "above", "p", "q", "logprob", "forgiveness", "share"}
_WIDE = ("top_ids", "top_z", "top_p")
_ROOT = {
    "parent": -1.0,
    "keep": 1.0,
    "strict": 1.0,
    "p": 1.0,
    "q": 1.0,
    "above": 0.0,
    "logprob": 0.0,
    "forgiveness": 0.0,
}
_NAN, _INFINITE = float("nan"), float("inf")
_BASIC = Node._fields.index("p")  # fields of a node that is not metered
_UNMETERED: tuple[object, ...] = (_NAN,) * (len(Node._fields) - _BASIC - len(_WIDE)) + ((),) * len(_WIDE)


@cache
def _starts(drafted: int, meter: Meter, width: int) -> dict[str, int]:
    """Where each field begins in an answer."""
    metered = (_METERED_INTEGERS, _METERED_SINGLES, _METERED_DOUBLES) if meter is not Meter.OFF else ((), (), ())
    names = (*_BOOLS, *_INTEGERS, *metered[0], *_SINGLES, *metered[1], *metered[2], *_SHIFT[meter])
    starts, at = {}, HEAD
    for name in names:
        starts[name] = at
        at += (drafted + (name not in _OF_DRAFTED)) * (width if name in _WIDE else 1)
    return starts


class Nodes(Sequence[Node]):
    """The nodes of an answer, each put together when it is asked for: of most of a tree's only the draft is of interest."""

    def __init__(self, answer: Sequence[float]) -> None:
        self._answer, self._meter = answer, Meter(int(answer[1]))
        self._drafted, self._width = int(answer[0]), int(answer[2])
        self._starts = _starts(self._drafted, self._meter, self._width)
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
        at = self._at
        basic = [at(name, number) for name in Node._fields[:_BASIC]]
        if self._meter is Meter.OFF:
            return Node._make((*basic, *_UNMETERED))
        top_ids, top_z, top_p = (self._wide(name, number) for name in _WIDE)
        wanted, upper = at("wanted", number), at("upper", number)
        lower = upper - at("own_p", number)
        edge = min(wanted - lower, upper - wanted) if upper < _INFINITE else top_z[0] - top_z[1]
        drafted = [
            at("p", number),
            at("q", number),
            at("above", number) + 1,
            at("logprob", number),
            at("forgiveness", number),
        ]
        after = [
            at("emit_p", number),
            at("emit_above", number) + 1,
            at("emit_logprob", number),
            at("u", number),
            at("coin", number),
        ]
        place = [edge, at("entropy", number), *self._shift(number)]
        return Node._make((*basic, *drafted, *after, *place, top_ids, top_z, top_p))

    def _at(self, name: str, number: int) -> float:
        if name not in _OF_DRAFTED:
            return self._answer[self._starts[name] + number]
        return self._answer[self._starts[name] + number - 1] if number else _ROOT[name]

    def _wide(self, name: str, number: int) -> tuple[float, ...]:
        first = self._starts[name] + number * self._width
        return tuple(self._answer[first : first + self._width])

    def _shift(self, number: int) -> tuple[float, float]:
        """TV and KL after a node."""
        at = self._at
        if self._meter is Meter.DISTANCES:
            return at("tv", number), at("kl", number)
        distinct: dict[float, Child] = {}
        for child in self.children[number]:
            distinct.setdefault(at("id", child), Child(at("id", child), at("p", child), at("share", child)))
        rest = Rest(int(at("rest", number)))
        return shift(tuple(distinct.values()), rest, at("emit", number), at("emit_p", number))


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
