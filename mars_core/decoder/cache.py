"""A causal language model with a key/value cache: token ids in, raw logits out.

Used for the target and for a draft model. A cache holds texts in slots. It stores no length: a pass
reads whatever was last written at the positions before it, so that a rollback needs no operation.
The memory is allocated once. A: texts that a pass reads together, n tokens of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_core.decoder.positions import PassLayout, PositionIndex, Rows, Start
from mars_core.decoder.quantised.library import lacks_products
from mars_core.decoder.quantised.weights import STORED

CHUNK = 512  # prompt tokens per pass
_ALIGNED = 64


class PassShapes(NamedTuple):
    """The shapes that passes may have. The tokens of a text are padded to a multiple of
    ``row_step``, and more than ``most_rows``, of all texts, are read in several passes. A token
    attends over the positions up to the next multiple of ``width_step``, with a mask: so the width
    follows from its position. A tree is read in one pass. With ``kernels`` passes but for prompts
    are by those of ``decoder.kernels`` or, on a CPU, of ``decoder.quantised.layers``. See ``models.checks.exactness``."""

    row_step: int = 1
    most_rows: int = CHUNK
    width_step: int = 1
    kernels: bool = False

    @property
    def fixed(self) -> bool:
        """Whether all passes over chains have one shape: in a batch each has all of its texts."""
        return self.row_step == self.most_rows

    def __str__(self) -> str:
        if self.kernels:
            return f"kernels, trees too; at most {self.most_rows} rows"
        return f"rows in multiples of {self.row_step}, at most {self.most_rows}; widths in multiples of {self.width_step}"


ANY_SHAPE = PassShapes()
KERNELS = PassShapes(most_rows=128, kernels=True)


class CacheSize(NamedTuple):
    """Size of a cache and the shapes of its passes. ``full_width``: all but ``read`` attends over
    all positions of a slot."""

    tokens: int  # of the longest text
    spare: int  # positions after the text that a pass may write to, without padding
    shapes: PassShapes = ANY_SHAPE
    full_width: bool = False
    slots: int = 1

    @property
    def capacity(self) -> int:
        """Positions of a slot; with ``full_width`` a multiple of ``_ALIGNED``, as attention kernels require
        for masks."""
        spare = round_up(self.spare, self.shapes.row_step)
        return round_up(
            self.tokens + spare, max(self.shapes.width_step, _ALIGNED if self.full_width else 1)
        )


class ModelCache(ABC):
    """``feature_layers``: layers whose input the latest ``chains`` or ``trees`` left in
    ``features`` [slots, rows, layers · H], at a fixed address; their number stands for what the
    output layer reads, the last hidden state after the norm."""

    path: str  # how passes are computed, for the run's record
    _one_width = False  # whether all tokens of a pass attend over the same width

    def __init__(
        self,
        model: PreTrainedModel,
        size: CacheSize,
        feature_layers: Sequence[int],
        index: PositionIndex,
    ) -> None:
        table = input_embedding(model).weight
        self.device = table.device
        self.size = size
        self._feature_layers, self._index = tuple(feature_layers), index
        width = len(feature_layers) * table.shape[1]
        self.features = torch.zeros(
            size.slots, size.spare, width, dtype=model.dtype, device=self.device
        )

    def read(
        self,
        ids: Tensor,
        start: int = 0,
        slot: int = 0,
        *,
        in_steps: bool = False,
        between: Callable[[], None] = lambda: None,
    ) -> Tensor:
        """Cache ids [n] of one text at the positions from ``start`` on, as a prompt or, ``in_steps``,
        with as few rows a pass as ``chains`` may have; so a short prompt too where kernels of a CPU
        read it. Return their features [n, layers · H]. ``between`` is called between two passes;
        what it raises ends the reading."""
        shapes = self.size.shapes
        in_steps |= shapes.kernels and self.device.type == "cpu" and len(ids) <= shapes.most_rows
        most = shapes.most_rows if in_steps else CHUNK
        features = [self.features[0, :0]]
        for chunk in self._chunks(len(ids), start, most, aligned=True):
            if chunk.start:
                between()
            rows = Rows.one(start + chunk.start, slot, self.device)
            layout = dict(full_width=False, prompt=not in_steps)
            features.append(self._chain(ids[None, chunk], rows, 1, **layout)[1][0])
        return torch.cat(features)

    def forward(self, ids: Tensor, start: int, logits: int = 0) -> Tensor:
        """``chains`` of the text in the first slot, without its dimension."""
        return self.chains(ids[None], Rows.one(start, 0, self.device), logits)[0]

    def chains(self, ids: Tensor, rows: Rows, logits: int = 0) -> Tensor:
        """Caches ids [A, n] at the positions from the start of each row on; raw float32 logits [A,
        logits, V] after the last of them (0: after all)."""
        size, count = self.size, ids.shape[1]
        full_width, parts = size.full_width, []
        for some in self._together(len(ids), count):
            texts, outputs = rows.part(some), []
            aligned = self._one_width and not full_width
            chunks = self._chunks(count, texts.start(0), size.shapes.most_rows, aligned=aligned)
            for at in chunks:
                after, features = self._chain(
                    ids[some, at], texts.later(at.start), logits, full_width=full_width
                )
                self._record(features, texts, at)
                outputs.append(after)
            parts.append(outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1))
        return (torch.cat(parts) if len(parts) > 1 else parts[0])[:, -logits:]

    def forward_tree(self, ids: Tensor, start: int, depths: Tensor, sees: Tensor) -> Tensor:
        """``trees`` of the text in the first slot, without its dimension."""
        rows = Rows.one(start, 0, self.device)
        return self.trees(ids[None], rows, depths[None], sees[None])[0]

    def trees(self, ids: Tensor, rows: Rows, depths: Tensor, sees: Tensor) -> Tensor:
        """Read as ``chains`` the nodes ids [A, N + 1] of trees at ``depths`` [A, N + 1] below their
        roots: each attends to the positions before the root, and the nodes of ``sees`` [A, N + 1, N
        + 1]."""
        count = ids.shape[1]
        padded = round_up(count, self.size.shapes.row_step)
        if padded > count:
            more = torch.eye(padded, device=ids.device).bool().repeat(len(ids), 1, 1)
            more[:, :count, :count] = sees
            ids, depths, sees = _padded(ids, padded), _padded(depths, padded), more
        parts = []
        for some in self._together(len(ids), padded):
            texts = rows.part(some)
            layout = self._index.tree(
                texts, depths[some], sees[some], full_width=self.size.full_width
            )
            logits, features = self._outputs(ids[some], layout, 0, count)
            self._record(features, texts, slice(0, count))
            parts.append(logits)
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    @abstractmethod
    def move(self, rows: Tensor, slots: Tensor) -> None:
        """Copy the entries at positions ``rows`` [n] to ``slots`` [n], counted over all slots, in
        every layer."""

    def _together(self, texts: int, count: int) -> list[slice]:
        """Return which texts of ``count`` tokens are read in one pass."""
        if self.size.shapes.fixed:
            return [slice(0, texts)]
        each = max(1, self.size.shapes.most_rows // round_up(count, self.size.shapes.row_step))
        return [slice(at, at + each) for at in range(0, texts, each)]

    def _chunks(self, count: int, start: Start, most: int, *, aligned: bool) -> list[slice]:
        """Return the tokens of each pass: at most ``most``, and ``aligned`` ones end at multiples
        of ``width_step``."""
        step = self.size.shapes.width_step
        cuts = [0, count]
        if aligned and step > 1:
            assert isinstance(start, int), "a captured pass attends over the full cache"
            cuts[1:1] = [at for at in range(-start % step, count, step) if at]
        return [
            slice(at, min(at + most, end))
            for begin, end in pairwise(cuts)
            for at in range(begin, end, most)
        ]

    def _chain(
        self, ids: Tensor, rows: Rows, logits: int, *, full_width: bool, prompt: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Read consecutive ids [A, n]."""
        count = ids.shape[1]
        filled = _padded(ids, round_up(count, self.size.shapes.row_step))
        padding = filled.shape[1] - count
        layout = self._index.chain(
            rows, count + padding, full_width=full_width, padding=padding, prompt=prompt
        )
        return self._outputs(filled, layout, 0 if padding else logits, count)

    def _outputs(
        self, ids: Tensor, layout: PassLayout, logits: int, count: int
    ) -> tuple[Tensor, Tensor]:
        """Read ids [A, n] in one pass: logits as of ``chains`` and features [A, count, layers · H],
        of the first ``count`` tokens; the others are padding."""
        outputs, tapped = self._pass(ids, layout, logits)
        features = torch.cat([*tapped], -1) if tapped else self.features[:, :0]
        return outputs[:, :count], features[:, :count]

    def _record(self, features: Tensor, rows: Rows, at: slice) -> None:
        """Leaves the features [A, n, layers · H] of a pass for the drafter."""
        if self._feature_layers:
            index = self._index.indexed(rows.slots)
            self.features[index, at] = features

    @abstractmethod
    def _pass(
        self, ids: Tensor, layout: PassLayout, logits: int
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Read ids [A, n] in one pass: float32 logits as of ``chains``, and each of the features [A,
        n, H]."""


def has_kernels(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether there are kernels for the device and the dtype: on CUDA those of
    ``decoder.kernels``, in half precision, where Triton is; on a CPU those of
    ``decoder.quantised``, for the weights of GGUF files."""
    if device.type == "cpu":
        return dtype == STORED and not lacks_products()
    half = dtype in (torch.float16, torch.bfloat16)
    return device.type == "cuda" and half and find_spec("triton") is not None


def round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _padded(ids: Tensor, count: int) -> Tensor:
    """ids [A, n], the last one of each row repeated up to ``count``."""
    missing = count - ids.shape[1]
    return torch.cat([ids, ids[:, -1:].expand(-1, missing)], 1) if missing else ids


def input_embedding(model: PreTrainedModel) -> nn.Embedding:
    """Return the token embedding table. Ids must be on its device and below its number of rows."""
    table = model.get_input_embeddings()
    assert isinstance(table, nn.Embedding)
    return table


def synchronise(device: torch.device) -> None:
    """Waits until the device has finished, so that wall-clock times are meaningful."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
