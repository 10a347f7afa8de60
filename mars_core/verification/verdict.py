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
    "parent": -1.0, "keep": 1.0, "strict": 1.0, "p": 1.0, "q": 1.0, "above": 0.0, "logprob": 0.0, "forgiveness": 0.0,
}  # fmt: skip
_NAN, _INFINITE = float("nan"), float("inf")
_UNMETERED: tuple[object, ...] = (_NAN,) * (len(Node._fields) - Node._fields.index("p") - len(_WIDE)) + ((),) * len(
    _WIDE
)


_DRAFTED = tuple(_ROOT)
_PLACES = (
    "id", "own", "emit", "z1", "emit_p", "emit_above", "emit_logprob", "u", "coin", "entropy", "wanted", "upper", "own_p",
)  # fmt: skip


class _Layout(NamedTuple):
    """Where fields begin in an answer: all by name, and those of which a node is made, in the order of _DRAFTED and _PLACES."""

    starts: dict[str, int]
    drafted: tuple[int, ...]
    places: tuple[int, ...]


@cache
def _layout(drafted: int, meter: Meter, width: int) -> _Layout:
    metered = (_METERED_INTEGERS, _METERED_SINGLES, _METERED_DOUBLES) if meter is not Meter.OFF else ((), (), ())
    names = (*_BOOLS, *_INTEGERS, *metered[0], *_SINGLES, *metered[1], *metered[2], *_SHIFT[meter])
    starts, at = {}, HEAD
    for name in names:
        starts[name] = at
        at += (drafted + (name not in _OF_DRAFTED)) * (width if name in _WIDE else 1)
    found = (tuple(starts[name] for name in each if name in starts) for each in (_DRAFTED, _PLACES))
    return _Layout(starts, *found)


class Nodes(Sequence[Node]):
    """The nodes of an answer, each put together when it is asked for: of most of a tree's only the draft is of interest."""

    def __init__(self, answer: Sequence[float]) -> None:
        self._answer, self._meter = answer, Meter(int(answer[1]))
        self._drafted, self._width = int(answer[0]), int(answer[2])
        self._layout = _layout(self._drafted, self._meter, self._width)
        self._starts = self._layout.starts
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
        answer, layout = self._answer, self._layout
        places = [answer[start + number] for start in layout.places]
        drafted = [answer[start + number - 1] for start in layout.drafted] if number else list(_ROOT.values())
        if self._meter is Meter.OFF:
            return Node._make((*drafted[:3], *places, *_UNMETERED))
        parent, keep, strict, p, q, above, logprob, forgiveness = drafted
        id_, own, emit, z1, emit_p, emit_above, emit_logprob, u, coin, entropy, wanted, upper, own_p = places
        top_ids, top_z, top_p = (self._wide(name, number) for name in _WIDE)
        edge = min(wanted - (upper - own_p), upper - wanted) if upper < _INFINITE else top_z[0] - top_z[1]
        tv, kl = self._shift(number, emit, emit_p)
        return Node(
            parent, keep, strict, id_, own, emit, z1, p, q, above + 1, logprob, forgiveness, emit_p, emit_above + 1,
            emit_logprob, u, coin, edge, entropy, tv, kl, top_ids, top_z, top_p,
        )  # fmt: skip

    def _wide(self, name: str, number: int) -> tuple[float, ...]:
        first = self._starts[name] + number * self._width
        return tuple(self._answer[first : first + self._width])

    def _shift(self, number: int, emit: float, emit_p: float) -> tuple[float, float]:
        """TV and KL after a node."""
        answer, starts = self._answer, self._starts
        if self._meter is Meter.DISTANCES:
            return answer[starts["tv"] + number], answer[starts["kl"] + number]
        distinct: dict[float, Child] = {}
        for child in self.children[number]:
            id_ = answer[starts["id"] + child]
            if id_ not in distinct:
                distinct[id_] = Child(id_, answer[starts["p"] + child - 1], answer[starts["share"] + child - 1])
        return shift(tuple(distinct.values()), Rest(int(answer[starts["rest"] + number])), emit, emit_p)


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
