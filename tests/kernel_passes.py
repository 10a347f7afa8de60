"""What kernels are tried on beside plain layers: the passes of a model, and the drafts of a head."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.decoder import ANY_SHAPE, KERNELS, CacheSize, ModelCache, open_cache
from mars_core.decoder.positions import Rows
from mars_core.eagle3.cache import HeadCache
from mars_core.eagle3.head import Eagle3Head
from mars_core.verification import ancestors
from tests.checkpoints import random_ids

# A tree, and a path of it: nodes 0, 2, 4 and 5.
PARENTS, DEPTHS, PATH = (
    torch.tensor([0, 0, 2, 2, 4]),
    torch.tensor([0, 1, 1, 2, 2, 3]),
    [0, 2, 4, 5],
)


def cache_of_kernels(model: PreTrainedModel, near: float) -> ModelCache:
    """Read a prompt, rows together and alone, a tree, and another text beside the first: by kernels
    a row is bit for bit the same in every pass, and within ``near`` standard deviations that of plain
    layers. Return the cache of kernels."""
    plain, cache = (
        open_cache(model, CacheSize(60, 24, shapes, slots=2)) for shapes in (ANY_SHAPE, KERNELS)
    )
    ids, nodes, sees, read = random_ids(40), random_ids(6, seed=3), ancestors(PARENTS, 3), []
    for each in (plain, cache):
        each.read(ids[:20])
        rows = each.forward(ids[20:], 20)
        read.append(torch.cat([rows, each.forward_tree(nodes, 30, DEPTHS, sees)]))
    assert (read[0] - read[1]).abs().max() < near * read[0].std()
    together, branches = read[1][:20], read[1][20:]
    cache.read(ids[:20])
    for start, stop in ((20, 21), (21, 22), (22, 28), (28, 29), (29, 40), (39, 40)):
        assert torch.equal(cache.forward(ids[start:stop], start), together[start - 20 : stop - 20])
    assert torch.equal(cache.forward_tree(nodes, 30, DEPTHS, sees), branches)
    assert torch.equal(cache.forward(nodes[PATH], 30), branches[PATH])
    cache.read(ids[:20], slot=1)
    starts = Rows((0, 1), (25, 20), torch.tensor([25, 20]))
    both = cache.chains(torch.stack([ids[25:30], ids[20:25]]), starts)
    assert torch.equal(both[0], together[5:10]) and torch.equal(both[1], together[:5])
    return cache


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
