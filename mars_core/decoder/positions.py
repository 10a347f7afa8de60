"""Positions of the tokens of a pass: cache slots, rotary positions and masks.

``start`` is the position of a pass's first token: an int on the host or, in a captured pass, a
0-dimensional tensor on the device. G: query heads that share a key head; a mask repeats each row G
times.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Start = int | Tensor


class PassLayout(NamedTuple):
    """Positions of one pass: n tokens that attend to the first ``width`` positions of the cache."""

    start: Start
    slots: Tensor  # [n] cache positions that are written
    positions: Tensor  # [n] positions in the text; [1] if all tokens share one
    width: int
    ends_at_width: bool  # a chain that ends at ``width``: transformers' default without a mask
    full: Tensor | None  # [n · G, width] additive; None: causal
    windowed: Tensor | None  # the same for layers with a sliding window


class PositionIndex:
    """For a cache of ``capacity`` positions. ``like``: a tensor with the dtype of masks, on the
    device. ``window``: of the layers with a sliding window. A pass attends over the positions up to
    its last token (not counting the last ``padding`` ones), rounded up to a multiple of ``step``,
    or, with ``full_width``, over all of it, so that its shape does not depend on its position."""

    def __init__(
        self,
        capacity: int,
        like: Tensor,
        *,
        group: int = 1,
        window: int | None = None,
        step: int = 1,
    ) -> None:
        self.capacity = capacity
        self._group, self._window, self._step = group, window, step
        self._slots = torch.arange(capacity, device=like.device)
        self._rows = self._slots.repeat_interleave(group)
        self._zero = like.new_zeros(())
        self._lowest = torch.full_like(self._zero, torch.finfo(like.dtype).min)

    def chain(self, start: Start, count: int, *, full_width: bool, padding: int = 0) -> PassLayout:
        """Positions of ``count`` consecutive tokens."""
        ends_at_width = self._step == 1 and not full_width
        slots, width = self._slots[:count] + start, self._width(start, count - padding, full_width)
        bare = ends_at_width and (count == 1 or width == count)
        if bare and (self._window is None or width <= self._window):
            return PassLayout(start, slots, slots, width, ends_at_width, None, None)
        rows, columns = (self._rows[: count * self._group] + start)[:, None], self._slots[:width]
        visible = columns <= rows
        full = None if bare else self._additive(visible)
        windowed = (
            full
            if self._window is None
            else self._additive(visible & (rows - columns < self._window))
        )
        return PassLayout(start, slots, slots, width, ends_at_width, full, windowed)

    def tree(
        self, start: Start, depths: Tensor | int, sees: Tensor, *, full_width: bool
    ) -> PassLayout:
        """Tokens at ``depths`` [n] below ``start``, or all at the same depth. They attend to the
        positions before ``start`` and, of the m ≥ n positions from there on, of which the last n
        are these tokens, to those in ``sees`` bool [n, m]. With a sliding window m = n."""
        count, ahead = sees.shape
        width = self._width(start, ahead, full_width)
        columns, after = self._slots[:width], self._slots[:ahead] + start
        slots, positions = after[ahead - count :], self._slots[:1] + start + depths
        visible = (columns < start).expand(count, width).index_copy(1, after, sees)
        full = self._additive(self._grouped(visible))
        if self._window is None:
            return PassLayout(start, slots, positions, width, False, full, full)
        assert count == ahead, "with a sliding window, the positions of all columns must be known"
        near = positions[:, None] - columns.index_copy(0, after, positions) < self._window
        return PassLayout(
            start,
            slots,
            positions,
            width,
            False,
            full,
            self._additive(self._grouped(visible & near)),
        )

    def _width(self, start: Start, count: int, full_width: bool) -> int:
        if full_width:
            return self.capacity
        assert isinstance(start, int), "a captured pass attends over the full cache"
        return -(-(start + count) // self._step) * self._step

    def _grouped(self, visible: Tensor) -> Tensor:
        return visible if self._group == 1 else visible.repeat_interleave(self._group, 0)

    def _additive(self, visible: Tensor) -> Tensor:
        """bool → 0 where it is true, else the lowest number; contiguous, newly allocated."""
        return torch.where(visible, self._zero, self._lowest)
