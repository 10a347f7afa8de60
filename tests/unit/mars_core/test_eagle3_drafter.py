"""EAGLE-3 drafts: the dynamic tree is the one that its definition gives, the head's cache is exact.

The models have twelve tokens, so that an untrained head is often right: drafted paths are accepted,
branches are taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_core.drafting.base import TextGroup
from mars_core.drafting.eagle3_drafter import _Odds
from mars_core.eagle3.head import Eagle3Head
from mars_core.models import Pair
from mars_core.sampling import Chance, noise
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    Sampling,
    Step,
    Trace,
    TreeShape,
)
from tests.eagle_heads import plain_pass
from tests.live_pairs import traced
from tests.unit.mars_core.test_lossless import (
    CONTEXT,
    TOKENIZER,
    matrix_head,
    matrix_pair,
    matrix_target,
)
from tests.unit.mars_core.test_verification import keys

V = len(TOKENIZER)
NOTED = 10  # new tokens of the runs whose drafts are compared one by one
PROMPT = "agbbeahc"


@dataclass(frozen=True)
class Models:
    """A target and a head as they are run, and as they were built."""

    pair: Pair
    target: PreTrainedModel
    head: Eagle3Head

    def run(
        self,
        sampling: Sampling,
        shape: TreeShape | None,
        *,
        prompt: str = PROMPT,
        mode: DraftMode = DraftMode.COUPLED,
        **options: Any,
    ) -> Trace:
        drafter = DrafterConfig("eagle3" if shape else "none", tree=shape, mode=mode)
        return traced(self.pair, drafter, sampling, prompt=prompt, **options)


def models_of(draft_vocabulary: int = V) -> Models:
    target, options = matrix_target("llama"), {"draft_vocabulary": draft_vocabulary}
    return Models(matrix_pair("llama", **options), target, matrix_head(target, **options))


@pytest.fixture(scope="module")
def llama() -> Models:
    return models_of()


@pytest.mark.parametrize("mode", [DraftMode.GREEDY, DraftMode.COUPLED])
@pytest.mark.parametrize("draft_vocabulary", [V, 6])
@pytest.mark.parametrize(
    "shape",
    [TreeShape(5, 5, 1), TreeShape(2, 1, 2), TreeShape(7, 3, 2), TreeShape(16, 4, 3)],
    ids=str,
)
def test_every_draft_is_what_its_definition_gives(
    shape: TreeShape, draft_vocabulary: int, mode: DraftMode
) -> None:
    """Drafts of a run against ones built path by path without any cache, from the target's features
    of a new pass. Coupled ones are the greedy ones of probabilities in proportion to q/E, with
    the noise E of each position."""
    models = models_of(draft_vocabulary)
    trace = models.run(Sampling(1.0), shape, seed=3, new=NOTED, mode=mode)
    ids, start = list(trace.prompt_ids), len(trace.prompt_ids)
    exponential = noise(keys(3, 0, NOTED), V)
    if mode is DraftMode.GREEDY:
        exponential = torch.ones_like(exponential)
    for step in trace.steps:
        most = min(shape.depth, start + NOTED - len(ids) - 1)
        tree = defined_tree(
            models, ids, replace(shape, depth=most), exponential[len(ids) - start :].tolist()
        )
        assert paths(step) == pytest.approx(tree, rel=1e-4)
        ids += [token.id for token in step.emitted]
    assert len(trace.steps) > 2


def paths(step: Step) -> dict[tuple[int, ...], float]:
    """Each drafted path and its last token's probability q."""
    all_paths: list[tuple[int, ...]] = [()]
    for node in step.nodes:
        all_paths.append((*all_paths[node.parent], node.id))
        assert len(all_paths[-1]) == node.depth
    assert len(set(all_paths)) == len(all_paths), "siblings must be distinct"
    return dict(zip(all_paths[1:], (node.q for node in step.nodes), strict=True))


def defined_tree(
    models: Models, ids: list[int], shape: TreeShape, exponential: list[list[float]]
) -> dict[tuple[int, ...], float]:
    """EAGLE-2's tree from its definition: expand the best ``top_k`` of each depth, keep the best
    ``tokens`` of all candidates. They are compared by q divided by the ``exponential`` noise of
    their position."""
    chance: dict[tuple[int, ...], float] = {}
    score = {(): 0.0}
    frontier: list[tuple[int, ...]] = [()]
    hidden = models.target(torch.tensor([ids[:-1]]), output_hidden_states=True).hidden_states
    features = models.head.fuse(torch.cat([hidden[tap][0] for tap in (0, 1, 2)], -1))
    for _ in range(shape.depth):
        children = []
        for path in frontier:
            distribution = distribution_after(models.head, features, ids, path)
            odds = {token: q / exponential[len(path)][token] for token, q in distribution.items()}
            for token in sorted(odds, key=lambda each: -odds[each])[: shape.top_k]:
                child = (*path, token)
                chance[child] = distribution[token]
                score[child] = score[path] + math.log(odds[token] / sum(odds.values()))
                children.append(child)
        frontier = sorted(children, key=lambda path: -score[path])[: shape.top_k]
    best = sorted(chance, key=lambda path: (-score[path], len(path)))[: shape.tokens]
    return {path: chance[path] for path in best}


def distribution_after(
    head: Eagle3Head, hidden: Tensor, ids: list[int], path: tuple[int, ...]
) -> dict[int, float]:
    """The head's distribution after ids and a drafted path: all entries anew, the drafted ones fed
    with the head's output."""
    following = torch.tensor([*ids[1:], *path])
    for count in range(len(ids) - 1, len(following) + 1):
        output, normed = plain_pass(head, following[:count], hidden)
        hidden = torch.cat([hidden, output[-1:]])
    draft = head.lm_head(normed[-1]).softmax(-1)
    return {
        int(head.target_ids(torch.tensor(index))): float(draft[index])
        for index in range(len(draft))
    }


def test_a_tree_wider_than_the_rest_of_the_context_fits(llama: Models) -> None:
    left = CONTEXT - len(PROMPT)
    alone, trace = (
        llama.run(Sampling(1.0), shape, new=left) for shape in (None, TreeShape(60, 8, 10))
    )
    assert trace.token_ids == alone.token_ids
    for step in trace.steps:
        depth = max((node.depth for node in step.nodes), default=0)
        assert depth < left, "a draft never reaches past the last token that may be emitted"
        left -= len(step.emitted)
    assert left == 0


def test_a_prompt_of_one_token_is_drafted_for_from_the_second_step_on(llama: Models) -> None:
    first, second, *_ = llama.run(Sampling(1.0), TreeShape(10, 4, 3), prompt="b", new=20).steps
    assert (first.drafted, second.drafted) == (0, 10)


def test_tokens_of_a_text_are_compared_alone_as_beside_another_text() -> None:
    """Several threads would divide the sum of a single row among them."""
    vocabulary, threads = 49_152, torch.get_num_threads()
    logits = torch.randn(2, 1, vocabulary, generator=torch.Generator().manual_seed(0))
    exponential = noise(keys(0, 0, 2), vocabulary)[:, None]
    ids = torch.arange(vocabulary)

    def scores(count: int) -> Tensor:
        u = Chance(torch.empty(0), None, exponential[:count])
        texts = TextGroup(range(count), Sampling(1.0), (), u)
        return _Odds([texts], ids).scores(logits[:count], 0)

    torch.set_num_threads(2)
    try:
        assert torch.equal(scores(1), scores(2)[:1])
    finally:
        torch.set_num_threads(threads)
