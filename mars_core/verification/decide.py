"""From logits to the result rows: the target's draws, the rule's decision, and the columns of
every node and token, for the drafts of one text or of several. What is decided about a text does
not depend on the others."""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.rules.base import WHERE
from mars_core.rules.strict import STRICT
from mars_core.sampling import (
    displayed_distribution,
    draw,
    lowest_argmax,
    row_sums,
    target_distribution,
)
from mars_core.types import DraftMode, Sampling, numbers
from mars_core.types.row import Contents
from mars_core.verification.case import Case, Decision, Known, TargetValues, Terms
from mars_core.verification.columns import pack
from mars_core.verification.draft import Draft, FlatDrafts, chain, in_order
from mars_core.verification.greedy import decide_greedy
from mars_core.verification.sampled import decide_sampled
from mars_core.verification.shift import no_shift
from mars_core.verification.state import RunState, state_of

TOP = 5  # alternatives per node
_EXCLUDED = -1e30  # replaces ln 0, so that 0 · ln 0 is 0


def decide(terms: Terms, draft: Draft, known: Known) -> Tensor:
    """Return the result row, float64 [M], for ``walk``; of drafts for A texts [A, M]. At
    temperature 0, and from a drafter without probabilities, every draft is greedy."""
    mode, sampling, has_q = terms.mode, terms.sampling, draft.distribution is not None
    if sampling.temperature == 0 or not (
        has_q or (mode is DraftMode.COUPLED and not draft.is_chain)
    ):
        mode = DraftMode.GREEDY
    count = draft.ids.numel() // (draft.size + 1)
    # a single drafted token is decided twice where its row is summed: that of one row is rounded
    # otherwise (row_sums)
    summed = mode is not DraftMode.GREEDY or not terms.rule.lossless
    texts = 2 if summed and count * draft.size == 1 else count
    drafts = FlatDrafts.of(draft, texts, known.logits.shape[-1])
    raw = None if known.raw is None else in_order(known.raw.expand(texts, -1, -1))
    target = _target_values(known, draft, texts, sampling)
    runs = target.uniform.new_zeros(len(RunState._fields)) if known.run is None else known.run
    target = target._replace(state=state_of(terms, draft, target, runs.double().expand(texts, -1)))

    measured = terms.telemetry and not terms.rule.lossless
    case = Case(target, drafts, terms.rule, numbers(terms.parameters), mode, measured)
    decision = _decided(case, terms.telemetry)
    if target.state is not None and WHERE.name in target.state.parameters:
        inside = target.state.parameters[WHERE.name][:, 0] > 0
        strict = _decided(case._replace(rule=STRICT, values={}, measured=False), terms.telemetry)
        decision = decision.only(inside, drafts.parents, strict)
    contents, columns = _columns(terms, draft, case, decision, raw)
    rows = pack(columns, contents, draft.size, target.top_z.shape[-1], texts)
    return rows[:count].view(*draft.ids.shape[:-1], -1)


def _decided(case: Case, telemetry: bool) -> Decision:
    by_mode = decide_sampled if case.mode is DraftMode.SAMPLED else decide_greedy
    decision = by_mode(case)
    if case.measured or not telemetry:
        return decision
    return decision._replace(shift=no_shift(case, decision.emit))


