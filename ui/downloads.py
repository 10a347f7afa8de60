"""Downloads of saved runs: plain links to routes that write a file in constant memory, send it and remove it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import gradio as gr
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from storage import (
    RunStore,
    StorageError,
    write_nodes_csv,
    write_nodes_parquet,
    write_runs_csv,
    write_runs_parquet,
    write_tokens_csv,
    write_tokens_parquet,
)
from ui.token_view import asset, to_json

Writer = Callable[[RunStore, Path, Sequence[str] | None], None]
ID = re.compile("[0-9a-f]{32}")


def _csv(write: Callable[..., None]) -> Writer:
    def to_file(store: RunStore, path: Path, ids: Sequence[str] | None) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            write(store, stream, ids)

    return to_file


FILES: dict[str, tuple[Writer, str]] = {
    "runs.csv": (_csv(write_runs_csv), "text/csv; charset=utf-8"),
    "tokens.csv": (_csv(write_tokens_csv), "text/csv; charset=utf-8"),
    "nodes.csv": (_csv(write_nodes_csv), "text/csv; charset=utf-8"),
    "runs.parquet": (write_runs_parquet, "application/vnd.apache.parquet"),
    "tokens.parquet": (write_tokens_parquet, "application/vnd.apache.parquet"),
    "nodes.parquet": (write_nodes_parquet, "application/vnd.apache.parquet"),
}


def download_routes(store: RunStore) -> list[Route]:
    """``/downloads/<file>``, all comparisons, or ``?comparison=<id>`` for one."""

    def send(request: Request) -> Response:
        return _file(store, request.path_params["name"], request.query_params.get("comparison"))

    return [Route("/downloads/{name}", send, methods=["GET"])]


def _file(store: RunStore, name: str, comparison: str | None) -> Response:
    if name not in FILES:
        return PlainTextResponse(f"There is no download {name!a}; there are {', '.join(FILES)}.\n", 404)
    if comparison is not None and not ID.fullmatch(comparison):
        return PlainTextResponse("comparison must be an id of 32 hexadecimal digits.\n", 400)
    write, media_type = FILES[name]
    with tempfile.NamedTemporaryFile(prefix="mars-", suffix=f"-{name}", delete=False) as file:
        path = Path(file.name)
    try:
        write(store, path, [comparison] if comparison else None)
    except StorageError as error:
        path.unlink()
        return PlainTextResponse(f"{error}\n", 500)
    return FileResponse(path, media_type=media_type, filename=name, background=BackgroundTask(path.unlink))


def downloads_json(comparison: str) -> str:
    return to_json({"comparison": comparison, "files": list(FILES)})


def downloads_component() -> gr.HTML:
    return gr.HTML(
        value=downloads_json(""),
        html_template='<div class="mars-downloads"></div>',
        js_on_load=asset("downloads.js"),
        apply_default_css=False,
        elem_id="downloads",
    )
