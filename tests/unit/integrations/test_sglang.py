"""The proposal for SGLang: its function, followed as SGLang follows predictions, is the reference."""

from __future__ import annotations

import doctest
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch

from mars_core.reference import choose, relaxes

FILE = Path(__file__).parents[3] / "integrations/sglang/relaxed.py"
NODES, WORDS = 7, 4


@pytest.fixture(scope="module")
def proposed() -> ModuleType:
    spec = spec_from_file_location("relaxed", FILE)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def linked(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of every node, -1 for none, as SGLang has them."""
    first, following, latest = [-1] * NODES, [-1] * NODES, dict[int, int]()
    for node, parent in enumerate(parents, 1):
        if parent in latest:
            following[latest[parent]] = node
        else:
            first[parent] = node
        latest[parent] = node
    return first, following


def followed(predicted: list[int], drafted: list[int], parents: list[int]) -> list[int]:
    """The emitted tokens: of each node its prediction, as long as a child has it."""
    node, emitted = 0, list[int]()
    while True:
        emitted.append(predicted[node])
        node = next(
            (
                child
                for child, parent in enumerate(parents, 1)
                if parent == node and drafted[child] == emitted[-1]
            ),
            0,
        )
        if not node:
            return emitted


@pytest.mark.parametrize("theta", [0.0, 0.7, 0.9, 1.0])
def test_it_emits_what_the_reference_accepts(proposed: ModuleType, theta: float) -> None:
    random = torch.Generator().manual_seed(int(100 * theta))
    lengths = set()
    for _ in range(200):
        logits = 8 * torch.rand(1, NODES, WORDS, generator=random) - 1
        parents = [int(torch.randint(0, node, (), generator=random)) for node in range(1, NODES)]
        drafted = torch.randint(0, WORDS, (NODES,), generator=random).tolist()
        links = (torch.tensor([part]) for part in linked(parents))
        predicted = proposed.relaxed_predictions(
            logits, torch.tensor([drafted]), *links, torch.tensor([theta]), NODES
        )
        wanted, node = list[int](), 0
        while node is not None:
            z, children = (
                logits[0, node],
                [i + 1 for i, parent in enumerate(parents) if parent == node],
            )
            own = choose(z, 0.0, 0, 0)
            kept = [i for i in children if drafted[i] == own] or [
                i for i in children if relaxes(z, drafted[i], theta)
            ]
            wanted.append(drafted[kept[0]] if kept else own)
            node = kept[0] if kept else None
        assert followed(predicted[0].tolist(), drafted, parents) == wanted
        lengths.add(len(wanted))
    assert len(lengths) > 2


def test_its_example_holds(proposed: ModuleType) -> None:
    assert doctest.testmod(proposed).attempted and not doctest.testmod(proposed).failed
