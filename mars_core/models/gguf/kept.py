"""What the weights of a GGUF file can be loaded as. Only what reads a file imports ``gguf``, which a
machine for measurements may lack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from mars_core.decoder.quantised.library import lacks_products, multiplies_int4
from mars_core.models.errors import ModelError
from mars_core.models.gguf.describing import header_of
from mars_core.models.source import SOURCE

if TYPE_CHECKING:
    from mars_core.models.gguf.file import Header

_PLAIN = ("F32", "F16", "BF16")


def lacks_levels(folder: Path, name: str) -> str:
    """Return why the weights of the file in ``folder``, of the model ``name``, cannot be used as they
    are; empty where they can."""
    if not (folder / SOURCE).is_file():
        return "that takes a GGUF file"
    try:
        return lacks_levels_of(header_of(folder / SOURCE, name))
    except ModelError as error:
        return str(error).rstrip(".")


def lacks_levels_of(header: Header) -> str:
    """Do the same for the file of a header."""
    from mars_core.models.gguf.kinds import FORMS

    kinds = {each.kind for each in header.tensors.values() if each.kind.name not in _PLAIN}
    if others := sorted(kind.name for kind in kinds - FORMS.keys()):
        return f"its file has tensors in {', '.join(others)}"
    if not kinds:
        return "its file has no quantised tensors"
    four = any(FORMS[kind].bits == 4 for kind in kinds)
    return "" if four and multiplies_int4() else lacks_products()


def stored_dtype(folder: Path, name: str) -> torch.dtype | None:
    """Return the dtype in which a file in ``folder`` keeps its numbers: bfloat16 also for quantised
    ones; None where there is no file, or none of its own."""
    if not (folder / SOURCE).is_file():
        return None
    kinds = {each.kind.name for each in header_of(folder / SOURCE, name).tensors.values()}
    return torch.bfloat16 if kinds - {"F32", "F16"} else None
