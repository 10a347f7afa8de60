"""Files as answers: typed by their suffix; what was written to the disk for one goes when it was
sent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

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
