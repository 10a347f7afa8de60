"""Serves the real page over small random pairs, the bundled one and a separate database: ``python -m
tests.browser.serve FOLDER PORT``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import app
from hosting.settings import ServerSettings
from mars_core.models import BUNDLED_PAIR, CATALOG
from tests.eagle_pair import eagle_pair
from tests.pairs import tiny_pair
from tests.slow_runs import SlowLocal
from ui.tabs.compare import handlers


def main(folder: Path, port: int) -> int:
    settings = ServerSettings(
        port=port, database=f"sqlite:///{folder / 'runs.db'}", device="cpu", dtype="float32"
    )
    app.Local = SlowLocal  # type: ignore[misc]
    handlers.AUTO_S = (
        0.0  # whether a run is short enough to be repeated unasked would depend on the machine
    )
    answers = replace(BUNDLED_PAIR, key=CATALOG[-1].key, title="Sums")  # "bundled" is the tiny one
    return app.serve(settings, (tiny_pair(folder), eagle_pair(folder), answers))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2])))
