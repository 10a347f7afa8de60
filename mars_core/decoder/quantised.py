"""Weights that a file has in few bits, kept so in memory: their products and lookups.

These are compiled from ``products.c`` by the machine's C compiler, once, into the user's
cache. Without a compiler, or on another processor than x86 with AVX2, there are none, and weights
are read in other formats.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
import sys
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor, nn

# The dtype of models whose quantised weights stay as they are in a file; never that of a tensor.
STORED: torch.dtype = torch.int4  # type: ignore[attr-defined]
_SOURCE = Path(__file__).with_name("products.c")
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-fPIC", "-shared")
_GROUP, _FEW = 32, 80  # columns with one scale, and rows of a pass, in torch's products of 4 bits
_COLUMNS = 16  # of the products, rows of a weight that are packed together
_ALONE = Lock()  # held while the products are compiled


class Form(NamedTuple):
    """How a weight is stored: a level of ``bits``, minus ``offset``, times the scale of its
    ``group`` of columns and, where ``minimums`` is 1, plus its minimum."""

    bits: int
    group: int
    offset: int
    minimums: int


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


class _Form(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in Form._fields]


def lacks_products() -> str:
    """Return why quantised weights cannot be multiplied here; empty where they can."""
    if sys.platform != "linux" or not multiplies_int4():
        return "that takes Linux on an x86 processor with AVX2"
    try:
        _library()
    except (OSError, subprocess.SubprocessError) as error:
        return f"their products could not be compiled ({error})"
    return ""


@cache
def processor() -> bytes:
    """Return what Linux says of the first processor: its name and what it can do; elsewhere what
    Python says."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0].split(b"\n")
    except OSError:
        return platform.processor().encode()
    return b"\n".join(line for line in lines if line.startswith((b"model", b"flags")))


@cache
def _library() -> ctypes.CDLL:
    """Compile the products for this processor, unless that was done before. Raises OSError."""
    from platformdirs import user_cache_path

    compiler = which("cc") or which("gcc") or which("clang")
    if not compiler:
        raise OSError("there is no C compiler: install gcc or clang")
    command = [compiler, *_OPTIONS]
    made_of = str(command).encode() + processor() + _SOURCE.read_bytes()
    file = user_cache_path("mars-playground", appauthor=False) / (
        f"products-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    )
    with _ALONE:
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=file.parent) as folder:
                made = Path(folder) / file.name
                compiling = [*command, "-o", str(made), str(_SOURCE), "-lm"]
                subprocess.run(compiling, check=True, capture_output=True)
                made.rename(file)
    library = ctypes.CDLL(str(file))
    pointer, long = ctypes.c_void_p, ctypes.c_long
    library.mars_pack.argtypes = [
        pointer,
        pointer,
        pointer,
        long,
        long,
        _Form,
        pointer,
        ctypes.c_int,
    ]
    library.mars_pack.restype = library.mars_rows.restype = None
    library.mars_rows.argtypes = [pointer, long, pointer, long, _Form, pointer, ctypes.c_int]
    library.mars_multiply.argtypes = [
        *(pointer, long, long, pointer, long, _Form, pointer, long, ctypes.c_int)
    ]
    return library


class Weight(ABC):
    """A quantised weight [rows, columns], packed for its products."""

    rows: int
    columns: int

    @abstractmethod
    def multiply(self, x: Tensor, into: Tensor) -> None:
        """Write the product of x float32 [n, columns], contiguous, into float32 [n, rows], whose
        last dimension is contiguous."""


def packed(rows: int, columns: int, form: Form, *, table: bool) -> Packed | Int4 | None:
    """Return an empty weight, of an embedding ``table`` too; None where there is no product for it
    here."""
    if not lacks_products():
        return Packed(rows, columns, form)
    fits = form.bits == 4 and not rows % 16 and not table
    return Int4(rows, columns) if fits and multiplies_int4() else None


def multiplies_int4() -> bool:
    """Whether torch's product of 4 bits has a vector kernel here."""
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


class Packed(Weight):
    """For the products of ``products.c``."""

    def __init__(self, rows: int, columns: int, form: Form) -> None:
        self.rows, self.columns, self.form = rows, columns, form
        factors = 2 * _COLUMNS * (1 + form.minimums)
        block = _COLUMNS * form.group * form.bits // 8 + factors
        self.data = torch.empty(
            -(-rows // _COLUMNS), columns // form.group * block, dtype=torch.uint8
        )
        self._form, self._library = _Form(*form), _library()

    def fill(self, start: int, part: Levels) -> None:
        """Pack the rows from ``start`` on, a multiple of 16."""
        levels, scales = part.levels.contiguous(), part.scales.half().contiguous()
        minimums = None if part.minimums is None else part.minimums.half().contiguous()
        self._library.mars_pack(
            levels.data_ptr(),
            scales.data_ptr(),
            None if minimums is None else minimums.data_ptr(),
            *levels.shape,
            self._form,
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
            self._form,
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
            self._form,
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
