"""EAGLE-3 drafts: the dynamic tree is the one that its definition gives, the head's cache is exact, and strict stays the target's own text.

The models have twelve tokens, so that an untrained head is often right: drafted paths are kept, branches are taken.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, PreTrainedModel

from mars_core.decoder import CacheSize, ModelCache, open_cache, prepare
from mars_core.drafting.base import Drafter, Inputs
from mars_core.drafting.eagle3 import Eagle3Drafter
from mars_core.drafting.ngram import NgramDrafter
from mars_core.eagle3.cache import prepare_head
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.engine import Engine, RawStep, Verifier
from mars_core.rules import RULES
from mars_core.sampling import step_uniforms, uniforms
from mars_core.types import DraftMode, Sampling, TreeShape
from mars_core.verification import Draft, ancestors
from tests.checkpoints import tiny_model
from training.head_chain import finish, project

V, CONTEXT = 12, 64
NOTED = 10  # new tokens of the runs whose drafts are compared one by one
PROMPT = [3, 9, 4, 4, 7, 1, 10, 2]
KINDS = ("llama", "qwen2", "qwen3", "mistral", "phi3")
SHAPES = [
    TreeShape(1, 1, 1), TreeShape(5, 5, 1), TreeShape(2, 1, 2), TreeShape(7, 3, 2), TreeShape(24, 6, 4), TreeShape(60, 8, 10),
    TreeShape(60, 2, 12), TreeShape(60, 5, 3),
]  # fmt: skip
FEW = SHAPES[3:6:2]  # on other architectures than Llama
SAMPLINGS = [Sampling(0.0), Sampling(0.7, top_p=0.9)]


def target_of(kind: str) -> PreTrainedModel:
    return tiny_model(
        kind, seed=5, vocab_size=V, num_hidden_layers=3, max_position_embeddings=CONTEXT, bos_token_id=None, eos_token_id=None
    )  # fmt: skip


def head_of(target: PreTrainedModel, draft_vocabulary: int = V) -> Eagle3Head:
    """A random head; a smaller draft vocabulary takes every second id first."""
    layer = LlamaConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, vocab_size=V
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        head = Eagle3Head(HeadConfig(layer, 32, V, draft_vocabulary, taps=(0, 1, 2), norm_before_residual=True))
        for weight in head.parameters():
            if weight.dim() == 2:
                weight.data.normal_(0, 0.3)
    if draft_vocabulary < V:
        head.d2t.copy_(torch.arange(draft_vocabulary))
    head.embed_tokens = target.get_input_embeddings()  # type: ignore[assignment]
    return head.eval().requires_grad_(False)


@dataclass(frozen=True)
class Models:
    """A target and a head as they are run, and as they were built."""

    target: PreTrainedModel
    fast_head: Eagle3Head
    plain: PreTrainedModel
    head: Eagle3Head

    def cache(self) -> ModelCache:
        return open_cache(self.target, CacheSize(CONTEXT, 61), self.head.config.taps)

    def drafter(self, cache: ModelCache, shape: TreeShape) -> Eagle3Drafter:
        return Eagle3Drafter(self.fast_head, cache.features, shape, CONTEXT)

    def engine(
        self, sampling: Sampling, shape: TreeShape | None, rule: str = "strict", eos: frozenset[int] = frozenset()
    ) -> Engine:
        cache = self.cache()
        drafter: Drafter = self.drafter(cache, shape) if shape else NgramDrafter(0)
        verifier = Verifier(cache, RULES[rule], RULES[rule].values({}), sampling, DraftMode.GREEDY, meter=True)
        return Engine(verifier, drafter, eos)

    def run(
        self, sampling: Sampling, shape: TreeShape | None, *, rule: str = "strict", seed: int = 0, tokens: int = 24,
        eos: frozenset[int] = frozenset(),
    ) -> list[RawStep]:  # fmt: skip
        engine = self.engine(sampling, shape, rule, eos)
        engine.prefill(PROMPT)
        return list(engine.steps(PROMPT, tokens, seed))


def emitted(steps: list[RawStep]) -> list[int]:
    return [token for step in steps for token in step.emitted]


@pytest.fixture(scope="module", params=[*KINDS, "llama, its own modules", "mistral, its own modules"])
def models(request: pytest.FixtureRequest) -> Iterator[Models]:
    kind, _, own = request.param.partition(", ")
    yield models_of(kind, fast=not own)


def models_of(kind: str, *, draft_vocabulary: int = V, fast: bool = True) -> Models:
    plain = target_of(kind)
    target, head = copy.deepcopy(plain), head_of(plain, draft_vocabulary)
    if fast:
        prepare(target)
    quick = copy.deepcopy(head)
    prepare_head(quick)
    return Models(target, quick, plain, head)


@pytest.fixture(scope="module")
def llama() -> Models:
    return models_of("llama")


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_strict_with_trees_is_the_target_alone(models: Models, sampling: Sampling) -> None:
    branched = 0
    alone = emitted(models.run(sampling, None, seed=1))
    llama = models.plain.config.model_type == "llama"
    for shape in SHAPES[int(sampling.temperature > 0) :: 2] if llama else FEW:
        steps = models.run(sampling, shape, seed=1)
        assert emitted(steps) == alone, str(shape)
        assert all(node.tv == node.kl == 0 for step in steps for node in step.verdict.nodes)
        branched += sum(step.verdict.path != tuple(range(len(step.verdict.path))) for step in steps)
    assert branched > 4, "the paths kept must be others than the first ones, or the commit in place is not tried"


def test_strict_with_trees_at_temperature_0_is_generate(models: Models) -> None:
    options = GenerationConfig(max_new_tokens=24, do_sample=False, pad_token_id=0)
    ids = torch.tensor([PROMPT])
    wanted = models.plain.generate(ids, options, attention_mask=torch.ones_like(ids))[0, len(PROMPT) :].tolist()  # type: ignore[misc, operator]
    assert emitted(models.run(Sampling(0.0), SHAPES[4])) == wanted


@pytest.mark.parametrize("draft_vocabulary", [V, 6])
@pytest.mark.parametrize(
    "shape", [TreeShape(5, 5, 1), TreeShape(2, 1, 2), TreeShape(7, 3, 2), TreeShape(16, 4, 3)], ids=str
)
def test_every_draft_is_what_its_definition_gives(shape: TreeShape, draft_vocabulary: int) -> None:
    """Drafts of a run against ones built path by path without any cache, from the target's features of a fresh pass."""
    models = models_of("llama", draft_vocabulary=draft_vocabulary)
    engine = models.engine(Sampling(1.0), shape)
    engine.prefill(PROMPT)
    ids, seen = list(PROMPT), 0
    inputs, draft = engine.drafter.inputs, engine.drafter.draft
    drafts: list[tuple[list[int], int, Draft]] = []

    def asked(given: list[int], most: int) -> Inputs:
        drafts.append((list(given), most, None))  # type: ignore[arg-type]
        return inputs(given, most)

    def noted(*arguments: Any) -> Draft:
        drafts[-1] = (*drafts[-1][:2], draft(*arguments))
        return drafts[-1][2]

    engine.drafter.inputs, engine.drafter.draft = asked, noted  # type: ignore[method-assign, assignment]
    for step in engine.steps(PROMPT, NOTED, 3):
        ids += step.emitted
    for given, most, found in drafts:
        assert most == min(shape.depth, len(PROMPT) + NOTED - len(given) - 1)
        seen += 1
        assert paths(found) == pytest.approx(defined_tree(models, given, replace(shape, depth=most)), rel=1e-4)
    assert seen > 2


