"""Downloads of a sweep: ``/downloads/sweep.csv?sweep=<id>``, one row a setting, and ``sweep-comparisons.csv``, one row a comparison."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evaluation.sweeps.export import write_points_csv, write_results_csv
from storage import RunStore, StorageError
from ui.kit.told import told
from ui.public.sharing import store_for
from ui.services import Services
from ui.tabs.sweep.handlers import read_sweep

ID = re.compile("[0-9a-f]{32}")
WRITERS: dict[str, Callable[..., None]] = {"sweep.csv": write_points_csv, "sweep-comparisons.csv": write_results_csv}


def sweep_routes(services: Services) -> list[Route]:
    """To be mounted before the routes of the other downloads, which take every name."""
    return [Route(f"/downloads/{name}", _sender(services, name), methods=["GET"]) for name in WRITERS]


def _sender(services: Services, name: str) -> Callable[[Request], Response]:
    def send(request: Request) -> Response:
        sweep_id = request.query_params.get("sweep", "")
        try:
            return sweep_file(store_for(services, request), name, sweep_id)
        except (ValueError, StorageError) as error:
            return PlainTextResponse(f"{told(error, public=services.public)}\n", 404)

    return send


def sweep_file(store: RunStore, name: str, sweep_id: str) -> Response:
    """One of the files. Raises StorageError, and ValueError for a sweep of another version."""
    if not ID.fullmatch(sweep_id):
        return PlainTextResponse("sweep must be an id of 32 hexadecimal digits.\n", 400)
    plan, results = read_sweep(store.sweep(sweep_id))
    stream = io.StringIO(newline="")
    WRITERS[name](stream, sweep_id, plan, results)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(stream.getvalue().encode(), media_type="text/csv; charset=utf-8", headers=headers)
