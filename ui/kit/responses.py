"""Files as answers: typed by their suffix; what was written to the disk for one goes when it was
sent. And the project's documents, where they lie beside the program."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup, escape
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response

from ui.kit.panel import render

MEDIA = {
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
    ".zip": "application/zip",
}


def attachment(name: str, content: str | bytes) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=MEDIA[Path(name).suffix], headers=disposition)


def written(name: str, write: Callable[[Path], None]) -> FileResponse:
    """Answer the file that ``write`` makes of a path; what that raises leaves no file."""
    with tempfile.NamedTemporaryFile(prefix="mars-", suffix=f"-{name}", delete=False) as file:
        path = Path(file.name)
    try:
        write(path)
    except BaseException:
        path.unlink()
        raise
    return FileResponse(
        path, media_type=MEDIA[path.suffix], filename=name, background=BackgroundTask(path.unlink)
    )


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