def paths(draft: Draft) -> dict[tuple[int, ...], float]:
    """Each drafted path and its last token's probability q."""
    found: list[tuple[int, ...]] = [()]
    for token, parent in zip(draft.ids[1:].tolist(), draft.parents.tolist(), strict=True):
        found.append((*found[parent], token))
    assert [len(path) for path in found] == draft.depths.tolist()
    assert len(set(found)) == len(found), "siblings must be distinct"
    return dict(zip(found[1:], draft.q.tolist(), strict=True))


def defined_tree(models: Models, ids: list[int], shape: TreeShape) -> dict[tuple[int, ...], float]:
    """EAGLE-2's tree from its definition: expand the best ``top_k`` of each depth, keep the best ``tokens`` of all candidates."""
    chance: dict[tuple[int, ...], float] = {}
    score = {(): 0.0}
    frontier: list[tuple[int, ...]] = [()]
    for _ in range(shape.depth):
        found = []
        for path in frontier:
            distribution = distribution_after(models, ids, path)
            for token in sorted(distribution, key=lambda each: -distribution[each])[: shape.top_k]:
                child = (*path, token)
                chance[child], score[child] = (
                    distribution[token],
                    score[path] + float(torch.tensor(distribution[token]).log()),
                )
                found.append(child)
        frontier = sorted(found, key=lambda path: -score[path])[: shape.top_k]
    best = sorted(chance, key=lambda path: (-score[path], len(path)))[: shape.tokens]
    return {path: chance[path] for path in best}


def distribution_after(models: Models, ids: list[int], path: tuple[int, ...]) -> dict[int, float]:
    """The head's distribution after ids and a drafted path: all entries anew, the drafted ones fed with the head's own output."""
    head = models.head
    cache = models.cache()
    hidden = head.fuse(cache.read(torch.tensor(ids[:-1])))
    following = torch.tensor([*ids[1:], *path])
    for count in range(len(ids) - 1, len(following) + 1):
        residual, q, k, v = project(head, following[None, :count], hidden[None], torch.arange(count)[None])
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        output, logits = finish(head, residual, attended)
        hidden = torch.cat([hidden, output[0, -1:]])
    draft = logits[0, -1].softmax(-1)
    return {int(head.target_ids(torch.tensor(index))): float(draft[index]) for index in range(len(draft))}


