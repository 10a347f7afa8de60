"""Positions of the tokens of a pass: cache slots, rotary positions and masks.

A pass reads the same number of tokens, n, of A texts, a row each. A cache holds every text in a
slot of its own, of ``capacity`` positions. G: query heads that share a key head; a mask repeats
each token G times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Start = int | Tensor


class Rows(NamedTuple):
    """The texts of a pass: their slots, ascending, and the position of each one's first token, on
    the host and on the device. A captured pass knows none on the host."""

    slots: Sequence[int]
    starts: Sequence[int] | None
    on_device: Tensor  # [A]

    @staticmethod
    def one(start: int, slot: int = 0, device: torch.device | None = None) -> Rows:
        """Return the rows of a single text."""
        return Rows((slot,), (start,), torch.tensor([start], device=device))

    def start(self, row: int) -> Start:
        return self.on_device[row] if self.starts is None else self.starts[row]

    def later(self, by: int) -> Rows:
        """Return the same texts, ``by`` tokens further."""
        starts = None if self.starts is None else [start + by for start in self.starts]
        return Rows(self.slots, starts, self.on_device + by)

    def part(self, at: slice) -> Rows:
        starts = None if self.starts is None else self.starts[at]
        return Rows(self.slots[at], starts, self.on_device[at])


class PassSegment(NamedTuple):
    """Tokens of a pass that attend over the same number of positions: some of the rows, in
    neighbouring slots, and some of the tokens of each."""

    rows: slice
    slots: slice
    tokens: slice
    width: int
    full: Tensor | None = None  # [rows, 1, tokens · G, width] additive; None: causal
    windowed: Tensor | None = None  # the same for layers with a sliding window

    @property
    def region(self) -> tuple[slice, slice]:
        """Rows and tokens, for a tensor [A, n, ...]."""
        return self.rows, self.tokens


class Trail(NamedTuple):
    """Where in the cache the tokens before each of A · n tokens stand, for kernels."""

    roots: Tensor  # [A · n] the first position that is in ``places``
    bases: Tensor  # [A · n] the first entry of its slot, from which the others are counted
    places: Tensor  # [A, n, m] entries of the positions from the root on, counted from it


class PassLayout(NamedTuple):
    """Positions of one pass over [A, n] tokens."""

    entries: Tensor  # [A · n] positions that are written, counted over all slots
    positions: Tensor  # [A, n] positions in the texts
    segments: Sequence[PassSegment]  # all tokens, in the order of rows
    start: Start  # of the first row
    ends_at_width: bool  # a chain that ends at its width: transformers' default without a mask
    trail: Trail | None = None  # instead of segments


class PositionIndex:
    """For a cache of ``slots`` times ``capacity`` positions. ``like``: a tensor with the dtype of
    masks, on the device. ``window``: of the layers with a sliding window. A token attends over the
    positions up to the multiple of ``step`` after it, or, with ``full_width``, over all of its
    slot, so that the shape of a pass does not depend on its position. ``trails``: layouts of steps
    are for kernels, which need no shape."""

    def __init__(
        self,
        capacity: int,
        like: Tensor,
        *,
        slots: int = 1,
        group: int = 1,
        window: int | None = None,
        step: int = 1,
        trails: bool = False,
    ) -> None:
        self.capacity, self._trails = capacity, trails
        self._group, self._window, self._step = group, window, step
        self._columns = torch.arange(capacity, device=like.device)
        self._bases = torch.arange(slots, device=like.device) * capacity
        self._known: dict[tuple[int, ...], Tensor] = {}
        self._zero = like.new_zeros(())
        self._lowest = torch.full_like(self._zero, torch.finfo(like.dtype).min)

    def chain(
        self, rows: Rows, count: int, *, full_width: bool, padding: int = 0, prompt: bool = False
    ) -> PassLayout:
        """Positions of ``count`` consecutive tokens of each row, the last ``padding`` of them
        without use. Tokens before the beginning of a text count as its first one."""
        positions, entries = self._entries(rows, count)
        if self._trails and not prompt:  # no token has others than those at their positions
            trail = self._trail(rows, positions + 1, positions[..., :0, None])
            return PassLayout(entries, positions, (), rows.start(0), False, trail)
        bare = self._step == 1 and not full_width
        segments = []
        for segment in self._segments(rows, count, count - padding, full_width):
            tokens = segment.tokens.stop - segment.tokens.start
            if bare and (tokens == 1 or segment.width == tokens):
                unlimited = self._window is None or segment.width <= self._window
                windowed = None if unlimited else self._masks(segment, positions)[1]
                segments.append(segment._replace(windowed=windowed))
            else:
                full, windowed = self._masks(segment, positions)
                segments.append(segment._replace(full=full, windowed=windowed))
        return PassLayout(entries, positions, segments, rows.start(0), bare)

    def tree(
        self, rows: Rows, depths: Tensor | int, sees: Tensor, *, full_width: bool
    ) -> PassLayout:
        """Lay out tokens at ``depths`` [A, n] below the start of their row, or all at the same
        depth. They attend to the positions before it and, of the m ≥ n positions from there on, of
        which the last n are these tokens, to those in ``sees`` bool [A, n, m]. With a sliding
        window m = n."""
        _, count, ahead = sees.shape
        after, entries = self._entries(rows, ahead)
        positions = (after[:, :1] + depths).expand(-1, count)
        entries = entries.view(after.shape)[:, ahead - count :].flatten()
        if self._trails:
            rank = torch.where(sees, sees.cumsum(-1) - 1, ahead)  # parents come before children
            places = rank.new_zeros(*sees.shape[:2], ahead + 1)
            places.scatter_(2, rank, self._columns[:ahead].expand_as(rank))
            trail = self._trail(rows, after[:, :1].expand(-1, count), places)
            return PassLayout(entries, positions.contiguous(), (), rows.start(0), False, trail)
        segments = []
        for segment in self._segments(rows, count, ahead, full_width, same_width=True):
            columns, there = self._columns[: segment.width], after[segment.rows]
            visible = (columns < there[:, :1, None]).expand(-1, count, -1)
            visible = visible.scatter(2, there[:, None].expand(-1, count, -1), sees[segment.rows])
            full = windowed = self._additive(self._grouped(visible))
            if self._window is not None:
                assert count == ahead, "with a sliding window, all columns must be known"
                known = positions[segment.rows]
                column_positions = columns.expand(len(known), -1).scatter(1, there, known)
                near = known[..., None] - column_positions[:, None] < self._window
                windowed = self._additive(self._grouped(visible & near))
            segments.append(segment._replace(full=full, windowed=windowed))
        return PassLayout(entries, positions, segments, rows.start(0), False)

    def _trail(self, rows: Rows, roots: Tensor, places: Tensor) -> Trail:
        bases = self._bases[self.indexed(rows.slots)][:, None].expand_as(roots)
        return Trail(roots.contiguous().flatten(), bases.contiguous().flatten(), places)

    def _entries(self, rows: Rows, count: int) -> tuple[Tensor, Tensor]:
        """Return the positions [A, count] from each row's start on, none before 0, and the same
        counted over all slots, [A · count]."""
        bases = self._bases[self.indexed(rows.slots)]
        positions = (self._columns[:count] + rows.on_device[:, None]).clamp(min=0)
        return positions, (positions + bases[:, None]).flatten()

    def indexed(self, slots: Sequence[int]) -> slice | Tensor:
        """Return an index of a tensor [slots, ...]: a slice where they are neighbours."""
        first, last = slots[0], slots[-1]
        if last - first + 1 == len(slots):
            return slice(first, last + 1)
        if (known := tuple(slots)) not in self._known:  # copied once
            self._known[known] = torch.tensor(known, device=self._columns.device)
        return self._known[known]

    def _segments(
        self, rows: Rows, count: int, reach: int, full_width: bool, same_width: bool = False
    ) -> list[PassSegment]:
        """Return the segments without masks. ``reach``: positions from the start that must be in
        sight; ``same_width``: every token attends as widely as the last one."""
        slots, starts = rows.slots, rows.starts
        if full_width:
            everything = slice(0, len(slots)), slice(slots[0], slots[-1] + 1), slice(0, count)
            return [PassSegment(*everything, self.capacity)]
        assert starts is not None, "a captured pass attends over the full cache"
        segments: list[PassSegment] = []
        for row, (slot, start) in enumerate(zip(slots, starts, strict=True)):
            pieces = self._pieces(start, count, reach, same_width)
            before = segments[-len(pieces) :]
            same = [(each.tokens, each.width) for each in before] == pieces
            if same and before[0].slots.stop == slot:
                segments[-len(pieces) :] = [
                    each._replace(
                        rows=slice(each.rows.start, row + 1),
                        slots=slice(each.slots.start, slot + 1),
                    )
                    for each in before
                ]
            else:
                at = slice(row, row + 1), slice(slot, slot + 1)
                segments += [PassSegment(*at, tokens, width) for tokens, width in pieces]
        return segments

    def _pieces(
        self, start: int, count: int, reach: int, same_width: bool
    ) -> list[tuple[slice, int]]:
        """Divide the tokens of one row by how wide they attend."""
        step = self._step
        last = -(-(start + reach) // step) * step
        if same_width or step == 1:
            return [(slice(0, count), last)]
        first = -(-(max(start, 0) + 1) // step) * step
        stops = [*range(first, last, step), last]
        begins = [0, *(stop - start for stop in stops[:-1])]
        ends = [*begins[1:], count]
        return [(slice(*each), stop) for *each, stop in zip(begins, ends, stops, strict=True)]

    def _masks(self, segment: PassSegment, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the masks of the tokens of a chain: for full attention, and with the window."""
        at = self._grouped(positions[segment.region])[..., None]
        columns = self._columns[: segment.width]
        visible = columns <= at
        full = self._additive(visible)
        if self._window is None:
            return full, full
        return full, self._additive(visible & (at - columns < self._window))

    def _grouped(self, tokens: Tensor) -> Tensor:
        return tokens if self._group == 1 else tokens.repeat_interleave(self._group, 1)

    def _additive(self, visible: Tensor) -> Tensor:
        """Turn bool [R, n, w] into [R, 1, n, w]: 0 where it is true, else the lowest number;
        contiguous, newly allocated."""
        return torch.where(visible, self._zero, self._lowest)[:, None]
