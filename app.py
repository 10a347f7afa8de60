"""Starts the page: settings, models, database with its backup, page, server. The only place that reads the environment.

The page is served first; the engine's thread loads the default pair meanwhile, and whoever asks for it earlier waits for it.
docs/hosting.md lists what the environment may say.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread
from types import FrameType
from typing import Any

if __name__ == "__main__":
    gc.disable()  # a fifth of the time of all the imports; ``_prepare`` enables it again
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported: nothing is ever sent anywhere
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
if "SPACES_ZERO_GPU" in os.environ:
    import spaces  # type: ignore[import-untyped]  # before torch, whose CUDA it emulates

import httpx
from starlette.middleware import Middleware

from hosting.backup import Backup, backup_of
from hosting.health import Probe, health_routes
from hosting.logs import set_up
from hosting.metrics import FaultCounter, Metrics, labels_of, metrics_routes
from hosting.middleware import OWN, Guard
from hosting.probes import Ending, PairProbe, database_probe
from hosting.retention import Daily, clean
from hosting.settings import Settings, read_settings
from mars_core.jobs import Accelerator
from mars_core.jobs.accelerators import Local, ZeroGpu
from mars_core.models import CATALOG, ModelError, ModelPool, PairSpec
from mars_core.rules import RULES
from storage import RunStore, StorageError, database_file, open_or_set_aside
from ui.app import build_app, launch_options
from ui.kit.session_memory import remember_little
from ui.public.limits import PRIVATE_LIMITS, PUBLIC_LIMITS, read_limits
from ui.services import Services

LOG = logging.getLogger("mars")
KEPT = timedelta(days=30)  # how long what was deleted can be brought back
PUBLIC_PAIRS = ("bundled",)
THREADS = 200  # of handlers: whoever waits in the line holds one
END_S, PUSH_S = 4.0, 4.0  # for saving what runs when the page ends, and for the last push of the backup


@dataclass(frozen=True, slots=True)
class House:
    """What lives as long as the page. ``backup``, ``retention``: None where they are off."""

    services: Services
    metrics: Metrics
    loaded: PairProbe
    ending: Ending
    backup: Backup | None
    retention: Daily | None

    @classmethod
    def open(cls, chosen: Settings, catalog: Sequence[PairSpec]) -> House:
        """Raises ValueError for settings that cannot be used, StorageError for a database that cannot."""
        limits = read_limits(chosen.limits, PUBLIC_LIMITS if chosen.public else PRIVATE_LIMITS)
        pairs = offered(chosen, catalog)
        most = max(2, len(pairs)) if chosen.zero_gpu else 2
        pool = ModelPool(
            device=chosen.device, dtype=chosen.dtype, graphs=chosen.graphs, exact=chosen.exact, max_pairs=most
        )
        engine = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        accelerator: Accelerator = Local(pool, engine)
        if chosen.zero_gpu:
            accelerator, pairs = _zero_gpu(pool, pairs)
        store, notice, backup = _storage(chosen)
        metrics = Metrics(labels_of((pair.target, pair.key) for pair in pairs), RULES)
        services = Services(
            pool, store, pairs, engine=engine, accelerator=accelerator, public=chosen.public, limits=limits,
            sign_in=chosen.sign_in and chosen.public, retention_days=chosen.retention_days, notice=notice,
            observers=(metrics.observe,),
        )  # fmt: skip
        expire = partial(clean, store.expire, chosen.retention_days or 1)
        retention = Daily(expire) if chosen.retention_days else None
        return cls(services, metrics, PairProbe(pool), Ending(), backup, retention)

    def launch(self, chosen: Settings) -> Any:
        """Serve the page from now on, in threads of its own. Raises OSError."""
        options = launch_options(self.services, trust_proxy=chosen.public)
        more = options["app_kwargs"]
        needed: dict[str, Probe] = {
            "database": database_probe(self.services.store),
            "pair": self.loaded,
            "end": self.ending,
        }
        more["middleware"].insert(0, Middleware(Guard, frames=OWN if chosen.public else ()))
        more["routes"] += health_routes(needed, {"backup": self._backed_up})
        if chosen.metrics:
            queue = self.services.queue
            more["routes"] += metrics_routes(self.metrics, lambda: (queue.running, queue.waiting))
        page = build_app(self.services).queue(default_concurrency_limit=4, api_open=not chosen.public)
        page.launch(
            server_name=chosen.host, server_port=chosen.port, root_path=chosen.root_path or None, quiet=True,
            prevent_thread_lock=True, mcp_server=chosen.mcp, max_threads=THREADS, **options,
        )  # fmt: skip
        remember_little(page)
        return page

    def start(self) -> None:
        """What goes on beside the page."""
        self.services.engine.submit(_prepare, self.services, self.loaded.fail)
        if self.backup:
            self.backup.start()
        if self.retention:
            self.retention.start()

    def close(self) -> None:
        """Save what runs, push what is saved, and let go of everything; within ten seconds."""
        self.ending.begin()
        if self.retention:
            self.retention.stop()
        if not self.services.shutdown(END_S):
            LOG.warning("A run did not end in time; it is not saved.")
        if self.backup:
            LOG.info(self.backup.stop(PUSH_S))
        self.services.engine.shutdown(wait=False, cancel_futures=True)
        self.services.store.close()

    def _backed_up(self) -> str:
        """For anybody: neither the place nor a path."""
        if self.backup is None:
            return "off"
        state = self.backup.state
        if state.problem:
            return "not pushed; the log says why"
        return f"pushed {state.pushed_at:%Y-%m-%d %H:%M} UTC" if state.pushed_at else "nothing pushed yet"


def offered(chosen: Settings, catalog: Sequence[PairSpec]) -> tuple[PairSpec, ...]:
    """The pairs that may be chosen, the default first. Raises ValueError."""
    by_key = {pair.key: pair for pair in catalog}
    keys = (
        chosen.pairs or (tuple(key for key in PUBLIC_PAIRS if key in by_key) if chosen.public else ()) or tuple(by_key)
    )
    for key in keys:
        if key not in by_key:
            raise ValueError(f"MARS_PAIRS names {key[:80]!r}; it can name {', '.join(by_key)}.")
    return tuple(by_key[key] for key in dict.fromkeys(keys))


def _zero_gpu(pool: ModelPool, offered: Sequence[PairSpec]) -> tuple[ZeroGpu, tuple[PairSpec, ...]]:
    """All pairs are placed before the page is launched; those that cannot be are not offered. Raises ModelError where none can be."""
    placed, missing = [], []
    for pair in offered:
        try:
            pool.get(pair)
            placed.append(pair)
        except ModelError as error:
            missing.append(error)
            LOG.warning("The pair %s is not available: %s", pair.key, error)
    if not placed:
        raise missing[0]
    return ZeroGpu(pool, placed, spaces.GPU), tuple(placed)


def _storage(chosen: Settings) -> tuple[RunStore, str, Backup | None]:
    """The store, after its backup was restored where the disk is empty, and what there is to say of it. Raises ValueError, StorageError."""
    log = logging.getLogger("mars.backup")
    place = database_file(chosen.database)
    backup = backup_of(chosen.backup_repo, chosen.backup_token, place, chosen.backup_minutes, log)
    if backup and (said := backup.restore()):
        log.info(said)
    store, told = open_or_set_aside(chosen.database)
    if told:
        LOG.warning(told)
        if backup:
            backup.hold("the database that is open is not the one that was backed up.")
    return store, told, backup


def check(chosen: Settings) -> None:
    """Without its package Gradio would pass over the wish for MCP in silence. Raises ValueError."""
    if chosen.mcp and importlib.util.find_spec("mcp") is None:
        raise ValueError(
            "MARS_MCP is on and the package mcp is missing; install it with pip install -r requirements-mcp.txt."
        )


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _prepare(services: Services, failed: Callable[[], None] = lambda: None) -> None:
    """Load the default pair before the first visitor asks; a page without it works all the same, and says what is missing. Then
    remove for good what was deleted long ago.

    What was made up to here stays for good: the garbage collector need not look through it again. A pair may go, so it comes after.
    """
    import mars_core.session  # noqa: F401  (with the libraries of the models, which the page itself does not need)

    gc.freeze()
    gc.enable()
    try:
        services.pool.get(services.catalog[0])
    except ModelError as error:
        failed()
        LOG.warning("The pair %r is not available: %s", services.catalog[0].title, error)
    try:
        services.store.purge(datetime.now(UTC) - KEPT)
    except StorageError as error:
        LOG.warning(str(error))


def serve(chosen: Settings, catalog: Sequence[PairSpec] = CATALOG) -> int:
    """The page until SIGTERM or Ctrl-C: 0 after a clean stop, 2 for settings that cannot be used."""
    set_up(json=chosen.json_log, public=chosen.public)
    signal.signal(signal.SIGTERM, _stop)
    try:
        check(chosen)
        house = House.open(chosen, catalog)
    except (ValueError, StorageError) as error:
        LOG.error(str(error))
        return 2
    except KeyboardInterrupt:
        return 0
    logging.getLogger("mars.faults").addHandler(FaultCounter(house.metrics))
    page = None
    try:
        page = house.launch(chosen)
        house.start()
        LOG.info(
            "MARS Playground: http://%s:%s  (runs are kept in %s)",
            chosen.host,
            chosen.port,
            house.services.store.location,
        )
        signal.pause()
    except KeyboardInterrupt:
        LOG.info("Stopped.")
    except (OSError, httpx.TransportError) as error:  # the latter: Gradio could not reach its own page
        LOG.error("The page cannot start on %s:%s: %s", chosen.host, chosen.port, error)
        return 2
    finally:
        closing = Thread(target=page.close, args=[False], daemon=True) if page else None
        if closing:  # meanwhile: it waits for whoever is still connected
            closing.start()
        house.close()
        if closing:
            closing.join(END_S)
    return 0


def main() -> int:
    """The page with the settings of the environment."""
    try:
        return serve(read_settings(os.environ))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