@pytest.mark.parametrize("rule", [name for name in RULES if name not in ("none", "fly", "ensemble")])
def test_relaxed_rules_run_on_trees_and_repeat_themselves(llama: Models, rule: str) -> None:
    first, again = (emitted(llama.run(Sampling(1.0), TreeShape(24, 5, 4), rule=rule, tokens=12)) for _ in range(2))
    assert first == again
    assert len(first) == 12


@pytest.mark.parametrize("shape", [TreeShape(60, 8, 10), TreeShape(5, 5, 1)], ids=str)
def test_a_path_that_ends_in_eos_ends_the_text_there(llama: Models, shape: TreeShape) -> None:
    alone = emitted(llama.run(Sampling(0.7), None, seed=1))
    for end in sorted(set(alone))[::2]:
        steps = llama.run(Sampling(0.7), shape, seed=1, eos=frozenset((end,)))
        assert emitted(steps) == alone[: alone.index(end) + 1]
        assert steps[-1].eos


def test_a_tree_wider_than_the_rest_of_the_context_fits(llama: Models) -> None:
    room = CONTEXT - len(PROMPT)
    alone = emitted(llama.run(Sampling(1.0), None, tokens=room))
    steps = llama.run(Sampling(1.0), TreeShape(60, 8, 10), tokens=room)
    assert emitted(steps) == alone
    left = room
    for step in steps:
        depths = [0]
        for node in list(step.verdict.nodes)[1:]:
            depths.append(depths[int(node.parent)] + 1)
        assert max(depths) < left, "a draft never reaches past the last token that may be emitted"
        left -= len(step.emitted)


def test_a_prompt_of_one_token_is_drafted_for_from_the_second_step_on(llama: Models) -> None:
    engine = llama.engine(Sampling(1.0), TreeShape(10, 4, 3))
    engine.prefill([4])
    sizes = [len(step.verdict.nodes) for step in engine.steps([4], 20, 0)]
    assert sizes[0] == 1
    assert sizes[1] == 11


def test_taps_leave_no_hook_on_the_model(llama: Models) -> None:
    llama.run(Sampling(0.0), TreeShape(10, 4, 3), tokens=8)
    assert all(not layer._forward_pre_hooks for layer in llama.target.modules())


def test_features_are_what_enters_the_tapped_layers(models: Models) -> None:
    cache, ids = models.cache(), torch.tensor(PROMPT)
    hidden = models.plain(ids[None], output_hidden_states=True).hidden_states
    wanted = torch.cat([hidden[tap][0] for tap in (0, 1, 2)], -1)
    assert torch.allclose(cache.read(ids), wanted, atol=1e-5)
    cache.forward(ids, 0)
    assert torch.allclose(cache.features[: len(ids)], wanted, atol=1e-5)


def test_kept_paths_leave_the_cache_that_a_fresh_pass_would(models: Models) -> None:
    """Two trees in a row with paths that are no prefix of them; then the logits of a continuation."""
    parents = torch.tensor([0, 0, 1, 2, 2, 4])
    depths = torch.tensor([0, 1, 1, 2, 2, 2, 3])
    ids, cache = list(PROMPT), models.cache()
    cache.read(torch.tensor(ids))
    for offset in (0, 5):
        nodes, path = torch.tensor([1, 5, 3, 8, 6, 2, 9]) + offset % 2, torch.tensor([0, 2, 4, 6])
        cache.forward_tree(nodes, len(ids), depths, ancestors(parents, 3))
        cache.move(path + len(ids), torch.arange(len(path)) + len(ids))
        ids += nodes[path].tolist()
    given = cache.forward(torch.tensor([3, 4]), len(ids))
    fresh = models.plain(torch.tensor([[*ids, 3, 4]])).logits[0, -2:]
    assert torch.allclose(given, fresh, atol=1e-5)


def test_uniforms_are_not_used_by_greedy_drafts(llama: Models) -> None:
    """Two proposals after the same text are equal whatever the uniforms are."""
    trees = []
    for seed in (0, 1):
        cache = llama.cache()
        drafter = llama.drafter(cache, TreeShape(12, 4, 3))
        drafter.begin(PROMPT, cache.read(torch.tensor(PROMPT[:-1])))
        size, start, numbers = drafter.inputs(PROMPT, 8)
        u = step_uniforms(uniforms(seed, 9), seed, 0, 9)
        trees.append(paths(drafter.draft(size, start, torch.tensor(numbers), u)))
    assert trees[0] == trees[1]
