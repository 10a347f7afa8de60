"""Serves the page in public mode as a host does, over a small random pair: ``python -m
tests.unit.ui.public.serve FOLDER PORT``.

Its routes are written to FOLDER/routes.json; while FOLDER/broken is there, listing the rules and
the votes raises.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import app
import ui.api.documents
import ui.tabs.votes.tally
from hosting.settings import ServerSettings
from tests.pairs import tiny_pair
from tests.slow_runs import SlowLocal
from ui.tabs.compare import handlers


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
    for module, name in ((ui.api.documents, "rule_documents"), (ui.tabs.votes.tally, "tally")):
        real = getattr(module, name)

        def broken(*arguments: Any, real: Any = real) -> Any:
            if (folder / "broken").exists():
                raise RuntimeError("a reason that holds what a visitor wrote")
            return real(*arguments)

        setattr(module, name, broken)


class Application(app.Application):
    """Says which routes it has, once it has all of them."""

    folder: Path

    def launch(self, chosen: ServerSettings) -> Any:
        page = super().launch(chosen)
        there = self.folder / "routes"
        there.write_text(json.dumps(sorted(set(paths(page.app.routes)))))
        there.rename(there.with_suffix(".json"))
        return page


def main(folder: Path, port: int) -> int:
    break_on_demand(folder)
    handlers.AUTO_S = (
        0.0  # whether a run is short enough to be repeated unasked would depend on the machine
    )
    Application.folder = folder
    app.Local, app.Application = SlowLocal, Application  # type: ignore[misc]
    settings = ServerSettings(
        port=port,
        database=f"sqlite:///{folder / 'runs.db'}",
        device="cpu",
        dtype="float32",
        public=True,
        limits="new_tokens=16,study_runs=4,runs_an_hour=off",
        retention_days=30,
        mcp=True,
        metrics=True,
        json_log=True,
    )
    return app.serve(settings, (tiny_pair(folder),))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2])))
