"""What kernels are tried on beside plain layers: a tree with one of its paths, and the drafts of a
head."""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.decoder import ANY_SHAPE, KERNELS, CacheSize
from mars_core.decoder.positions import Rows
from mars_core.eagle3.cache import HeadCache
from mars_core.eagle3.head import Eagle3Head
from tests.checkpoints import random_ids

# A tree, and a path of it: nodes 0, 2, 4 and 5.
PARENTS, DEPTHS, PATH = (
    torch.tensor([0, 0, 2, 2, 4]),
    torch.tensor([0, 1, 1, 2, 2, 3]),
    [0, 2, 4, 5],
)


def head_outputs(head: Eagle3Head, hidden: Tensor) -> tuple[HeadCache, Tensor, Tensor]:
    """Draft a tree of two levels with a prepared head, after the hidden states [12, H], by its
    plain layer and by kernels: the latter's cache, and the outputs [1, n, H] of both. Kernels give
    its path the same outputs as a chain."""
    plain, cache = (HeadCache(head, CacheSize(40, 20, shapes)) for shapes in (ANY_SHAPE, KERNELS))
    ids, drafted, root = random_ids(12), random_ids(4, seed=2)[None], Rows.one(11)
    identity, outputs = torch.eye(2).bool()[None], []
    for each in (plain, cache):
        each.read(ids[:8], hidden[:8])
        last = each.extend(ids[None, 8:11], hidden[None, 8:11], Rows.one(8))
        level = each.draft(drafted[:, :2], hidden[None, :2], root, 0, identity)
        sees = torch.cat((identity[:, [1, 1]], identity), -1)  # both follow the second node
        below = each.draft(drafted[:, 2:], hidden[None, 2:4], root, 1, sees)
        outputs.append(torch.cat((last, level, below), 1))
    chain = cache.extend(drafted[:, [1, 2]], hidden[None, [1, 2]], root)
    assert torch.equal(chain, outputs[1][:, [4, 5]])
    return cache, outputs[0], outputs[1]
