"""From logits to the result row: the target's draws, the rule's decision, and the columns of
every node and token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from mars_core.rules.base import WHERE, Rule
from mars_core.rules.strict import STRICT
from mars_core.sampling import (
    Chance,
    displayed_distribution,
    draw,
    lowest_argmax,
    target_distribution,
)
from mars_core.types import DraftMode, Parameters, Sampling, numbers
from mars_core.verification.columns import Contents, pack
from mars_core.verification.draft import Decision, Draft, Places, chain
from mars_core.verification.greedy import decide_greedy
from mars_core.verification.sampled import decide_sampled
from mars_core.verification.shift import row_sums
from mars_core.verification.state import Span, with_state
from mars_core.verification.weights import weights

TOP = 5  # alternatives per node
_EXCLUDED = -1e30  # replaces ln 0, so that 0 · ln 0 is 0


def judge(
    logits: Tensor,
    draft: Draft,
    rule: Rule,
    values: Parameters,
    sampling: Sampling,
    mode: DraftMode,
    chance: Chance,
    telemetry: bool = True,
    raw: Tensor | None = None,
    run: Tensor | None = None,
    span: Span | None = None,
    score: Tensor | None = None,
) -> Tensor:
    """The result row, float64 [M], for ``walk``. logits [N + 1, V] float32, ``raw``: before
    processors, None where there are none; ``chance``: of draft.depth + 1 positions from this step's
    on; ``run``: numbers of a RunState, None of the beginning; ``score`` [N + 1, 1]: of the pair's
    classifier after each node. At temperature 0, and from a drafter without probabilities, every
    draft is greedy."""
    places = _places(logits, draft, sampling, chance)._replace(score=score)
    places = with_state(places, draft, rule, values, run, span)
    sampled = mode is DraftMode.SAMPLED and not places.greedy and draft.distribution is not None
    coupled = (
        mode is DraftMode.COUPLED
        and not places.greedy
        and (draft.distribution is not None or not draft.is_chain)
    )

    def decide(rule: Rule, values: Mapping[str, float]) -> Decision:
        if sampled:
            return decide_sampled(places, draft, rule, values, telemetry)
        return decide_greedy(places, draft, rule, values, coupled, telemetry)

    decision, state = decide(rule, numbers(values)), places.state
    inside = None
    if state is not None and WHERE.name in state.parameters:
        inside = state.parameters[WHERE.name][:, 0] > 0
        decision = decision.only(inside, draft.parents, decide(STRICT, {}), places.p)
    columns = {
        "keep": decision.keep,
        "strict": decision.strict,
        "parent": draft.parents,
        "id": draft.ids,
        "own": places.target_ids,
        "emit": decision.emit,
        "z1": places.top_z[:, 0],
    }
    contents = Contents.ALWAYS
    if telemetry:
        measured = Contents.DISTANCES if sampled or coupled else Contents.SHARES
        contents = Contents.TELEMETRY | measured
        contents |= Contents.ALWAYS if places.greedy else Contents.DRAWS
        if sampled or coupled:
            columns |= weights(places, draft, rule, decision, inside)
        columns |= _measures(places, draft, decision, sampling, raw)
        for content, more in _optional(places, draft, raw):
            contents |= content
            columns |= more
    if decision.state is not None and decision.state.charge is not None:
        contents |= Contents.LEDGER
        columns["regret"] = decision.state.regret[:, 0]
        columns["charge"] = decision.state.charge[:, 0]
    return pack(columns, contents, draft.size, places.top_z.shape[-1])


def _optional(
    places: Places, draft: Draft, raw: Tensor | None
) -> Iterator[tuple[Contents, dict[str, Tensor]]]:
    """Columns that exist with ``telemetry`` in some steps only."""
    if places.state is not None and places.state.parameters:
        first = next(iter(places.state.parameters.values()))
        yield Contents.VARYING, {"parameter": first[:, 0]}
    if draft.odds is not None:
        yield Contents.ODDS, {"odds": draft.odds}
    if raw is not None:
        best, second = raw.gather(-1, places.top_ids[:, :2]).T
        yield Contents.PROCESSED, {"raw_z1": best, "raw_z2": second}


def _places(logits: Tensor, draft: Draft, sampling: Sampling, chance: Chance) -> Places:
    p, uniform = target_distribution(logits, sampling), chance.uniform
    noise = logits[:, :0] if chance.noise is None else chance.noise
    if not draft.is_chain:
        uniform, noise = (
            uniform[draft.depths],
            noise if chance.noise is None else noise[draft.depths],
        )
    top_z, top_ids = _best(logits)
    drawn = None if chance.noise is None else draw(p, noise)
    target_ids = top_ids[:, 0] if drawn is None else drawn.ids
    return Places(
        logits,
        p,
        displayed_distribution(logits, p, sampling),
        top_z,
        top_ids,
        target_ids,
        drawn,
        uniform,
        noise,
    )


def _best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The TOP largest logits, descending, and their ids; of equal logits the lowest id is first or
    second, as for argmax. At least two columns: with a vocabulary of one token the second is
    -inf."""
    columns, left = [], logits
    for _ in range(2):
        id_ = lowest_argmax(left)[:, None]
        columns.append((left.gather(-1, id_), id_))
        left = left.scatter(-1, id_, -torch.inf)
    columns.append(left.topk(max(0, min(TOP, logits.shape[-1]) - 2)))
    return torch.cat([z for z, _ in columns], -1), torch.cat([ids for _, ids in columns], -1)


def _measures(
    places: Places, draft: Draft, decision: Decision, sampling: Sampling, raw: Tensor | None
) -> dict[str, Tensor]:
    """The columns that exist only with ``telemetry``."""
    logits, count, size = places.logits, draft.size, places.logits.shape[-1]
    likelihood, numbers = (
        (logits if raw is None else raw).log_softmax(-1),
        chain(count, logits.device)[1],
    )
    # The drafted tokens at their parents, then the emitted ones at their nodes: positions in the
    # flattened [N + 1, V].
    at = torch.cat([draft.ids[1:], decision.emit]).add_(
        torch.cat([draft.parents, numbers]), alpha=size
    )
    z, before = (
        logits.take(at)[:, None],
        logits[:count] if draft.is_chain else logits[draft.parents],
    )
    plain = raw is None and sampling in (Sampling(), Sampling(1.0))  # soft is softmax(z)
    logarithms = likelihood if plain else places.soft.log()
    columns = {
        "rank": torch.cat([before > z[:count], logits > z[count:]]).sum(-1).add_(1),
        "p": places.p.take(at),
        "q": draft.q,
        "logprob": likelihood.take(at),
        "forgiveness": decision.forgiveness,
        "coin": places.uniform,
        "entropy": row_sums(places.soft * logarithms.clamp(min=_EXCLUDED)).neg_(),
        "top_ids": places.top_ids.view(-1),
        "top_z": places.top_z.view(-1),
        "top_p": places.soft.gather(-1, places.top_ids).view(-1),
        **decision.shift,
    }
    if places.drawn is not None:
        columns["edge"] = places.drawn.gap()
    return columns
