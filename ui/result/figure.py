"""The file of Plotly on this machine."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse

from display.figure import LIBRARY
from display.sources import source, to_json

SOURCE = f"assets/{LIBRARY.stem}"  # relative, so that it is found wherever the page is mounted
FOREVER = "public, max-age=31536000, immutable"  # its name has its version


def plotly_file(_request: Request) -> FileResponse:
    """Send Plotly, to be cached by the browser."""
    headers = {"Content-Encoding": "gzip", "Cache-Control": FOREVER}
    return FileResponse(LIBRARY, media_type="text/javascript", headers=headers)


def plotly_script() -> str:
    """Return the script of ``marsLibrary()``, the promise of Plotly."""
    return f"const PLOTLY = {to_json(SOURCE)};\n{source('assets/plotly.js')}"
