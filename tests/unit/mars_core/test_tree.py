"""Topology: who sees whom in a drafted tree."""

from __future__ import annotations

import random

import pytest
import torch

from mars_core.verification.draft import ancestors, chain

TREES = [
    *(chain(length, torch.device("cpu"))[0].tolist() for length in (0, 1, 2, 8, 63)),
    *([rng.randint(max(0, node - rng.choice((1, 3, 60))), node) for node in range(rng.randint(1, 60))]
      for rng in map(random.Random, range(10))),
    [0, 0],
]  # fmt: skip


@pytest.mark.parametrize("parents", TREES, ids=len)
def test_a_node_sees_itself_and_the_way_back_to_the_root(parents: list[int]) -> None:
    depths = [0]
    for parent in parents:
        depths.append(depths[parent] + 1)
    seen = ancestors(torch.tensor(parents), max(depths))
    for node, row in enumerate(seen.tolist()):
        way, at = {node}, node
        while at:
            at = parents[at - 1]
            way.add(at)
        assert {other for other, sees in enumerate(row) if sees} == way
