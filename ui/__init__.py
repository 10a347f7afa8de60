"""The page: Gradio blocks, Plotly figures and the token view over traces. Nothing here decodes or
stores by itself.

Importing it imports Gradio, in about half the time: at every import Gradio parses the sources of
its components, compares them with the type stubs beside them, which only editors read, and renders
the docstring of every event of every component.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import jinja2


@contextmanager
def _without_documentation() -> Iterator[None]:
    """Within it the classes of Gradio have no source file, for Gradio writes stubs only for those
    that have one, and templates no text."""
    file_of, template = inspect.getfile, jinja2.Template

    def no_file(thing: Any) -> str:
        if str(getattr(thing, "__module__", "")).startswith("gradio."):
            raise OSError("No stubs are written.")
        return file_of(thing)

    inspect.getfile = no_file  # type: ignore[assignment]
    jinja2.Template = lambda _source: SimpleNamespace(render=lambda **_values: "")  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        inspect.getfile, jinja2.Template = file_of, template  # type: ignore[misc]


with _without_documentation():
    import gradio
for _module in (gradio.component_meta, gradio.events):
    _module.Template = jinja2.Template  # type: ignore[attr-defined]
