"""The compiled part: products and layers in C (``products.c``, ``layers.c``), and their structures.

They are compiled by the machine's C compiler, once, into the user's cache. Without a compiler, or
on another processor than x86 with AVX2, there are none, and weights are read in other formats.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from threading import Lock
from typing import NamedTuple

import torch

_FOLDER = Path(__file__).parent
_SOURCE, _INCLUDED = _FOLDER / "layers.c", _FOLDER / "products.c"
_OPTIONS = ("-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-fPIC", "-shared")
_ALONE = Lock()  # held while it is compiled
_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float


class Form(NamedTuple):
    """How a weight is stored: a level of ``bits``, minus ``offset``, times the scale of its
    ``group`` of columns and, where ``minimums`` is 1, plus its minimum."""

    bits: int
    group: int
    offset: int
    minimums: int


class FormStruct(ctypes.Structure):
    _fields_ = [(name, _INT) for name in Form._fields]


class PartStruct(ctypes.Structure):
    _fields_ = [("packed", _POINTER), ("out", _LONG), ("form", FormStruct)]


class ProductStruct(ctypes.Structure):
    _fields_ = [
        ("parts", ctypes.POINTER(PartStruct)),
        *((name, _LONG) for name in ("count", "columns", "out")),
        ("bias", _POINTER),
    ]


class NormStruct(ctypes.Structure):
    _fields_ = [("gain", _POINTER), ("eps", _FLOAT)]


class LayerStruct(ctypes.Structure):
    _fields_ = [
        *((name, ProductStruct) for name in ("qkv", "output", "up", "down")),
        *((name, NormStruct) for name in ("before", "mixed", "inner", "after", "heads")),
        *((name, _POINTER) for name in ("cos", "sin", "cache")),
        *((name, _LONG) for name in ("queries", "keys", "size", "turned")),
        *((name, _LONG) for name in ("length", "window", "gelu")),
        ("scale", _FLOAT),
    ]


class PassStruct(ctypes.Structure):
    _fields_ = [
        *((name, _LONG) for name in ("rows", "ahead")),
        *((name, _POINTER) for name in ("positions", "entries", "roots", "bases", "places")),
    ]


def lacks_products() -> str:
    """Return why quantised weights cannot be multiplied here; empty where they can."""
    if sys.platform != "linux" or not multiplies_int4():
        return "that takes Linux on an x86 processor with AVX2"
    try:
        library()
    except (OSError, subprocess.SubprocessError) as error:
        return f"their products could not be compiled ({error})"
    return ""


def multiplies_int4() -> bool:
    """Return whether torch's product of 4 bits has a vector kernel here."""
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


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
def library() -> ctypes.CDLL:
    """Compile it for this processor, unless that was done before. Raises OSError."""
    from platformdirs import user_cache_path

    compiler = which("cc") or which("gcc") or which("clang")
    if not compiler:
        raise OSError("there is no C compiler: install gcc or clang")
    command = [compiler, *_OPTIONS]
    sources = _SOURCE.read_bytes() + _INCLUDED.read_bytes()
    made_of = str(command).encode() + processor() + sources
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
    loaded = ctypes.CDLL(str(file))
    structure, form = ctypes.POINTER, FormStruct
    loaded.mars_pack.restype = loaded.mars_rows.restype = None
    loaded.mars_pack.argtypes = [
        *(_POINTER, _POINTER, _POINTER, _LONG, _LONG, form, _POINTER, _INT)
    ]
    loaded.mars_rows.argtypes = [_POINTER, _LONG, _POINTER, _LONG, form, _POINTER, _INT]
    loaded.mars_multiply.argtypes = [
        *(_POINTER, _LONG, _LONG, _POINTER, _LONG, form, _POINTER, _LONG, _INT)
    ]
    loaded.mars_layer.argtypes = [
        *(structure(LayerStruct), structure(PassStruct), _POINTER, _POINTER, _INT)
    ]
    loaded.mars_output.argtypes = [
        *(structure(ProductStruct), NormStruct, _POINTER, _LONG, _POINTER, _INT)
    ]
    return loaded
