"""Starts the page: settings, models, database with its backup, page, server. The only module that
reads the environment (docs/hosting.md).

The default model is fetched where it is missing, then the page is served. The default pair is
loaded when a visitor opens the page, or after a few seconds; earlier requests load it themselves.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from types import FrameType
from typing import Any

if __name__ == "__main__":
    gc.disable()  # a fifth of the time of all the imports; ``preload`` enables it again
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: no telemetry is sent
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
if "SPACES_ZERO_GPU" in os.environ:
    import spaces  # type: ignore[import-untyped]  # before torch, whose CUDA it emulates

import httpx
from starlette.middleware import Middleware

from hosting.backup import Backup
from hosting.health import ENDING, PairProbe, Probe, database_probe, health_routes
from hosting.logs import set_up
from hosting.metrics import ServerMetrics, labels_of
from hosting.middleware import SPACE_FRAMES, Guard
from hosting.retention import keep_removing
from hosting.settings import ServerSettings, described, offered, read_settings
from hosting.startup import fetched, leave_a_core, opened_store, zero_gpu
from mars_core import __version__
from mars_core.accelerators import Local
from mars_core.jobs import Accelerator
from mars_core.models import CATALOG, ModelPool, PairSpec
from mars_core.rules import RULES
from storage import StorageError
from ui.app import build_app, launch_options
from ui.jobs.preload import preload
from ui.jobs.services import Services
from ui.kit.gradio_compat import (
    forget_components,
    leave_values_to_tools,
    limit_arrival,
    wait_for_streams,
)
from ui.public.limits import PRIVATE_LIMITS, PUBLIC_LIMITS, read_limits

LOG = logging.getLogger("mars")
LOAD_AFTER_S = 5.0  # without a visitor: loading a pair would slow down opening the page
THREADS = 200  # of handlers: every queued request occupies one
# At shutdown, seconds for: saving current runs, notifying clients, the last push of the backup,
# closing connections.
END_S, STREAMS_S, PUSH_S, CLOSE_S = 4.0, 2.0, 4.0, 1.0
# after which the process ends, whatever its threads do
GRACE_S = END_S + STREAMS_S + PUSH_S + CLOSE_S + 2.0


@dataclass(frozen=True, slots=True)
class Application:
    """Objects with the lifetime of the page. ``backup``: None where it is off; ``ending``: a proxy
    sends no more visitors."""

    services: Services
    metrics: ServerMetrics
    loaded: PairProbe
    backup: Backup | None
    ending: Event = field(default_factory=Event)
    opened: Event = field(default_factory=Event)  # set when a visitor opens the page

    @classmethod
    def open(cls, chosen: ServerSettings, catalog: Sequence[PairSpec]) -> Application:
        """Raises ValueError for settings that cannot be used, StorageError for a database that
        cannot."""
        limits = read_limits(chosen.limits, PUBLIC_LIMITS if chosen.public else PRIVATE_LIMITS)
        pairs, absent = fetched(offered(chosen, catalog))
        most = max(2, len(pairs)) if chosen.zero_gpu else 2
        pool = ModelPool(
            device=chosen.device, dtype=chosen.dtype, graphs=chosen.graphs, max_pairs=most
        )
        chosen_threads = "OMP_NUM_THREADS" in os.environ
        engine = ThreadPoolExecutor(1, "engine", None if chosen_threads else leave_a_core)
        accelerator: Accelerator = Local(pool, engine)
        if chosen.zero_gpu:
            accelerator, pairs = zero_gpu(pool, pairs, spaces.GPU)
        store, notice, backup = opened_store(chosen)
        metrics = ServerMetrics(
            labels_of(pairs), RULES, lambda: (services.queue.running, services.queue.waiting)
        )
        services = Services(
            pool,
            store,
            pairs,
            engine=engine,
            accelerator=accelerator,
            public=chosen.public,
            limits=limits,
            sign_in=chosen.sign_in and chosen.public,
            retention_days=chosen.retention_days,
            servers=chosen.servers,
            notice=f"{notice} {absent}".strip(),
            observers=(metrics.observe,),
        )
        return cls(services, metrics, PairProbe(pool.loaded), backup)

    def launch(self, chosen: ServerSettings) -> Any:
        """Serve the page in background threads. Raises OSError."""
        page = build_app(self.services, self.opened.set).queue(
            default_concurrency_limit=4, api_open=not chosen.public
        )
        options = launch_options(
            page, self.services, trust_proxy=chosen.proxy, hosts=(chosen.host, *chosen.hosts)
        )
        more = options["app_kwargs"]
        needed: dict[str, Probe] = {
            "end": lambda: ENDING if self.ending.is_set() else "",
            "database": database_probe(self.services.store),
            "pair": self.loaded,
        }
        guard = Middleware(Guard, frames=SPACE_FRAMES if chosen.public else ())
        more["middleware"].insert(0, guard)
        more["routes"] += health_routes(
            needed,
            {
                "backup": self._backed_up,
                "damaged": self._damaged,
                "locks": lambda: self.services.store.warning or "kept",
            },
        )
        if chosen.metrics:
            more["routes"].append(self.metrics.route)
        page.launch(
            server_name=chosen.host,
            server_port=chosen.port,
            root_path=chosen.root_path or None,
            quiet=True,
            prevent_thread_lock=True,
            mcp_server=chosen.mcp,
            max_threads=THREADS,
            **options,
        )
        forget_components(page)
        limit_arrival(page)
        if chosen.mcp:
            leave_values_to_tools(page)
        return page

    def start(self) -> None:
        services = self.services
        removal = partial(keep_removing, services.store, services.retention_days, self.ending)
        for name, work in (("load", self._load), ("retention", removal)):
            Thread(target=work, name=name, daemon=True).start()
        if self.backup:
            self.backup.start(services.store)

    def _load(self) -> None:
        self.opened.wait(LOAD_AFTER_S)
        if not self.ending.is_set():
            self.services.engine.submit(preload, self.services, self.loaded.fail)

    def close(self, page: Any = None) -> None:
        """Save current runs, push the backup and release all resources, in about ten seconds. Until
        then the server responds."""
        self.ending.set()
        self.opened.set()
        services = self.services
        if not services.shutdown(END_S) and services.queue.running and services.pool.loaded():
            LOG.warning("A run did not end in time; it is not saved.")
        if page:
            wait_for_streams(page, STREAMS_S)
        if self.backup:
            LOG.info(self.backup.stop(PUSH_S))
        if page:
            closing = Thread(
                target=page.close, args=[False], daemon=True
            )  # it waits for open connections
            closing.start()
            closing.join(CLOSE_S)
        services.engine.shutdown(wait=False, cancel_futures=True)
        services.store.close()

    def _backed_up(self) -> str:
        """Public: contains neither the repository nor a path."""
        if self.backup is None:
            return "off"
        if self.backup.problem:
            return "not pushed; the log says why"
        pushed_at = self.backup.pushed_at
        return f"pushed {pushed_at:%Y-%m-%d %H:%M} UTC" if pushed_at else "nothing pushed yet"

    def _damaged(self) -> str:
        """Return the rows that could not be read since the start, by id."""
        return ", ".join(self.services.store.damaged) or "nothing"


def _stop(_signal: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # a second signal would interrupt the shutdown
        signal.signal(number, signal.SIG_IGN)
    faulthandler.dump_traceback_later(
        GRACE_S, exit=True, file=2
    )  # needs no turn of the interpreter
    raise KeyboardInterrupt


def serve(chosen: ServerSettings, catalog: Sequence[PairSpec] = CATALOG) -> int:
    """Run the page until SIGTERM or Ctrl-C: 0 after a clean stop, 2 for invalid settings."""
    set_up(json=chosen.json_log, public=chosen.public)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        application = Application.open(chosen, catalog)
    except (ValueError, StorageError) as error:
        LOG.error(str(error))
        return 2
    except KeyboardInterrupt:
        return 0
    logging.getLogger("mars.faults").addHandler(application.metrics)
    page = None
    try:
        page = application.launch(chosen)
        application.start()
        stored = application.services.store.location
        LOG.info(
            "MARS Playground: http://%s:%s  (runs are stored in %s)",
            chosen.host,
            chosen.port,
            stored,
        )
        while True:  # signal.pause() misses signals that are delivered to another thread
            time.sleep(0.2)
    except KeyboardInterrupt:
        LOG.info("Stopped.")
    except (OSError, httpx.TransportError) as error:  # or Gradio could not reach its page
        LOG.error("The page cannot start on %s:%s: %s", chosen.host, chosen.port, error)
        return 2
    finally:
        application.close(page)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Serves the page.",
        epilog=f"Environment variables (default):\n{described()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", help="address to listen on, instead of HOST")
    parser.add_argument("--port", help="port to listen on, instead of PORT")
    parser.add_argument("--version", action="version", version=__version__)
    overrides = {
        name.upper(): value
        for name, value in vars(parser.parse_args(arguments)).items()
        if value is not None
    }
    try:
        chosen = read_settings(os.environ | overrides)
    except ValueError as error:
        parser.error(str(error))
    return serve(chosen)


if __name__ == "__main__":
    raise SystemExit(main())
