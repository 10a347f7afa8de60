"""Weights that a file has in few bits, kept so in memory: their products and lookups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mars_core.decoder.quantised.library import (
    Form,
    FormStruct,
    lacks_products,
    library,
    multiplies_int4,
)

# The dtype of models whose quantised weights stay as they are in a file; never that of a tensor.
STORED: torch.dtype = torch.int4  # type: ignore[attr-defined]
_GROUP = 32  # columns with one scale, but where a file has it otherwise
_FEW = 80  # rows of a pass in torch's products of 4 bits
_COLUMNS = 16  # of the products, rows of a weight that are packed together


class Levels(NamedTuple):
    """Quantised rows [n, in] of a weight."""

    form: Form
    levels: Tensor  # uint8 [n, in]
    scales: Tensor  # float32 [n, in / group]
    minimums: Tensor | None  # as ``scales``

    def numbers(self) -> Tensor:
        """Return the rows in float32."""
        signed = self.levels.view(*self.scales.shape, -1).to(torch.int16) - self.form.offset
        numbers = signed * self.scales[..., None]
        if self.minimums is not None:
            numbers += self.minimums[..., None]
        return numbers.flatten(1)


class Weight(ABC):
    """A quantised weight [rows, columns], packed for its products."""

    rows: int
    columns: int

    @abstractmethod
    def multiply(self, x: Tensor, into: Tensor) -> None:
        """Write the product of x float32 [n, columns], contiguous, into float32 [n, rows], whose
        last dimension is contiguous."""


def in_eight_bits(weight: Tensor) -> Packed:
    """Return a weight [out, in] rounded to 8 bits, with a scale for every 32 columns; in must be
    a multiple of them."""
    rows, columns = weight.shape
    groups = weight.detach().float().view(rows, -1, _GROUP)
    scales = groups.abs().amax(-1) / 127
    levels = (groups / scales.clamp_min(1e-30)[..., None]).round_() + 128
    rounded = Packed(rows, columns, Form(8, _GROUP, 128, 0))
    part = levels.flatten(1).to(torch.uint8)
    rounded.fill(0, Levels(rounded.form, part, scales, None))
    return rounded


def packed(rows: int, columns: int, form: Form, *, table: bool) -> Packed | Int4 | None:
    """Return an empty weight, of an embedding ``table`` too; None where there is no product for it
    here."""
    if not lacks_products():
        return Packed(rows, columns, form)
    fits = form.bits == 4 and not rows % 16 and not table
    return Int4(rows, columns) if fits and multiplies_int4() else None


class Packed(Weight):
    """For the products of ``products.c``."""

    def __init__(self, rows: int, columns: int, form: Form) -> None:
        self.rows, self.columns, self.form = rows, columns, form
        factors = 2 * _COLUMNS * (1 + form.minimums)
        block = _COLUMNS * form.group * form.bits // 8 + factors
        self.data = torch.empty(
            -(-rows // _COLUMNS), columns // form.group * block, dtype=torch.uint8
        )
        self.form_struct, self._library = FormStruct(*form), library()

    def fill(self, start: int, part: Levels) -> None:
        """Pack the rows from ``start`` on, a multiple of 16."""
        levels, scales = part.levels.contiguous(), part.scales.half().contiguous()
        minimums = None if part.minimums is None else part.minimums.half().contiguous()
        self._library.mars_pack(
            levels.data_ptr(),
            scales.data_ptr(),
            None if minimums is None else minimums.data_ptr(),
            *levels.shape,
            self.form_struct,
            self.data[start // _COLUMNS].data_ptr(),
            torch.get_num_threads(),
        )

    def multiply(self, x: Tensor, into: Tensor) -> None:
        if self._library.mars_multiply(
            x.data_ptr(),
            len(x),
            self.columns,
            self.data.data_ptr(),
            self.rows,
            self.form_struct,
            into.data_ptr(),
            into.stride(0),
            torch.get_num_threads(),
        ):
            raise MemoryError("There is not enough memory for a product.")

    def at(self, ids: Tensor) -> Tensor:
        """Return the rows ``ids`` int64 [n] in float32 [n, columns]. Raises IndexError."""
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.rows:
            raise IndexError("An id is outside of the table.")
        rows, ids = torch.empty(len(ids), self.columns), ids.contiguous()  # held during the call
        self._library.mars_rows(
            ids.data_ptr(),
            len(ids),
            self.data.data_ptr(),
            self.columns,
            self.form_struct,
            rows.data_ptr(),
            torch.get_num_threads(),
        )
        return rows


class Int4(Weight):
    """For torch's products of 4 bits: input, scales and minimums are rounded to bfloat16. Sums
    depend on the rows beside a row in passes of more than ``_FEW``."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self._packed, self._factors = list[Tensor](), list[Tensor]()

    def fill(self, _start: int, part: Levels) -> None:
        """Pack the next rows, a multiple of 16."""
        pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        self._packed.append(pack(part.levels.int(), 1))
        low = -part.form.offset * part.scales if part.minimums is None else part.minimums
        factors = torch.stack((part.scales, low + 8 * part.scales), -1)  # of level - 8, and added
        self._factors.append(factors.transpose(0, 1).bfloat16().contiguous())

    def multiply(self, x: Tensor, into: Tensor) -> None:
        product = torch._weight_int4pack_mm_for_cpu
        for start in range(0, len(x), _FEW):
            rows = x[start : start + _FEW].bfloat16()
            parts = [
                product(rows, part, _GROUP, factors)
                for part, factors in zip(self._packed, self._factors, strict=True)
            ]
            into[start : start + _FEW] = torch.cat(parts, 1)


class QuantisedEmbedding(nn.Embedding):
    """An embedding with a quantised table, times ``factor``."""

    def __init__(self, table: Packed, factor: float = 1.0) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = table.rows, table.columns
        self.padding_idx, self.max_norm, self.sparse = None, None, False
        self.weight = nn.Parameter(empty_weight(table.rows, table.columns), requires_grad=False)
        self.table, self.factor = table, factor

    def forward(self, input: Tensor) -> Tensor:
        rows = self.table.at(input.flatten()).view(*input.shape, self.embedding_dim)
        return rows if self.factor == 1 else rows * self.factor


def empty_weight(rows: int, columns: int) -> Tensor:
    """Return a tensor of this shape without memory, of nan."""
    return torch.full((1, 1), torch.nan).expand(rows, columns)
