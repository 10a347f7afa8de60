"""Input and output of a verification: draft, target values and the rule's decision, for greedy and
sampled drafts.

Topology as tensors: node 0 is the last committed token, ``parents[i]`` the node before node i + 1.
A chain is the tree with one path. Parents come before their children; siblings are in draft order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.rules.base import Evidence, State
from mars_core.sampling import Draws


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft: N nodes after the root, which is the last committed token. ``ids`` [N + 1], root
    first; ``parents`` [N] and ``depths`` [N + 1] as above; ``q`` [N] the drafter's probability of
    each drafted token after its parent (1 where it has none); ``distribution`` [N, V'] the
    drafter's full distribution at the position of each drafted token of a chain, V' ≤ V, None where
    there is none. ``depth`` is an upper bound of the depths; ``is_chain``: there is one path;
    ``odds`` [N] of a coupled tree: the shares of the sum of q/E after each parent, by whose
    products along the paths its nodes were chosen."""

    ids: Tensor
    parents: Tensor
    depths: Tensor
    q: Tensor
    depth: int
    is_chain: bool
    distribution: Tensor | None = None
    odds: Tensor | None = None

    @property
    def size(self) -> int:
        """Drafted nodes, without the root."""
        return len(self.parents)

    def first(self, count: int, depth: int) -> Draft:
        """The first ``count`` nodes, none of them deeper than ``depth``."""
        if count == self.size:
            return self
        if count == 0:
            return chain_draft(self.ids[:1], self.q[:0])
        return Draft(
            self.ids[: count + 1],
            self.parents[:count],
            self.depths[: count + 1],
            self.q[:count],
            depth,
            self.is_chain,
            None if self.distribution is None else self.distribution[:count],
            None if self.odds is None else self.odds[:count],
        )


@cache
def chain(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Parents [N] and depths [N + 1] of the tree with one path of N drafted tokens. Do not write to
    them."""
    return torch.arange(length, device=device), torch.arange(length + 1, device=device)


def chain_draft(ids: Tensor, q: Tensor, distribution: Tensor | None = None) -> Draft:
    """A draft with one path: ids [N + 1], q [N], distribution [N, V']."""
    count = len(ids) - 1
    parents, depths = chain(count, ids.device)
    return Draft(ids, parents, depths, q, count, True, distribution)


def ancestors(parents: Tensor, depth: int) -> Tensor:
    """bool [N + 1, N + 1]: whether the column's node is the row's node or its ancestor. ``depth``:
    upper bound of the depths."""
    sees = torch.eye(len(parents) + 1, device=parents.device)
    sees[1:].scatter_(1, parents[:, None], 1.0)
    reach = 1
    while reach < depth:  # each product doubles the distance to known ancestors
        sees = (sees @ sees).clamp(max=1)
        reach *= 2
    return sees.bool()


@cache
def certain(count: int, device: torch.device) -> Tensor:
    """q [count] of a drafter without probabilities, at a fixed address. Do not write to it."""
    return torch.ones(count, device=device)


class Places(NamedTuple):
    """The target's values at each of the N + 1 nodes of a step."""

    logits: Tensor  # [N + 1, V] float32, after penalties and biases
    p: Tensor  # [N + 1, V]; one-hot at temperature 0
    soft: Tensor  # [N + 1, V] p; softmax(z) at temperature 0
    top_z: Tensor  # [N + 1, T] the largest logits, descending
    top_ids: Tensor  # [N + 1, T]
    target_ids: Tensor  # [N + 1] the target's draw after each node
    drawn: Draws | None  # the draws; None at temperature 0, where ``target_ids`` is the argmax
    uniform: Tensor  # [N + 1] the uniform that decides about the token after each node
    noise: Tensor  # [N + 1, V] with which that token is drawn; [N + 1, 0] at temperature 0
    state: State | None = None  # where the rule or a parameter reads it
    score: Tensor | None = None  # [N + 1, 1] what the pair's classifier gives each node

    @property
    def greedy(self) -> bool:
        """Temperature 0."""
        return self.drawn is None

    def evidence(
        self,
        x: Tensor,
        at: Tensor | None,
        confidence: Tensor,
        drafter: Tensor | None = None,
        tried: Tensor | None = None,
    ) -> Evidence:
        """Candidates x [E, C] of greedy drafts, with the fields of Evidence."""
        return Evidence(
            logits=self.logits,
            distribution=self.p,
            soft=self.soft,
            drafter=drafter,
            top_z=self.top_z,
            top_ids=self.top_ids,
            at=at,
            x=x,
            q=self.p.new_ones(()).expand(x.shape),
            confidence=confidence,
            tried=self.p.new_zeros(len(x), 1) if tried is None else tried,
            greedy=self.greedy,
            state=self.state,
            score=None if self.score is None else self.score[1:],
        )


DISTRIBUTION = "distribution"  # P after the drafted positions [N, V], if a decision computed it


class Decision(NamedTuple):
    """A rule's decision on a draft."""

    keep: Tensor  # bool [N]
    strict: Tensor  # bool [N]
    emit: Tensor  # [N + 1]
    forgiveness: Tensor  # [N]
    shift: dict[
        str, Tensor
    ]  # the ``columns`` from which TV and KL are computed; may be empty without ``telemetry``
    state: State | None  # of the places, with the ledger

    def only(self, inside: Tensor, parents: Tensor, strict: Decision, p: Tensor) -> Decision:
        """This decision after the nodes that are ``inside``, bool [N + 1], strict's after others.
        p [N + 1, V]: strict's distributions."""
        drafted, others = inside[parents], {DISTRIBUTION: p[: len(parents)], **strict.shift}

        def chosen(one: Tensor, other: Tensor) -> Tensor:
            marks = drafted if len(one) == len(drafted) else inside
            return torch.where(marks.view(-1, *[1] * (one.dim() - 1)), one, other)

        return Decision(
            chosen(self.keep, strict.keep),
            self.strict,
            chosen(self.emit, strict.emit),
            self.forgiveness * drafted,
            {name: chosen(column, others[name]) for name, column in self.shift.items()},
            self.state,
        )