def _columns(
    terms: Terms, draft: Draft, case: Case, decision: Decision, raw: Tensor | None
) -> tuple[Contents, dict[str, Tensor]]:
    """Return what the rows contain, and their columns."""
    target, drafts, state = case.target, case.draft, decision.state
    contents = Contents.ALWAYS
    columns = {
        "keep": decision.keep,
        "strict": decision.strict,
        "parent": draft.parents.expand(drafts.texts, -1).flatten(),
        "id": drafts.ids,
        "own": target.target_ids,
        "emit": decision.emit,
        "z1": target.top_z[:, 0],
    }
    if terms.telemetry:
        contents |= Contents.TELEMETRY
        columns |= _measures(target, drafts, decision, terms.sampling, raw)
        if target.drawn is not None:
            contents |= Contents.DRAWS
            columns["edge"] = target.drawn.gap()
        if target.state is not None and target.state.parameters:
            contents |= Contents.VARYING
            columns["parameter"] = next(iter(target.state.parameters.values()))[:, 0]
        if draft.odds is not None and case.mode is DraftMode.COUPLED:
            contents |= Contents.ODDS
            columns["odds"] = draft.odds.flatten()
        if raw is not None:
            contents |= Contents.PROCESSED
            columns["raw_z1"], columns["raw_z2"] = raw.gather(-1, target.top_ids[:, :2]).T
    if state is not None and state.charge is not None:
        contents |= Contents.LEDGER
        columns["regret"], columns["charge"] = state.regret[:, 0], state.charge[:, 0]
    return contents, columns


def _target_values(known: Known, draft: Draft, texts: int, sampling: Sampling) -> TargetValues:
    """Return the values at the nodes of ``texts`` texts, or of one text as often."""

    def at_nodes(values: Tensor) -> Tensor:
        """Random numbers of the nodes, by their depths."""
        if draft.is_chain:
            return in_order(values[:, : draft.size + 1])
        return in_order(values[chain(texts, values.device)[0][:, None], draft.depths])

    logits, chance = in_order(known.logits.expand(texts, -1, -1)), known.chance
    p, noise, drawn = target_distribution(logits, sampling), logits[:, :0], None
    top_z, top_ids = _best(logits)
    if chance.noise is not None:
        noise = at_nodes(chance.noise.expand(texts, -1, -1))
        drawn = draw(p, noise)
    return TargetValues(
        logits,
        p,
        displayed_distribution(logits, p, sampling),
        top_z,
        top_ids,
        top_ids[:, 0] if drawn is None else drawn.ids,
        drawn,
        at_nodes(chance.uniform.expand(texts, -1)),
        noise,
        {name: each.expand(texts, *each.shape[-2:]) for name, each in known.signals.items()},
    )


def _best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the TOP largest logits, descending, and their ids; of equal logits the lowest id is
    first or second, as for argmax. At least two columns: with a vocabulary of one token the second
    is -inf."""
    columns, left = [], logits
    for _ in range(2):
        id_ = lowest_argmax(left)[:, None]
        columns.append((left.gather(-1, id_), id_))
        left = left.scatter(-1, id_, -torch.inf)
    columns.append(left.topk(max(0, min(TOP, logits.shape[-1]) - 2)))
    return torch.cat([z for z, _ in columns], -1), torch.cat([ids for _, ids in columns], -1)


def _measures(
    target: TargetValues,
    draft: FlatDrafts,
    decision: Decision,
    sampling: Sampling,
    raw: Tensor | None,
) -> dict[str, Tensor]:
    """Return the columns that exist only with ``telemetry``."""
    logits, count, size = target.logits, draft.size, target.logits.shape[-1]
    likelihood = (logits if raw is None else raw).log_softmax(-1)
    at = draft.tokens(decision.emit, size)
    z, before = (
        logits.take(at)[:, None],
        logits[:count] if draft.is_chain else logits[draft.parents],
    )
    plain = raw is None and sampling in (Sampling(), Sampling(1.0))  # soft is softmax(z)
    logarithms = likelihood if plain else target.soft.log()
    return {
        "rank": torch.cat([before > z[:count], logits > z[count:]]).sum(-1).add_(1),
        "p": target.p.take(at),
        "q": draft.q,
        "logprob": likelihood.take(at),
        "forgiveness": decision.forgiveness,
        "coin": target.uniform,
        "entropy": row_sums(target.soft * logarithms.clamp(min=_EXCLUDED)).neg_(),
        "top_ids": target.top_ids.view(-1),
        "top_z": target.top_z.view(-1),
        "top_p": target.soft.gather(-1, target.top_ids).view(-1),
        **decision.shift,
    }
