"""What a verification decides, before anything is measured: the common form of greedy and sampled drafts."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Places(NamedTuple):
    """The target's side of a step, at each of the N + 1 nodes."""

    logits: Tensor  # [N + 1, V] float32, raw
    law: Tensor  # [N + 1, V] p
    soft: Tensor  # [N + 1, V] p; softmax(z) at temperature 0
    top_z: Tensor  # [N + 1, T] the largest logits, falling
    top_ids: Tensor  # [N + 1, T]
    own: Tensor  # [N + 1] the target's own draw after each node
    edge: Tensor  # [N + 1]
    u: Tensor  # [N + 1, 3] uniforms of the token after each node
    greedy: bool


class Decision(NamedTuple):
    """``p`` and ``law``: what a node's token and the token after it are measured by."""

    keep: Tensor  # bool [N]
    strict: Tensor  # bool [N]
    emit: Tensor  # [N + 1]
    forgiveness: Tensor  # [N]
    tv: Tensor  # [N + 1] float64
    kl: Tensor  # [N + 1] float64, nats
