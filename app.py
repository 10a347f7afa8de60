"""Starts the page: settings from the environment, models, store, blocks, server. The only place that reads the environment.

HOST, PORT (default 127.0.0.1:7860), MARS_DATABASE_URL, MARS_DEVICE, MARS_DTYPE.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: nothing is ever sent anywhere
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from mars_core.models import CATALOG, ModelError, ModelPool, PairSpec
from storage import RunStore, StorageError
from ui.app import build_app, launch_options
from ui.workplace import Workplace


@dataclass(frozen=True, slots=True)
class Settings:
    host: str
    port: int
    database: str | None
    device: str
    dtype: str


def settings() -> Settings:
    """From the environment. Raises ValueError."""
    port = os.environ.get("PORT", "7860")
    if not port.isascii() or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(f"PORT is {port!r}; it must be a whole number from 1 to 65535.")
    return Settings(
        host=os.environ.get("HOST", "127.0.0.1"),
        port=int(port),
        database=os.environ.get("MARS_DATABASE_URL") or None,
        device=os.environ.get("MARS_DEVICE", "auto"),
        dtype=os.environ.get("MARS_DTYPE", "auto"),
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _warm(workplace: Workplace) -> None:
    """Load the default pair before the first visitor asks; a page without it still starts, and says what is missing."""
    try:
        workplace.engine.submit(workplace.pool.get, workplace.catalog[0]).result()
    except ModelError as error:
        _say(f"The pair {workplace.catalog[0].title!r} is not available: {error}")


def serve(chosen: Settings, catalog: Sequence[PairSpec] = CATALOG) -> int:
    """The page until SIGTERM or Ctrl-C: 0 after a clean stop, 2 for settings that cannot be used."""
    try:
        pool = ModelPool(device=chosen.device, dtype=chosen.dtype)
        store = RunStore(chosen.database)
    except (ValueError, StorageError) as error:
        _say(str(error))
        return 2
    signal.signal(signal.SIGTERM, _stop)
    workplace = Workplace(pool, store, tuple(catalog))
    page = build_app(workplace).queue(default_concurrency_limit=4)
    try:
        _warm(workplace)
        page.launch(
            server_name=chosen.host,
            server_port=chosen.port,
            quiet=True,
            prevent_thread_lock=True,
            **launch_options(store),
        )
        _say(f"MARS Playground: http://{chosen.host}:{chosen.port}  (runs are kept in {store.location})")
        signal.pause()
    except KeyboardInterrupt:
        _say("Stopped.")
    except OSError as error:
        _say(f"The page cannot start on {chosen.host}:{chosen.port}: {error}")
        return 2
    finally:
        page.close(verbose=False)
        workplace.engine.shutdown(wait=False, cancel_futures=True)
        store.close()
    return 0


def main() -> int:
    """The page with the settings of the environment."""
    try:
        return serve(settings())
    except ValueError as error:
        _say(str(error))
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
