"""From logits to rows: the target's own draws, the rule's decision, and what is worth knowing about every node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from mars_core.rules.base import Rule
from mars_core.sampling import Use, draw, lowest_argmax, shown_law, target_law
from mars_core.types import DraftMode, Sampling
from mars_core.verification.decision import Decision, Places
from mars_core.verification.draft import TOP, Draft
from mars_core.verification.greedy import decide_greedy
from mars_core.verification.sampled import decide_sampled


def judge(
    logits: Tensor, draft: Draft, rule: Rule, values: Mapping[str, float], sampling: Sampling, mode: DraftMode, u: Tensor,
    meter: bool = True,
) -> Tensor:  # fmt: skip
    """Columns [fields, N + 1] float64: the fields of ``Node``, or without ``meter`` those before ``p``.

    logits [N + 1, V] float32; u [draft.depth + 1, 3] from this step's position on. At temperature 0 every draft is a greedy one.
    """
    places = _places(logits, draft, sampling, u)
    sampled = mode is DraftMode.SAMPLED and not places.greedy and draft.law is not None
    decision = (decide_sampled if sampled else decide_greedy)(places, draft, rule, values, meter)
    drafted = _rooted(torch.stack([draft.parents, decision.keep, decision.strict]).double(), _ROOT)
    basic = [drafted, torch.stack([draft.ids, places.own, decision.emit, places.top_z[:, 0].double()])]
    return torch.cat([*basic, *_measures(places, draft, decision)] if meter else basic)


_ROOT = (-1.0, 1.0, 1.0)  # parent, keep, strict of the root
_ROOT_MEASURES = (1.0, 1.0, 1.0, 0.0, 0.0)  # its p, q, rank, logprob, forgiveness


def _places(logits: Tensor, draft: Draft, sampling: Sampling, u: Tensor) -> Places:
    law = target_law(logits, sampling)
    at = u[draft.depths]
    own, edge = draw(law, at[:, Use.DRAW])
    top_z, top_ids = _best(logits)
    soft = shown_law(logits, law, sampling)
    return Places(logits, law, soft, top_z, top_ids, own, edge, at, sampling.temperature == 0)


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


def _measures(places: Places, draft: Draft, decision: Decision) -> tuple[Tensor, ...]:
    """The fields from ``p`` on: of the drafted tokens, of the places after them, and the wide ones."""
    logits, parents, x, emit = places.logits, draft.parents, draft.ids[1:], decision.emit[:, None]
    z_x, z_emit, likelihood = logits[parents, x], logits.gather(-1, emit), logits.log_softmax(-1)
    above = logits[: draft.size] if draft.is_chain else logits[parents]
    edge = places.top_z[:, 0] - places.top_z[:, 1] if places.greedy else places.edge
    drafted = [
        places.law[parents, x], draft.q, 1 + (above > z_x[:, None]).sum(-1), likelihood[parents, x], decision.forgiveness
    ]  # fmt: skip
    after = [
        places.law.gather(-1, emit)[:, 0], 1 + (logits > z_emit).sum(-1), likelihood.gather(-1, emit)[:, 0],
        places.u[:, Use.DRAW], places.u[:, Use.ACCEPT], edge, _entropy(places.soft), decision.tv, decision.kl,
    ]  # fmt: skip
    wide = (places.top_ids, places.top_z, places.soft.gather(-1, places.top_ids))
    return _rooted(torch.stack(drafted).double(), _ROOT_MEASURES), torch.stack(after), *(each.T for each in wide)


def _entropy(law: Tensor) -> Tensor:
    """Of each row of a law, in nats; what the law excludes adds nothing."""
    return -(law * law.log()).nan_to_num(0.0).sum(-1)


def _rooted(values: Tensor, root: tuple[float, ...]) -> Tensor:
    """Values [fields, N] of the drafted nodes, with those of the root before them."""
    return torch.cat([_column(root, values.device), values], -1)


@cache
def _column(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=device)[:, None]
