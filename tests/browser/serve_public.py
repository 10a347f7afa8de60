"""Serves the page as strangers see it, over a small random pair: ``python -m tests.browser.serve_public FOLDER PORT``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

from mars_core.models import ModelPool
from storage import RunStore
from tests.pairs import tiny_pair
from ui.app import build_app, launch_options
from ui.limits import PUBLIC_LIMITS
from ui.workplace import Workplace


def main(folder: Path, port: int) -> int:
    pool = ModelPool(device="cpu", dtype="float32")
    with RunStore(f"sqlite:///{folder / 'runs.db'}") as store:
        place = Workplace(pool, store, (tiny_pair(folder),), public=True, limits=PUBLIC_LIMITS, retention_days=30)
        page = build_app(place).queue(default_concurrency_limit=4)
        signal.signal(signal.SIGTERM, _stop)
        try:
            page.launch(server_port=port, quiet=True, prevent_thread_lock=True, **launch_options(place))
            signal.pause()
        except KeyboardInterrupt:
            return 0
        finally:
            page.close(verbose=False)
    return 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2])))
