"""The plugin's decisions are those of mars_core, for mixed batches too, and what it forces is what
a rejection sampler keeps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mars_core.rules import RULES
from mars_core.rules.expression import Span
from mars_core.sampling import target_distribution
from mars_core.types import Sampling
from mars_vllm.arguments import COUNT, GREEDY_ONLY, OFFERED, RequestRule, RuleGroup
from mars_vllm.judging import Step, entry, force
from mars_vllm.places import after
from tests.unit.mars_core.test_verification import VALUES, case, chance, column, columns

VALUES_HERE = {**VALUES, "threshold": {"single": 0.2}, "lenience": {"lenience": 0.5}}


def request(name: str, temperature: float, **values: float) -> RequestRule:
    chosen = RULES[name].values(values or VALUES_HERE.get(name, {}))
    group = RuleGroup(name, temperature == 0, int(chosen.get(COUNT, 0)))
    return RequestRule(RULES[name], chosen, False, group)


def grouped(request: RequestRule, **fields: Any) -> RequestRule:
    """Return it with other fields of its group."""
    return replace(request, group=request.group._replace(**fields))


def decide(
    requests: list[RequestRule | None],
    logits: Tensor,
    drafted: Tensor,
    temperatures: Tensor,
    local: Tensor | None = None,
) -> Tensor:
    """bool [P], as a runner does it: raw logits first, then what the target draws from. local: the
    place of each row in its draft; None: one draft."""
    groups = sorted({each.group for each in requests if each})
    table = torch.tensor([entry(each, groups) for each in requests], dtype=torch.float64)
    rows = torch.arange(len(drafted)) if local is None else local
    step = Step(groups, table, drafted, rows, torch.zeros(len(drafted), 2).double())
    step.judge(logits)
    step.temper(logits / temperatures[:, None])
    return step.relaxed


OFFERS = [(name, t) for name in OFFERED for t in ((0.0,) if name in GREEDY_ONLY else (0.0, 0.7))]


@pytest.mark.parametrize(("name", "temperature"), [each for each in OFFERS if each[0] != "random"])
def test_what_is_forced_is_what_the_rule_relaxes(name: str, temperature: float) -> None:
    """Forced exactly where mars_core keeps the token with certainty though strict does not."""
    sampling, relaxed = Sampling(temperature), 0
    for seed in range(60):
        logits, draft = case("chain of 3", seed, shift=2.0)
        values = VALUES_HERE.get(name, {})
        rows = columns(logits, draft, name, sampling, chance(draft, seed), values)
        drafted = draft.ids[1:]
        p = target_distribution(logits, sampling)[:3].gather(-1, drafted[:, None])[:, 0]
        expected = [
            f >= 1 - 1e-9 and q < 1
            for f, q in zip(column(rows, "forgiveness")[1:], p.tolist(), strict=True)
        ]
        chosen = decide(
            [request(name, temperature)] * 3,
            logits[:3],
            drafted,
            torch.full((3,), temperature or 1.0),
        )
        assert chosen.tolist() == expected
        relaxed += sum(expected)
    assert relaxed > 5 or name == "strict" or (name, temperature) == ("typical", 0.0)


def test_each_row_of_a_mixed_batch_is_judged_by_its_rule() -> None:
    generator = torch.Generator().manual_seed(1)
    more = request("mars", 0, theta=0.5), request("mars", 0.7, theta=0.95)
    requests = [None, *(request(name, t) for name, t in OFFERS), *more] * 20
    logits = torch.randn(len(requests), 8, generator=generator) + 3
    drafted = logits.topk(3).indices.gather(
        -1, torch.randint(3, (len(requests), 1), generator=generator)
    )[:, 0]
    temperatures = torch.tensor(
        [1.0 if wanted is None or wanted.group.greedy else 0.7 for wanted in requests]
    )
    together = decide(requests, logits, drafted, temperatures)
    alone = [
        bool(decide([wanted], logits[i : i + 1], drafted[i : i + 1], temperatures[i : i + 1]))
        for i, wanted in enumerate(requests)
    ]
    assert together.tolist() == alone and any(alone)
    assert not together[[wanted is None for wanted in requests]].any()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_random_relaxes_its_share_whatever_the_batch(
    probability: float, temperature: float
) -> None:
    """Also of drafts that are alike, in rows whose logits have few values."""
    count, generator = 20_000, torch.Generator().manual_seed(2)
    logits = torch.randn(count, 50, generator=generator).mul_(3).bfloat16().float()
    drafted, temperatures = torch.zeros(count).long(), torch.full((count,), temperature or 1.0)
    requests: list[RequestRule | None] = [request("random", temperature, probability=probability)]
    chosen = decide(requests * count, logits, drafted, temperatures)
    judged = chosen[logits.argmax(-1) != 0] if temperature == 0 else chosen
    share = float(judged.double().mean())
    assert abs(share - probability) <= 5 * (probability * (1 - probability) / len(judged)) ** 0.5
    few = slice(100, 140)
    again = decide(requests * 40, logits[few], drafted[few], temperatures[few])
    assert torch.equal(again, chosen[few])


@pytest.mark.parametrize(("name", "temperature"), OFFERS)
def test_no_rule_relaxes_a_protected_token_and_others_are_decided_as_before(
    name: str, temperature: float
) -> None:
    generator, count = torch.Generator().manual_seed(3), 300
    logits = torch.randn(count, 6, generator=generator) + 3
    drafted = torch.randint(6, (count,), generator=generator)
    free = request(name, temperature)
    guarded = grouped(free, protected=(1, 4))
    numbers = logits, drafted, torch.full((count,), temperature or 1.0)
    chosen = decide([free] * count, *numbers)
    safe = (drafted != 1) & (drafted != 4)
    assert torch.equal(decide([guarded] * count, *numbers), chosen & safe)
    assert torch.equal(decide([free, guarded] * (count // 2), *numbers)[::2], chosen[::2])


TIE = [10.0, 9.5, 1.0]
ONE_FORCED = torch.tensor([1]), torch.tensor([True])  # a drafted token, and whether it is forced


@pytest.mark.parametrize("temperature", [0.01, 1.0, 5.0])
def test_a_forced_row_is_one_hot_at_any_temperature_and_others_are_untouched(
    temperature: float,
) -> None:
    logits = torch.tensor([TIE, TIE, [1.0, -math.inf, 3.0], TIE])
    drafted, chosen = torch.tensor([1, 1, 1, -1]), torch.tensor([True, False, True, False])
    forced = force(logits.clone(), drafted, chosen)
    assert forced.argmax(-1).tolist() == [1, 0, 1, 0]
    p = (forced / temperature).softmax(-1)
    assert p[0].tolist() == p[2].tolist() == [0.0, 1.0, 0.0]
    assert torch.equal(forced[[1, 3]], logits[[1, 3]])


def test_a_scope_is_decided_by_the_tokens_before_also_those_of_the_draft() -> None:
    """As by the reference: a loop over the tokens of the text, of two requests in one batch."""
    generator, span = torch.Generator().manual_seed(4), Span(1, 2)
    scoped = [
        grouped(replace(request("always", 0), span=span), scope=scope)
        for scope in ("thinking", "1 - thinking", "position >= 4", "0/0")
    ]
    for seed in range(40):
        texts = [torch.randint(1, 4, (n,), generator=generator).tolist() for n in (5, 3)]
        drafts = [torch.randint(1, 4, (n,), generator=generator).tolist() for n in (4, 2)]
        spans = torch.tensor([span, span]).double()
        start = torch.tensor([[-2.0, 0.0], [0.0, 0.0]]).double()  # the first has a prompt of 2
        padded = torch.tensor([texts[0], [*texts[1], 1, 1]])
        places = after(start, spans, padded, torch.tensor([5, 3]))
        owner, local = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 3, 0, 1])
        drafted, logits = torch.tensor(drafts[0] + drafts[1]), torch.zeros(6, 4)
        logits[:, 0] = 9.0  # never drafted, so that everything may be relaxed
        wanted, other = scoped[seed % 4], scoped[(seed + 1) % 4]
        groups = sorted({wanted.group, other.group})
        table = torch.tensor([entry(each, groups) for each in (wanted, other)]).double()[owner]
        step = Step(groups, table, drafted, local, places[owner])
        step.judge(logits)
        expected = []
        for text, draft, each, prompt in zip(texts, drafts, (wanted, other), (2, 0), strict=True):
            for i in range(len(draft)):
                thinking = span.inside([*text, *draft[:i]])
                at = len(text) - prompt + i
                expected.append([thinking, not thinking, at >= 4, True][scoped.index(each)])
        assert step.relaxed.tolist() == expected


def test_under_a_grammar_only_thinking_without_a_mask_is_relaxed() -> None:
    guarded = grouped(replace(request("always", 0), span=Span(1, 2)), guarded=True)
    logits = torch.zeros(4, 4)
    logits[:, 0] = 9.0
    logits[2, 3] = -torch.inf  # a token that the grammar excludes
    drafted, ones = torch.tensor([3, 1, 1, 2]), torch.ones(4)
    assert decide([guarded] * 4, logits, drafted, ones).tolist() == [False, False, False, True]
    unknown = replace(guarded, span=None)
    assert not decide([unknown] * 4, logits, drafted, ones).any()
    free = grouped(guarded, guarded=False)
    assert decide([free] * 4, logits, drafted, ones).all()


@pytest.mark.parametrize("temperature", [0.01, 1.0, 5.0])
def test_the_end_of_a_thinking_budget_wins_over_a_rule(temperature: float) -> None:
    """vLLM sets the logit of its end to 1e9, in runner V2 after the rule has forced a row, in V1
    before that, where logits are divided already."""
    ended = torch.tensor([[10.0, 9.5, 1e9]])
    later = torch.where(ended < 1e9, force(torch.tensor([TIE]), *ONE_FORCED), ended) / temperature
    for logits in (later, force(ended / temperature, *ONE_FORCED)):
        assert logits.softmax(-1)[0].tolist() == [0.0, 0.0, 1.0]
