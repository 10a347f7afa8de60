"""The page: Gradio blocks, Plotly figures and the token view over traces. Nothing here decodes or stores by itself.

Importing it imports Gradio, in about half the time: at every import Gradio parses the sources of its components and compares them
with the type stubs beside them, which only editors read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def _without_stubs() -> Iterator[None]:
    """Within it the classes of Gradio have no source file; Gradio writes stubs only for those that have one."""
    file_of = inspect.getfile

    def no_file(thing: Any) -> str:
        if str(getattr(thing, "__module__", "")).startswith("gradio."):
            raise OSError("No stubs are written.")
        return file_of(thing)

    inspect.getfile = no_file  # type: ignore[assignment]
    try:
        yield
    finally:
        inspect.getfile = file_of


with _without_stubs():
    import gradio  # noqa: F401
