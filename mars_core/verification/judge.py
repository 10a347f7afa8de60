"""From logits to an answer: the target's own draws, the rule's decision, and what is worth knowing about every node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from mars_core.rules.base import Rule
from mars_core.sampling import Use, draw, lowest_argmax, shown_law, target_law
from mars_core.types import DraftMode, Sampling
from mars_core.verification.decision import Decision, Places
from mars_core.verification.draft import Draft
from mars_core.verification.greedy import decide_greedy
from mars_core.verification.sampled import decide_sampled
from mars_core.verification.verdict import Meter

TOP = 5  # alternatives kept for each node
_EXCLUDED = -1e30  # in place of ln 0, so that 0 · ln 0 is 0


def judge(
    logits: Tensor, draft: Draft, rule: Rule, values: Mapping[str, float], sampling: Sampling, mode: DraftMode, u: Tensor,
    meter: bool = True,
) -> Tensor:  # fmt: skip
    """The answer, float64 in one dimension: what ``walk`` reads.

    logits [N + 1, V] float32; u [draft.depth + 1, 3] from this step's position on. At temperature 0 every draft is a greedy one.
    """
    places = _places(logits, draft, sampling, u)
    sampled = mode is DraftMode.SAMPLED and not places.greedy and draft.law is not None
    given = places, draft, rule, values
    decision = decide_sampled(*given, meter) if sampled else decide_greedy(*given)
    kind = (Meter.DISTANCES if sampled else Meter.SHARES) if meter else Meter.OFF
    basic = (
        _head(draft.size, kind, logits.device), draft.parents, decision.keep, decision.strict,
        draft.ids, places.own, decision.emit, places.top_z[:, 0],
    )  # fmt: skip
    plain = sampling.temperature in (0, 1) and sampling.top_k == 0 and sampling.top_p == 1
    return torch.cat([*basic, *_measures(places, draft, decision, plain)] if meter else basic)


def _places(logits: Tensor, draft: Draft, sampling: Sampling, u: Tensor) -> Places:
    law = target_law(logits, sampling)
    at = u if draft.is_chain else u[draft.depths]
    top_z, top_ids = _best(logits)
    soft = shown_law(logits, law, sampling)
    return Places(logits, law, soft, top_z, top_ids, draw(law, at[:, Use.DRAW]), at, sampling.temperature == 0)


def _best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The TOP largest logits, falling, and their ids; of equal ones the lowest id is first or second, as for argmax.

    At least two columns: a vocabulary of one token has no second, only -inf.
    """
    columns, left = [], logits
    for _ in range(2):
        id_ = lowest_argmax(left)[:, None]
        columns.append((left.gather(-1, id_), id_))
        left = left.scatter(-1, id_, -torch.inf)
    columns.append(left.topk(max(0, min(TOP, logits.shape[-1]) - 2)))
    return torch.cat([z for z, _ in columns], -1), torch.cat([ids for _, ids in columns], -1)


def _measures(places: Places, draft: Draft, decision: Decision, plain: bool) -> tuple[Tensor, ...]:
    """The rest of the answer: of the drafted tokens, of the places after them, and the wide fields. ``plain``: the shown law is
    softmax(z)."""
    logits, count = places.logits, draft.size
    likelihood, above = logits.log_softmax(-1), logits[:count] if draft.is_chain else logits[draft.parents]
    # Of the drafted tokens at their parents, of the emitted and the own ones at their places: numbers in the flattened tables.
    numbers = _numbers(count + 1, logits.device)
    flat = torch.cat([draft.ids[1:], decision.emit, places.own]).add_(
        torch.cat([draft.parents, numbers, numbers]), alpha=logits.shape[-1]
    )
    p, logprob = places.law.take(flat), likelihood.take(flat)
    rank = (
        (above > logits.take(flat[:count, None])).sum(-1),
        (logits > logits.gather(-1, decision.emit[:, None])).sum(-1),
    )
    log_soft = likelihood if plain else places.soft.log()
    end = 2 * count + 1
    return (
        p[:count], draft.q, rank[0] + 1, logprob[:count], decision.forgiveness,
        p[count:end], rank[1] + 1, logprob[count:end], places.u[:, Use.DRAW], places.u[:, Use.ACCEPT],
        _entropy(places.soft, log_soft), *places.edges(), p[end:],
        *decision.shift, places.top_ids.view(-1), places.top_z.view(-1), places.soft.gather(-1, places.top_ids).view(-1),
    )  # fmt: skip


def _entropy(law: Tensor, logarithms: Tensor) -> Tensor:
    """Of each row of a law, in nats; what the law excludes adds nothing."""
    terms: Tensor = torch.linalg.vecdot(law, logarithms.clamp(min=_EXCLUDED))
    return terms.neg_()


@cache
def _numbers(count: int, device: torch.device) -> Tensor:
    return torch.arange(count, device=device)


@cache
def _head(count: int, meter: Meter, device: torch.device) -> Tensor:
    """How an answer begins."""
    return torch.tensor([count, meter], dtype=torch.float64, device=device)
