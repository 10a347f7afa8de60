"""Serves the page in public mode over a small random pair: ``python -m tests.unit.ui.public.serve
FOLDER PORT``.

Its routes are written to FOLDER/routes.json; while FOLDER/broken is there, listing the rules and
the votes raises.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ui.api.documents
import ui.tabs.votes.view
from mars_core.models import ModelPool
from storage import RunStore
from tests.pairs import tiny_pair
from ui.app import build_app, launch_options
from ui.jobs.services import Services
from ui.kit.gradio_compat import leave_values_to_tools
from ui.public.limits import PUBLIC_LIMITS
from ui.tabs.compare import handlers

LIMITS = replace(PUBLIC_LIMITS, new_tokens=16, study_runs=4, runs_an_hour=None)


def paths(routes: Iterable[Any]) -> Iterator[str]:
    """Of all routes, those of included routers too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route.path
        else:
            yield from paths(inner.routes)


def break_on_demand(folder: Path) -> None:
    """Two functions of the page raise while the file ``broken`` is there."""
    for module, name in ((ui.api.documents, "rule_documents"), (ui.tabs.votes.view, "tally")):
        real = getattr(module, name)

        def broken(*arguments: Any, real: Any = real) -> Any:
            if (folder / "broken").exists():
                raise RuntimeError("a reason that holds what a visitor wrote")
            return real(*arguments)

        setattr(module, name, broken)


def main(folder: Path, port: int) -> None:
    lines = logging.FileHandler(folder / "log")
    lines.setFormatter(
        logging.Formatter(
            "%(name)s %(message)s %(fault)s %(where)s", defaults={"fault": "", "where": ""}
        )
    )
    logging.basicConfig(handlers=[lines], level=logging.ERROR)
    break_on_demand(folder)
    handlers.AUTO_S = (
        0.0  # whether a run is short enough to be repeated unasked would depend on the machine
    )
    with RunStore(f"sqlite:///{folder / 'runs.db'}") as store:
        pool = ModelPool(device="cpu", dtype="float32")
        services = Services(
            pool, store, (tiny_pair(folder),), public=True, limits=LIMITS, retention_days=30
        )
        page = build_app(services).queue(default_concurrency_limit=8, api_open=False)
        options = launch_options(page, services)
        app, _, _ = page.launch(
            server_name="127.0.0.1",
            server_port=port,
            quiet=True,
            prevent_thread_lock=True,
            max_threads=64,
            mcp_server=True,
            **options,
        )
        leave_values_to_tools(page)
        (folder / "routes").write_text(json.dumps(sorted(set(paths(app.routes)))))
        (folder / "routes").rename(folder / "routes.json")  # complete when it is there
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            signal.pause()
        except KeyboardInterrupt:
            page.close(verbose=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
