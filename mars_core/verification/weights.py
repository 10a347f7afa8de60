"""What the distribution P of the token after a node makes of single tokens, on the device (sampled
and coupled drafts): P of the drafted and emitted ones, and how far any token is above its p."""

from __future__ import annotations

import torch
from torch import Tensor

from mars_core.rules.base import Rule
from mars_core.types import ShiftKind
from mars_core.verification.draft import Decision, FlatDrafts, Places, chain
from mars_core.verification.sampled import exact

DISTRIBUTION = "distribution"  # P after the drafted positions [N, V], if a decision computed it


def weights(
    places: Places, draft: FlatDrafts, rule: Rule, decision: Decision, inside: Tensor | None
) -> dict[str, Tensor]:
    """The columns mass and overshoot; nan where P is not known. ``inside``: bool [P], nodes after
    which the rule decides, and strict after others; None: all. Removes DISTRIBUTION from the
    columns of the decision."""
    distribution = decision.shift.pop(DISTRIBUTION, None)
    nodes = torch.cat([draft.parents, chain(len(places.p), places.p.device)[0]])
    tokens = torch.cat([draft.x, decision.emit])
    p = places.p[nodes, tokens].double()
    if distribution is None:
        known = rule.relaxes == 0 or rule.shift_kind(draft.is_chain) is ShiftKind.EXACT
        same = places.uniform.new_full(places.uniform.shape, 1.0 if known else torch.nan)
        return {"mass": p if known else p * torch.nan, "overshoot": same}
    end = every = exact(places.p)
    if rule.emits_top1:
        end = torch.zeros_like(every).scatter_(-1, places.top_ids[:, :1], 1.0)
        end = end if inside is None else torch.where(inside[:, None], end, every)
    emitted = torch.cat([distribution, end[draft.size :]])
    ratio = (emitted / every).nan_to_num(nan=0.0, posinf=torch.inf)
    mass, same = emitted[nodes, tokens], every[nodes, tokens]
    # p as it is where P is: other positions decide whether a distribution is computed
    return {"mass": torch.where(mass == same, p, mass), "overshoot": ratio.amax(-1)}
