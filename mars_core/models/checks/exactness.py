"""Finds the shapes of passes in which a token's logits are bitwise the same whatever is read beside
it.

Libraries choose the order of their sums by the shape of a product: by its rows, and attention also
by its width. The width follows from a token's position; the rows are searched here, so that strict
writes the target's text in every dtype. Chains only: the ancestors of a tree's node do not
stand side by side in the cache. The kernels of ``decoder.kernels`` need no shape, and read trees
path by path; here they are tried.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars_core.decoder import (
    ANY_SHAPE,
    KERNELS,
    CacheSize,
    ModelCache,
    PassShapes,
    input_embedding,
    is_fast,
    open_cache,
)
from mars_core.decoder.positions import Rows
from mars_core.margins import Margins, finite
from mars_core.models.catalog import GENERAL_TEXT
from mars_core.models.checks.probe import FAILURES
from mars_core.models.errors import is_out_of_memory
from mars_core.verification import ancestors

# Cheapest first. Only fast layers read batches, of up to 256 rows; on a CPU they attend from a single
# row as from two. With the last one every pass over a chain has the same number of rows.
CANDIDATES = tuple(
    PassShapes(rows, most, 128)
    for rows, most in ((1, 256), (1, 64), (2, 256), (2, 64), (4, 64), (8, 64), (16, 16))
)
_TOKENS, _BLOCK = 120, 8  # of the text that is read first, and of its continuation
_LONGEST = 64  # rows of one text in a pass


class ShapeSearch(NamedTuple):
    """Shapes for the target's passes. ``inexact``: in words, why its logits may depend on them;
    empty where they do not. ``margins``: after each token of the text, and of the target's
    continuation."""

    shapes: PassShapes
    inexact: str
    margins: Margins = ()


def real_text(
    tokenizer: PreTrainedTokenizerBase, vocabulary: int, text: str = GENERAL_TEXT
) -> Tensor:
    """Return the first _TOKENS ids of ``text`` that are below ``vocabulary``; a text that has fewer
    is repeated."""
    ids = [each for each in tokenizer(text)["input_ids"] if each < vocabulary]
    return torch.tensor((ids or [0]) * _TOKENS)[:_TOKENS]


@torch.inference_mode()
def find_shapes(
    model: PreTrainedModel, text: Tensor, *, exact: bool = True, kernels: bool = False
) -> ShapeSearch:
    """Find the cheapest shapes that pass on ``text`` and on the model's continuation of it. Not
    ``exact``: any shape. ``kernels``: these first, if they compute all layers of the model; they pass
    with a tree too."""
    ids, inexact = text.to(input_embedding(model).weight.device), ""
    margins: Margins = ()
    fast, on_cpu = is_fast(model), ids.device.type == "cpu"
    if kernels and fast:
        with suppress(Exception):  # whatever a compiler raises
            position, margins = _differs_at(model, ids, KERNELS)
            if position is None:
                return ShapeSearch(KERNELS, "", margins)
    if not exact:
        return ShapeSearch(ANY_SHAPE, "it was not checked")
    for shapes in CANDIDATES:
        if (shapes.row_step == 1 and not (fast and on_cpu)) or (
            shapes.most_rows > _LONGEST and not fast
        ):
            continue
        try:
            position, margins = _differs_at(model, ids, shapes)
        except FAILURES as failure:
            if is_out_of_memory(failure):
                raise
            return ShapeSearch(
                ANY_SHAPE, f"the check of its rounding failed ({type(failure).__name__})", margins
            )
        if position is None:
            return ShapeSearch(shapes, "", margins)
        inexact = f"its logits near position {position} depend on the tokens that are read in the same pass"
    return ShapeSearch(ANY_SHAPE, inexact, margins)


def _differs_at(
    model: PreTrainedModel, ids: Tensor, shapes: PassShapes
) -> tuple[int | None, Margins]:
    """Return a position from which on logits depend on the rows of a pass, None where they are
    bitwise the same; and the margins."""
    context = (
        getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        or _TOKENS + _BLOCK
    )
    last = min(_TOKENS + _BLOCK, context)
    count = min(_BLOCK, last // 2)
    ids, start = ids[: last - count], last - count - 1
    slots = max(1, shapes.most_rows // _LONGEST)
    cache = open_cache(model, CacheSize(last, count, shapes, slots=slots))
    if shapes.kernels and cache.path != "kernels":
        return start, ()
    best = cache.forward(ids, 0).topk(2).values[:-1]
    written, logits = _written(cache, ids[-1:], start, count)
    margins = finite(torch.cat([best, logits.topk(2).values]).tolist())
    text = torch.cat([ids[:-1], written])
    blocks = (written, text[-17:], text[-min(_LONGEST, shapes.most_rows) :])
    for block in blocks:  # 17: kernels have blocks of 16 rows
        if not torch.equal(cache.forward(block, start + count - len(block))[-count:], logits):
            return start, margins
    if shapes.kernels and not torch.equal(_in_tree(cache, written, start), logits):
        return start, margins
    if slots > 1:
        first, longest = torch.arange(start, device=ids.device), len(blocks[-1])
        capacity = cache.size.capacity
        for slot in range(1, slots):
            cache.move(first, first + slot * capacity)
        at = start + count - longest
        rows = Rows(range(slots), [at] * slots, torch.full((slots,), at, device=ids.device))
        together = cache.chains(blocks[-1].expand(slots, -1), rows)[:, -count:]
        if not all(torch.equal(each, logits) for each in together):
            return start, margins
    return None, margins


def _in_tree(cache: ModelCache, ids: Tensor, start: int) -> Tensor:
    """Return the logits [n, V] after ids [n], the path of a tree that has another node before each
    but the first."""
    nodes = torch.stack((ids.flip(0), ids), 1).flatten()[1:]
    numbers = torch.arange(len(nodes), device=ids.device)
    parents, depths = (numbers[:-1] // 2 * 2), (numbers + 1) // 2
    logits = cache.forward_tree(nodes, start, depths, ancestors(parents, len(ids)))
    return logits[::2]


def _written(cache: ModelCache, ids: Tensor, start: int, count: int) -> tuple[Tensor, Tensor]:
    """Return tokens [count] from ids [1] on, as the model continues them one by one, and the logits
    [count, V] after each."""
    rows = [cache.forward(ids, start)]
    while len(rows) < count:
        ids = torch.cat([ids, rows[-1].argmax(-1)])
        rows.append(cache.forward(ids[-1:], start + len(rows)))
    return ids, torch.cat(rows)
