"""Topology: who sees whom in a drafted tree."""

from __future__ import annotations

import random

import pytest
import torch

from mars_core.verification.draft import ancestors, chain

CPU = torch.device("cpu")


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_a_chain_is_the_tree_with_one_path(length: int) -> None:
    parents, depths = chain(length, CPU)
    assert parents.tolist() == list(range(length))
    assert depths.tolist() == list(range(length + 1))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 8, 9, 63])
def test_in_a_chain_every_node_sees_all_before_it(length: int) -> None:
    seen = ancestors(chain(length, CPU)[0], length)
    assert torch.equal(seen, torch.ones(length + 1, length + 1, dtype=torch.bool).tril())


@pytest.mark.parametrize("seed", range(20))
def test_a_node_sees_itself_and_the_way_back_to_the_root(seed: int) -> None:
    rng = random.Random(seed)
    parents = [rng.randint(max(0, node - rng.choice((1, 3, 60))), node) for node in range(rng.randint(1, 60))]
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


def test_siblings_do_not_see_each_other() -> None:
    assert ancestors(torch.tensor([0, 0]), 1).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, False, True],
    ]
