"""Where the tokens of a pass stand in a preallocated cache: rows, rotary positions and masks.

``HostRuler`` takes views of what was computed once a run; ``DeviceRuler`` computes the same from a length that lives on the device,
so that a recorded pass can be repeated further on. G: query heads that share a key head; a mask has each row G times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mars_core.decoder.layer import Rotary

ROWS = 32  # tokens up to which the masks of chains are views
_UNKNOWN = "with a sliding window, the positions of all rows after the cached ones must be known"


class Span(NamedTuple):
    """One pass of n tokens over the first ``width`` rows of the cache."""

    slots: Tensor  # [n] rows that are written
    rotary: Rotary
    full: Tensor | None  # [n · G, width] additive; None: all before, and in the order of the rows
    windowed: Tensor | None  # the same for layers with a sliding window
    width: int


class Ruler(Protocol):
    """``length``: tokens that are cached."""

    def chain(self, length: int, count: int) -> Span:
        """The next ``count`` tokens, each after the one before."""

    def tree(self, length: int, depths: Tensor | int, sees: Tensor) -> Span:
        """Tokens at ``depths`` [n], or all at one (0: the next position), that see what is cached and, of the m ≥ n rows after it,
        which end with their own, those of ``sees`` bool [n, m]."""


class Lines:
    """What both rulers measure with: rotary positions [1, capacity, 1, d'], the group size G, the sliding window."""

    def __init__(self, rotary: Rotary, group: int, window: int | None = None) -> None:
        self.rotary, self.group, self.window = rotary, group, window
        self.capacity = rotary.cos.shape[1]
        self.places = torch.arange(self.capacity, device=rotary.cos.device)
        self.zero = rotary.cos.new_zeros(())
        self.lowest = torch.full_like(self.zero, torch.finfo(self.zero.dtype).min)

    def additive(self, seen: Tensor) -> Tensor:
        """bool [n, width] → [n · G, width]."""
        mask = torch.where(seen, self.zero, self.lowest)
        return mask if self.group == 1 else mask.repeat_interleave(self.group, 0)

    def windowed(self, seen: Tensor, positions: Tensor, places: Tensor, full: Tensor | None) -> Tensor | None:
        """The mask of windowed layers: of what is ``seen`` the last ``window`` positions."""
        if self.window is None:
            return full
        return self.additive(seen & (positions[:, None] - places < self.window))


class HostRuler:
    """For passes at a length that the host knows."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        rows, ends = lines.places[:ROWS, None], lines.capacity
        columns = torch.arange(ends + ROWS, device=lines.places.device)
        seen = columns <= ends + rows
        # Row i of a chain after any number of tokens is row i of this band, from another column on.
        self._full = lines.additive(seen)
        self._windowed = lines.windowed(seen, ends + rows[:, 0], columns, self._full)

    def chain(self, length: int, count: int) -> Span:
        lines, end = self._lines, length + count
        slots = lines.places[length:end]
        rotary = Rotary(lines.rotary.cos[:, length:end], lines.rotary.sin[:, length:end])
        if count > ROWS:
            return Span(slots, rotary, *self._far(slots, end), end)
        full = None if count == 1 else self._band(self._full, length, count)
        windowed = full if lines.window is None else self._band(self._windowed, length, count)
        return Span(slots, rotary, full, windowed, end)

    def _band(self, band: Tensor | None, length: int, count: int) -> Tensor:
        assert band is not None
        return band[: count * self._lines.group, self._lines.capacity - length : self._lines.capacity + count]

    def _far(self, slots: Tensor, end: int) -> tuple[Tensor | None, Tensor | None]:
        places = self._lines.places[:end]
        seen = places <= slots[:, None]
        full = None if len(slots) == end else self._lines.additive(seen)
        return full, self._lines.windowed(seen, slots, places, full)

    def tree(self, length: int, depths: Tensor | int, sees: Tensor) -> Span:
        lines, (count, ahead) = self._lines, sees.shape
        end = length + ahead
        positions = length + depths
        at = positions if isinstance(positions, Tensor) else slice(positions, positions + 1)
        rotary = Rotary(lines.rotary.cos[:, at], lines.rotary.sin[:, at])
        full = torch.zeros(count * lines.group, end, dtype=lines.zero.dtype, device=sees.device)
        full[:, length:] = lines.additive(sees)
        windowed: Tensor | None = full
        if lines.window is not None:
            assert isinstance(positions, Tensor) and count == ahead, _UNKNOWN
            seen = torch.cat([sees.new_ones(count, length), sees], -1)
            windowed = lines.windowed(seen, positions, torch.cat([lines.places[:length], positions]), full)
        return Span(lines.places[end - count : end], rotary, full, windowed, end)


class DeviceRuler:
    """For passes that are recorded: what the host calls length ``origin`` is ``base`` (a tensor without dimensions) on the device.

    All rows up to ``width`` are read, whatever the length; the masks hide what is not there yet.
    """

    def __init__(self, lines: Lines, base: Tensor, origin: int, width: int) -> None:
        self._lines, self._base, self._origin, self._width = lines, base, origin, width

    def chain(self, length: int, count: int) -> Span:
        lines, places = self._lines, self._lines.places[: self._width]
        slots = self._start(length) + lines.places[:count]
        seen = places <= slots[:, None]
        full = lines.additive(seen)
        return Span(slots, self._rotary(slots), full, lines.windowed(seen, slots, places, full), self._width)

    def tree(self, length: int, depths: Tensor | int, sees: Tensor) -> Span:
        lines, (count, ahead) = self._lines, sees.shape
        start = self._start(length)
        positions = (start + depths).expand(count)
        after = lines.places[: self._width] - start  # of each row: its number among those after the cached ones
        drafted = (after >= 0) & (after < ahead)
        seen = (after < 0) | (drafted & sees[:, after.clamp(0, ahead - 1)])
        full = lines.additive(seen)
        windowed: Tensor | None = full
        if lines.window is not None:
            assert count == ahead, _UNKNOWN
            places = torch.where(drafted, positions[after.clamp(0, ahead - 1)], lines.places[: self._width])
            windowed = lines.windowed(seen, positions, places, full)
        slots = start + lines.places[ahead - count : ahead]
        return Span(slots, self._rotary(positions), full, windowed, self._width)

    def _start(self, length: int) -> Tensor:
        return self._base + (length - self._origin)

    def _rotary(self, positions: Tensor) -> Rotary:
        return Rotary(self._lines.rotary.cos[:, positions], self._lines.rotary.sin[:, positions])


class Ruled(Protocol):
    """A cache that asks a ruler where its tokens stand."""

    lines: Lines
    ruler: Ruler
    length: int


@contextmanager
def fixed(cache: Ruled, base: Tensor, width: int) -> Iterator[None]:
    """Inside, the cache's present length is ``base`` on the device, and its first ``width`` rows are looked at; afterwards its
    length, of which the host decides, is what it was."""
    host, length = cache.ruler, cache.length
    cache.ruler = DeviceRuler(cache.lines, base, length, min(width, cache.lines.capacity))
    try:
        yield
    finally:
        cache.ruler, cache.length = host, length
