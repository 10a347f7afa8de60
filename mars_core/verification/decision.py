"""What a verification decides, before anything is measured: the common form of greedy and sampled drafts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mars_core.sampling import Drawn


class Places(NamedTuple):
    """The target's side of a step, at each of the N + 1 nodes."""

    logits: Tensor  # [N + 1, V] float32, raw
    law: Tensor  # [N + 1, V] p
    soft: Tensor  # [N + 1, V] p; softmax(z) at temperature 0
    top_z: Tensor  # [N + 1, T] the largest logits, falling
    top_ids: Tensor  # [N + 1, T]
    drawn: Drawn
    u: Tensor  # [N + 1, 3] uniforms of the token after each node
    greedy: bool

    def edges(self) -> tuple[Tensor, Tensor]:
        """Of the interval from which each own token was drawn: the uniform in it and its upper end, both [N + 1]; at temperature 0,
        where nothing is drawn, infinite."""
        if self.greedy:
            return (torch.full_like(self.u[:, 0], torch.inf),) * 2
        upper = self.drawn.cdf.gather(-1, self.own[:, None])[:, 0]
        return self.drawn.u[:, 0], upper

    @property
    def own(self) -> Tensor:
        """The target's own draw after each node, [N + 1]."""
        return self.drawn.ids


class Shares(NamedTuple):
    """What the law P after each node is made of: see ``shift``."""

    share: Tensor  # [N] of each drafted token
    rest: Tensor  # [N + 1] a Rest, as a number


class Distances(NamedTuple):
    """Between the law P after each node and p."""

    tv: Tensor  # [N + 1] float64
    kl: Tensor  # [N + 1] float64, nats


class Decision(NamedTuple):
    """What a rule says of a draft."""

    keep: Tensor  # bool [N]
    strict: Tensor  # bool [N]
    emit: Tensor  # [N + 1]
    forgiveness: Tensor  # [N]
    shift: Shares | Distances
