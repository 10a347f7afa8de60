"""Drafts that are judged together have the rows that each has alone, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from mars_core.rules import RULES, Siblings, protecting
from mars_core.rules.base import WHERE, Rule
from mars_core.sampling import Chance, Use, chance, words
from mars_core.types import DraftMode, Processors, Sampling
from mars_core.verification import Draft, Known, Span, Terms, chain_draft, decide

TREE = torch.tensor([0, 0, 1, 1, 2, 3, 3])
SAMPLINGS = (
    Sampling(0.0),
    Sampling(1.0),
    Sampling(0.7, top_k=9, top_p=0.9, processors=Processors(typical_p=0.9)),
)
VOCABULARY = 37
SPAN = Span(3, 5)
SCOPE = "1 if tv + position/20 + thinking('a', 'b')/2 + entropy/9 > 0.7 else 0"


def drawn(shape: str, texts: int, size: int) -> tuple[torch.Tensor, Draft]:
    """Logits [A, N + 1, V] and drafts of which some are accepted."""
    torch.manual_seed(texts)
    count = len(TREE) if shape == "tree" else int(shape)
    logits = 3 * torch.randn(texts, count + 1, size)
    near = logits[:, :count] + torch.randn(texts, count, size)
    distribution = near.softmax(-1)[..., : size - 2]
    distribution = distribution / distribution.sum(-1, keepdim=True)
    ids = torch.cat([torch.zeros(texts, 1).long(), distribution.argmax(-1)], 1)
    q = distribution.gather(-1, ids[:, 1:, None])[..., 0]
    if shape != "tree":
        return logits, chain_draft(ids, q, distribution)
    ids[:, 4] = ids[:, 3]  # a sibling twice
    depths = torch.tensor([0, 1, 1, 2, 2, 2, 3, 3]).expand(texts, -1)
    return logits, Draft(ids, TREE.expand(texts, -1).clone(), depths, q, 3, False, odds=q / 2)


def numbers(texts: int, count: int, size: int, mode: DraftMode, sampling: Sampling) -> Chance:
    drawn = torch.tensor([words(seed, 5, count) for seed in range(texts)])
    together = chance(drawn.view(texts, count, len(Use)), size, mode, sampling.temperature)
    for text in range(texts):
        alone = chance(drawn[text].view(count, len(Use)), size, mode, sampling.temperature)
        for one, all_ in zip(parts(alone), parts(together), strict=True):
            assert torch.equal(one, all_[text])
    return together


def parts(values: Chance) -> list[torch.Tensor]:
    return [each for each in (values.uniform, values.noise, values.draft) if each is not None]


def alone(draft: Draft, text: int) -> Draft:
    separate = draft.of([text], draft.size, draft.depth)
    shape = {} if draft.is_chain else {"parents": separate.parents[0], "depths": separate.depths[0]}
    rest = {
        name: None if (value := getattr(separate, name)) is None else value[0]
        for name in ("distribution", "odds")
    }
    return replace(separate, ids=separate.ids[0], q=separate.q[0], **shape, **rest)


def varied(rule: Rule) -> dict[str, str]:
    """Every parameter of a rule that relaxes, as an expression."""
    return {
        each.name: SCOPE if each is WHERE else f"{each.default} * (0.5 + tv + position/30)"
        for each in rule.settable
        if not each.is_integer
    }


def compare(
    name: str,
    shape: str,
    mode: DraftMode,
    sampling: Sampling,
    size: int,
    texts: int = 3,
    *,
    protect: bool = False,
    dynamic: bool = False,
) -> None:
    rule = RULES[name]
    logits, draft = drawn(shape, texts, size)
    random = numbers(texts, draft.depth + 2, size, mode, sampling)
    values, raw = rule.values(varied(rule) if dynamic else {}), logits * 1.5
    runs = torch.arange(texts)[:, None] * torch.tensor([3.0, 1.0, 0.2, 0.4, 5.0]) % 2
    if dynamic:
        draft.ids[0, 1], draft.ids[1, 1] = SPAN
    if protect:
        rule = protecting(rule, torch.arange(size) % 3 == 0)
    score = logits.sigmoid()[..., :1]
    terms = Terms(rule, values, sampling, mode, span=SPAN)
    together = decide(terms, draft, Known(logits, random, raw, runs, {"score": score}))
    for text in range(texts):
        separate = Chance(
            *(
                None if each is None else each[text]
                for each in (random.uniform, random.noise, random.draft)
            )
        )
        known = Known(logits[text], separate, raw[text], runs[text], {"score": score[text]})
        row = decide(terms, alone(draft, text), known)
        assert row.numpy().tobytes() == together[text].numpy().tobytes(), (
            name,
            shape,
            mode,
            sampling,
            text,
        )


@pytest.mark.parametrize("name", RULES)
def test_together_as_alone(name: str) -> None:
    rule = RULES[name]
    for mode, sampling, shape in product(rule.modes, SAMPLINGS, ("1", "6", "tree")):
        if shape != "tree" or rule.siblings is not Siblings.REFUSED:
            compare(name, shape, mode, sampling, VOCABULARY, protect=shape == "6")
            compare(name, shape, mode, sampling, VOCABULARY, dynamic=True)


@pytest.mark.parametrize("name", RULES)
def test_sums_of_one_position_are_not_divided_among_threads(name: str) -> None:
    """Of a vocabulary that is large enough for it."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for mode, sampling in product(RULES[name].modes, SAMPLINGS[2:]):
            compare(name, "1", mode, sampling, 40_003, texts=2)
    finally:
        torch.set_num_threads(before)
