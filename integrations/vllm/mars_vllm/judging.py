"""The decision on drafted tokens, on the device and without synchronisation, by the rules of
``mars_core``.

A relaxed token is forced: its logit becomes so large that the row's softmax is one-hot there, so
that vLLM's rejection sampler accepts it. Rows that are not forced are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.rules import RULES, WHERE, Evidence
from mars_core.rules.expression import parse
from mars_vllm.arguments import COUNT, RequestRule, RuleGroup, needs_p
from mars_vllm.places import NO_SPAN, follow

# Columns of a request in a table: the index of its group, at most two parameters, the span of its
# thinking phase.
WIDTH = 5
NOBODY = (-1.0, 0.0, 0.0, *NO_SPAN)
# Far above all logits, also divided by vLLM's smallest temperature, 0.01, and below what ends
# thinking at the end of its budget in vLLM, 1e9.
_FORCED = 1e6


class Best(NamedTuple):
    """The two best logits of each row; of equal ones the lower id first, as for argmax."""

    z: Tensor  # [P, 2]
    ids: Tensor  # [P, 2]


def two_best(logits: Tensor) -> Best:
    """Return the two best from raw logits [P, V]."""
    z, ids = logits.topk(2, dim=-1)
    return Best(z, torch.where(z[:, :1] == z[:, 1:], ids.sort(dim=-1).values, ids))


def entry(wanted: RequestRule | None, groups: Sequence[RuleGroup]) -> tuple[float, ...]:
    """Return the row of a request in a table, ``WIDTH`` numbers."""
    if wanted is None:
        return NOBODY
    values = [wanted.values[parameter.name] for parameter in wanted.rule.parameters]
    first = (float(groups.index(wanted.group)), *values, 0.0, 0.0)[:3]
    return (*first, *(wanted.span or NO_SPAN))


class Step:
    """The drafted tokens of one step, and the decision on them.

    groups: those of the table; no None is judged. table: float64 [P, ≥ WIDTH], begins with the
    entry of each row's request; drafted: int64 [P], −1 where a row has no drafted token; local: [P],
    the rows of the same request before it; places: of each row's request before the step, [P, 2]
    (``places``).
    """

    def __init__(
        self,
        groups: Sequence[RuleGroup | None],
        table: Tensor,
        drafted: Tensor,
        local: Tensor,
        places: Tensor,
    ) -> None:
        self.groups, self.table, self.drafted, self.local = groups, table, drafted, local
        self.best = Best(drafted, drafted)
        self.relaxed = drafted < -1
        self._whole = drafted >= 0  # rows of which no token is excluded
        self._places = (
            follow(places, table[:, 3:WIDTH], drafted, local)
            if any(group.placed for group in groups if group)
            else places
        )

    def judge(self, raw: Tensor) -> None:
        """Judge on raw logits, float32 [P, V]; a token that a grammar excludes has −inf there."""
        self.best = two_best(raw)
        if any(group.guarded for group in self.groups if group):
            self._whole = raw.amin(-1) > -torch.inf
        self._decide(raw, tempered=False)

    def temper(self, processed: Tensor) -> None:
        """Judge rules that read p above temperature 0, on logits that vLLM draws from, float32
        [P, V]."""
        self._decide(processed, tempered=True)

    def _decide(self, logits: Tensor, tempered: bool) -> None:
        for index, group in enumerate(self.groups):
            if group and group.tempered is tempered:
                rows = (self.table[:, 0] == index) & (self.drafted >= 0) & self._allowed(group)
                self.relaxed |= rows & _relaxed(group, self.table, logits, self.best, self.drafted)

    def _allowed(self, group: RuleGroup) -> Tensor:
        """Return bool [P]: rows that are not protected, in scope and under no grammar."""
        ids = _tensor(group.protected, self.drafted.device)
        allowed = ~(self.drafted[:, None] == ids).any(-1)
        if group.guarded:
            allowed &= (self._places[:, 1] > 0) & self._whole
        if group.scope:
            position, thinking = self._places.split(1, -1)
            known = {"position": position, "thinking": thinking}
            allowed &= WHERE.within(parse(group.scope).value(known))[:, 0] > 0
        return allowed


@lru_cache(maxsize=64)
def _tensor(ids: tuple[int, ...], device: torch.device) -> Tensor:
    """Return one copy to the device for each set of ids. Do not write to it."""
    return torch.tensor(ids, dtype=torch.int64, device=device)


def _relaxed(
    group: RuleGroup, table: Tensor, logits: Tensor, best: Best, drafted: Tensor
) -> Tensor:
    rule = RULES[group.rule]
    nothing = logits.new_zeros(()).expand_as(logits)
    p = logits.softmax(-1) if needs_p(group.rule) else nothing
    x = drafted.clamp(min=0)[:, None]
    one = torch.ones_like(x, dtype=logits.dtype)
    evidence = Evidence(
        logits=logits,
        distribution=nothing if group.greedy else p,
        soft=p,
        drafter=None,
        top_z=best.z,
        top_ids=best.ids,
        at=None,
        x=x,
        q=one,
        confidence=one,
        tried=torch.zeros_like(one),
        greedy=group.greedy,
    )
    values = {
        parameter.name: table[:, 1 + i : 2 + i] for i, parameter in enumerate(rule.parameters)
    }
    if COUNT in values:
        values[COUNT] = group.top  # type: ignore[assignment]
    # A rule takes tensors [P, 1] for its parameters as well as numbers.
    if rule.chance is not None:
        keeps = (_uniform(best, drafted)[:, None] < rule.chance(values))[:, 0]  # type: ignore[arg-type]
    else:
        keeps = rule.accept(evidence, values)[:, 0] >= 1  # type: ignore[arg-type]
    certain = drafted == best.ids[:, 0] if group.greedy else evidence.p[:, 0] >= 1
    return keeps & ~certain


def _uniform(best: Best, drafted: Tensor) -> Tensor:
    """Hashes of the two best tokens, their logits and the drafted token, in [0, 1), float64 [P]: the
    same in every batch, and without vLLM's random numbers."""
    bits = best.z.float().contiguous().view(torch.int32).long()
    word = drafted
    for part in (*bits.unbind(-1), *best.ids.unbind(-1)):
        word = (word ^ part) * 0x2545F4914F6CDD1D  # int64 multiplication wraps
        word = word ^ (word >> 32)
    return (word & (2**53 - 1)).double() * 2.0**-53


def force(logits: Tensor, drafted: Tensor, chosen: Tensor) -> Tensor:
    """``logits`` [P, V], changed in place: the rows of ``chosen`` [P] accept their drafted token
    and no other."""
    index = drafted.clamp(min=0)[:, None]
    return logits.scatter_(1, index, logits.gather(1, index).masked_fill(chosen[:, None], _FORCED))
