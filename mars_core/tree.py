"""Draft topology as tensors: node 0 is the last committed token, ``parents[i]`` the node before node i + 1. A chain is the tree with
one path. Parents come before their children; siblings stand in draft order. Needs only torch."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


@cache
def chain(length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Parents [N] and depths [N + 1] of the tree with one path of N drafted tokens. Not to be written to."""
    return torch.arange(length, device=device), torch.arange(length + 1, device=device)


def ancestors(parents: Tensor, depth: int) -> Tensor:
    """bool [N + 1, N + 1]: whether the column's node is the row's node or before it. ``depth`` bounds that of the nodes."""
    sees = torch.eye(len(parents) + 1, device=parents.device)
    sees[1:].scatter_(1, parents[:, None], 1.0)
    reach = 1
    while reach < depth:  # each product doubles how far back a node sees
        sees = (sees @ sees).clamp(max=1)
        reach *= 2
    return sees.bool()
