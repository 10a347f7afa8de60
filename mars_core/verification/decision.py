"""What a verification decides, before anything is measured: the common form of greedy and sampled drafts."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mars_core.sampling import Drawn


class Places(NamedTuple):
    """The target's side of a step, at each of the N + 1 nodes."""

    logits: Tensor  # [N + 1, V] float32, raw
    p: Tensor  # [N + 1, V]; one-hot at temperature 0
    soft: Tensor  # [N + 1, V] p; softmax(z) at temperature 0
    top_z: Tensor  # [N + 1, T] the largest logits, falling
    top_ids: Tensor  # [N + 1, T]
    own: Tensor  # [N + 1] what the target draws after each node
    drawn: Drawn | None  # how; None at temperature 0, where own is the argmax
    u: Tensor  # [N + 1, 3] uniforms of the token after each node

    @property
    def greedy(self) -> bool:
        """Temperature 0."""
        return self.drawn is None


class Decision(NamedTuple):
    """What a rule says of a draft."""

    keep: Tensor  # bool [N]
    strict: Tensor  # bool [N]
    emit: Tensor  # [N + 1]
    forgiveness: Tensor  # [N]
    shift: dict[
        str, Tensor
    ]  # the columns from which TV and KL follow: see ``columns``; may be empty where the run is not metered
