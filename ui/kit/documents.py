"""The project's documents, where they lie beside the program: their titles, and each as a page whose
links work."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from ui.kit.panel import render

FOLDER = Path(__file__).parents[2] / "docs"
GLOSSARY = "glossary.md"
_LINK = re.compile(r"\[([^\[\]]+)\]\((https://[\w/.#?=-]+|[\w/.-]+\.md)(#[\w-]+)?\)")


def titles() -> dict[str, str]:
    """Return the first heading by name of the file; nothing where the documents are not installed."""
    return {
        path.name: path.read_text(encoding="utf-8").split("\n", 1)[0].strip("# ")
        for path in sorted(FOLDER.glob("*.md"))
    }


def document_page(request: Request) -> Response:
    """Answer ``/docs/NAME``: the text as it is written, Markdown."""
    name = request.path_params["name"]
    if name not in {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.md")}:
        return PlainTextResponse("There is no such document here.\n", 404)
    text = escape((FOLDER / name).read_text(encoding="utf-8"))
    linked = Markup(_LINK.sub(r'<a href="\2\3">\1</a>', str(text)))
    return HTMLResponse(render("kit/templates/document.html.jinja", title=name, text=linked))
