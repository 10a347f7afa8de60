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
    plain = sampling.temperature in (0, 1) and sampling.top_k == 0 and sampling.top_p == 1
    integers, singles, doubles = _measures(places, draft, decision, plain) if meter else ((), (), ())
    groups = (
        (decision.keep, decision.strict),
        (draft.parents, draft.ids, places.own, decision.emit, *integers),
        (places.top_z[:, 0], *singles),
        doubles,
    )
    head = _head(draft.size, kind, places.top_z.shape[-1], logits.device)
    return torch.cat([head, *(torch.cat(group) for group in groups if group)])


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


def _measures(places: Places, draft: Draft, decision: Decision, plain: bool) -> tuple[tuple[Tensor, ...], ...]:
    """The fields that are metered, in the order of ``verdict``: integers, single and double floats. ``plain``: the shown law is
    softmax(z)."""
    logits, count = places.logits, draft.size
    likelihood, above = logits.log_softmax(-1), logits[:count] if draft.is_chain else logits[draft.parents]
    # Of the drafted tokens at their parents, of the emitted and the own ones at their places: numbers in the flattened tables.
    numbers = _numbers(count + 1, logits.device)
    flat = torch.cat([draft.ids[1:], decision.emit, places.own]).add_(
        torch.cat([draft.parents, numbers, numbers]), alpha=logits.shape[-1]
    )
    p, logprob, end = places.law.take(flat), likelihood.take(flat), 2 * count + 1
    entropy = _entropy(places.soft, likelihood if plain else places.soft.log())
    integers = (
        (above > logits.take(flat[:count, None])).sum(-1),
        (logits > logits.gather(-1, decision.emit[:, None])).sum(-1),
        places.top_ids.view(-1),
    )
    singles = (
        p[:count], draft.q, logprob[:count], p[count:end], logprob[count:end], entropy, p[end:], places.top_z.view(-1),
        places.soft.gather(-1, places.top_ids).view(-1),
    )  # fmt: skip
    doubles = decision.forgiveness, places.u[:, Use.DRAW], places.u[:, Use.ACCEPT], *places.edges(), *decision.shift
    return integers, singles, doubles


def _entropy(law: Tensor, logarithms: Tensor) -> Tensor:
    """Of each row of a law, in nats; what the law excludes adds nothing."""
    terms: Tensor = torch.linalg.vecdot(law, logarithms.clamp(min=_EXCLUDED))
    return terms.neg_()


@cache
def _numbers(count: int, device: torch.device) -> Tensor:
    return torch.arange(count, device=device)


@cache
def _head(count: int, meter: Meter, width: int, device: torch.device) -> Tensor:
    """How an answer begins."""
    return torch.tensor([count, meter, width], dtype=torch.float64, device=device)
