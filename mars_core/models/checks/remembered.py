"""Remembers with which layers and shapes a model from a GGUF file passed its checks, so that a later
start need not repeat them.

What is remembered holds for the same file, machine, libraries, code and settings only: all of them
are in the name under which it is kept, in the file's own folder of the cache. A refused model is
not remembered. What cannot be read is checked again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from mars_core.decoder import PassShapes
from mars_core.decoder.quantised.library import processor
from mars_core.margins import finite
from mars_core.models.checks.exactness import ShapeSearch

_MOST = 1_000_000  # bytes of a result


def place(folder: Path, *settings: object) -> Path:
    """Return where the result of the model in ``folder`` is kept, on this machine's processor.
    ``settings``: whatever else it depends on."""
    here = _versions(), torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
    made_of = repr((*here, *settings)).encode() + processor()
    return folder / f"checked-{hashlib.sha256(made_of).hexdigest()[:16]}.json"


def recall(file: Path) -> tuple[bool, ShapeSearch] | None:
    """Return whether the layers that passed are the engine's own, and the shapes; None where there is
    no earlier result."""
    with suppress(OSError, ValueError, TypeError, LookupError):
        with file.open(encoding="utf-8") as opened:
            fast, shapes, inexact, margins = json.loads(opened.read(_MOST))
        return bool(fast), ShapeSearch(PassShapes(*shapes), str(inexact), finite(margins))
    return None


def keep(file: Path, fast: bool, search: ShapeSearch) -> None:
    """Write the result, whole or not at all; a folder that cannot be written is left as it is."""
    part = file.with_suffix(f".{os.getpid()}.part")
    with suppress(OSError):
        part.write_text(json.dumps([fast, *search]), encoding="utf-8")
        part.replace(file)


@cache
def _versions() -> tuple[str, ...]:
    """Return what the code is: versions of the libraries and a hash of this package's own."""
    code, root = hashlib.sha256(), Path(__file__).parents[2]
    for file in sorted(each for each in root.rglob("*") if each.suffix in (".py", ".c")):
        code.update(file.read_bytes())
    return version("torch"), version("transformers"), code.hexdigest()
