"""MARS at the seam of SGLang's verification: what a rule relaxes becomes what the target predicts.

SGLang's greedy verification follows, from each node, the child that has the target's own token
(``verify_tree_greedy_func``). The kernel needs no change for another rule: where the rule keeps a
drafted runner-up, that is the prediction. PROPOSAL.md has the patch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def relaxed_predictions(
    logits: Tensor,
    candidates: Tensor,
    next_token: Tensor,
    next_sibling: Tensor,
    theta: Tensor,
    most_children: int,
) -> Tensor:
    """Return the token that follows each node [B, N] under MARS at temperature 0: the runner-up
    where its logit is above ``theta`` of the best one, a child drafts it and none drafts the best.

    ``logits`` [B, N, V] raw float32; ``candidates`` [B, N] drafted ids, the root first;
    ``next_token`` and ``next_sibling`` [B, N] the first child and the next sibling of a node, -1
    for none; ``theta`` [B], 1 for strict requests; ``most_children`` of a node. Never synchronises.

    >>> one, none = torch.tensor([[1, -1]]), torch.tensor([[-1, -1]])
    >>> logits = torch.tensor([[[0.0, 9.0, 10.0], [0.0, 0.0, 5.0]]])
    >>> relaxed_predictions(logits, one.abs(), one, none, torch.tensor([0.85]), 1).tolist()
    [[1, 2]]
    """
    (first, second), (best, runner_up) = (part.unbind(-1) for part in logits.topk(2))
    relaxes = (first > 0) & (second / first > theta[:, None])
    child, drafts_best, drafts_second = next_token, *[torch.zeros_like(relaxes)] * 2
    for _ in range(most_children):
        there, at = child >= 0, child.clamp(min=0)
        drafted = candidates.gather(1, at)
        drafts_best = drafts_best | (there & (drafted == best))
        drafts_second = drafts_second | (there & (drafted == runner_up))
        child = torch.where(there, next_sibling.gather(1, at), child)
    return torch.where(relaxes & drafts_second & ~drafts_best, runner_up, best)
