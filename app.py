"""Starts the page: settings from the environment, models, store, blocks, server. The only place that reads the environment.

The page is served first; the engine's thread loads the default pair meanwhile, and whoever asks for it earlier waits for it.

HOST, PORT (default 127.0.0.1:7860), MARS_DATABASE_URL, MARS_DEVICE, MARS_DTYPE, MARS_GRAPHS, MARS_MCP.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import FrameType

if __name__ == "__main__":
    gc.disable()  # a fifth of the time of all the imports; ``_prepare`` enables it again
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: nothing is ever sent anywhere
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from mars_core.models import CATALOG, ModelError, ModelPool, PairSpec
from storage import RunStore, StorageError
from ui.app import build_app, launch_options
from ui.workplace import Workplace

KEPT = timedelta(days=30)  # how long what was deleted can be brought back


@dataclass(frozen=True, slots=True)
class Settings:
    host: str
    port: int
    database: str | None
    device: str
    dtype: str
    graphs: bool = True
    mcp: bool = False  # whether the endpoints are tools of an MCP server too


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
        graphs=_graphs(os.environ.get("MARS_GRAPHS", "auto")),
        mcp=_mcp(os.environ.get("MARS_MCP", "off")),
    )


def _graphs(said: str) -> bool:
    """Whether steps may be recorded. On ZeroGPU every call is a process of its own, in which a recording would serve one run."""
    if said not in ("auto", "off"):
        raise ValueError(f"MARS_GRAPHS is {said!r}; it must be auto or off.")
    return said == "auto" and "SPACES_ZERO_GPU" not in os.environ


def _mcp(said: str) -> bool:
    """Whether to serve MCP. Without its package Gradio would pass over the wish in silence."""
    if said not in ("on", "off"):
        raise ValueError(f"MARS_MCP is {said!r}; it must be on or off.")
    if said == "on" and importlib.util.find_spec("mcp") is None:
        raise ValueError(
            "MARS_MCP is on and the package mcp is missing; install it with pip install -r requirements-mcp.txt."
        )
    return said == "on"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _prepare(workplace: Workplace) -> None:
    """Load the default pair before the first visitor asks; a page without it works all the same, and says what is missing. Then
    remove for good what was deleted long ago.

    What was made up to here stays for good: the garbage collector need not look through it again. A pair may go, so it comes after.
    """
    import mars_core.session  # noqa: F401  (with the libraries of the models, which the page itself does not need)

    gc.freeze()
    gc.enable()
    try:
        workplace.pool.get(workplace.catalog[0])
    except ModelError as error:
        _say(f"The pair {workplace.catalog[0].title!r} is not available: {error}")
    try:
        workplace.store.purge(datetime.now(UTC) - KEPT)
    except StorageError as error:
        _say(str(error))


def serve(chosen: Settings, catalog: Sequence[PairSpec] = CATALOG) -> int:
    """The page until SIGTERM or Ctrl-C: 0 after a clean stop, 2 for settings that cannot be used."""
    try:
        pool = ModelPool(device=chosen.device, dtype=chosen.dtype, graphs=chosen.graphs)
        store = RunStore(chosen.database)
    except (ValueError, StorageError) as error:
        _say(str(error))
        return 2
    signal.signal(signal.SIGTERM, _stop)
    workplace = Workplace(pool, store, tuple(catalog))
    page = build_app(workplace).queue(default_concurrency_limit=4)
    try:
        page.launch(
            server_name=chosen.host,
            server_port=chosen.port,
            quiet=True,
            prevent_thread_lock=True,
            mcp_server=chosen.mcp,
            **launch_options(store),
        )
        workplace.engine.submit(_prepare, workplace)
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
