"""``python -m bench.together``: 16 writers and 16 readers at once, threads of 4 processes, on
SQLite and PostgreSQL.

Every writer saves one run after the other, each as a separate comparison; every reader lists
comparisons and reads one. Afterwards all saved runs are read back.
"""

from __future__ import annotations

import gc
import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.common.command import measurement
from bench.common.postgres import postgres
from bench.common.report import Figure, Report
from bench.coupled import small_run
from mars_core.types import Trace
from storage import RunStore, StorageError

MAX_SAVE_S = 1.0  # goal of one save, at most


@dataclass(frozen=True, slots=True)
class Done:
    """Results of one process. ``saved``: comparison id → seed of its run; seconds of each save and
    of each read; messages of failures."""

    saved: dict[str, int]
    save_s: list[float]
    read_s: list[float]
    failures: list[str]


def work(url: str, trace: Trace, threads: int, seconds: float, process: int) -> Done:
    """``threads`` writers and as many readers on one store."""
    done = Done({}, [], [], [])
    # as the page does (ui.jobs.preload): a full collection of what is imported stops all threads
    # for half a second
    gc.freeze()

    def write(number: int) -> None:
        seed = (process * threads + number) * 1_000_000
        while time.monotonic() < until:
            seed, begun = seed + 1, time.monotonic()
            try:
                comparison_id = store.new_comparison(trace.config.prompt)
                own = replace(trace, config=replace(trace.config, seed=seed))
                store.save_run(comparison_id, own, lane=0, order=0)
            except StorageError as error:
                done.failures.append(str(error))
                continue
            done.save_s.append(time.monotonic() - begun)
            done.saved[comparison_id] = seed

    def read(_number: int) -> None:
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                for comparison_id in store.comparisons(limit=20)["id"][-1:]:
                    store.load(comparison_id)
            except StorageError as error:
                done.failures.append(str(error))
            done.read_s.append(time.monotonic() - begun)

    with RunStore(url) as store, ThreadPoolExecutor(2 * threads) as pool:
        until = time.monotonic() + seconds
        for each in [
            pool.submit(kind, number) for kind in (write, read) for number in range(threads)
        ]:
            each.result()
    return done


def figures(
    name: str, url: str, trace: Trace, processes: int, threads: int, seconds: float
) -> Iterator[Figure]:
    RunStore(url).close()
    with get_context("spawn").Pool(processes) as pool:
        found = pool.map(partial(work, url, trace, threads, seconds), range(processes), chunksize=1)
    saves = [value for one in found for value in one.save_s]
    reads = [value for one in found for value in one.read_s]
    failures = [message for one in found for message in one.failures]
    lost = sum(lost_of(url, trace, one.saved) for one in found)
    yield Figure(
        f"{name}: runs that were saved and are not there, or not whole",
        lost,
        "",
        f"of {len(saves):,}",
        most=0,
    )
    yield Figure(
        f"{name}: saves and reads that failed",
        len(failures),
        "",
        "; ".join(sorted(set(failures))[:3]),
        most=0,
    )
    note = (
        f"comparison and run; by process {', '.join(f'{len(one.save_s):,}' for one in found)} saves"
    )
    yield Figure(f"{name}: longest save", max(saves), "s", note, most=MAX_SAVE_S)
    yield Figure.of(f"{name}: save", saves, "s")
    yield Figure(f"{name}: saves", len(saves) / seconds, "/s")
    yield Figure.of(f"{name}: read", reads, "s")
    yield Figure(f"{name}: reads", len(reads) / seconds, "/s", f"longest {max(reads):.2f} s")


def lost_of(url: str, trace: Trace, saved: dict[str, int]) -> int:
    """Number of comparisons without their one saved run."""
    lost = 0
    with RunStore(url) as store:
        for comparison_id, seed in saved.items():
            try:
                runs = [run.trace for run in store.load(comparison_id).runs]
            except StorageError:
                runs = []
            lost += [(run.config.seed, run.token_ids) for run in runs] != [(seed, trace.token_ids)]
    return lost


@measurement("together", seconds=60, processes=4, threads=4, max_new_tokens=128)
def main(options: Namespace) -> Report:
    trace, found = small_run(options.max_new_tokens), list[Figure]()
    measured = partial(
        figures,
        trace=trace,
        processes=options.processes,
        threads=options.threads,
        seconds=options.seconds,
    )
    with TemporaryDirectory(prefix="mars-together-") as name:
        found += measured("SQLite", f"sqlite:///{Path(name, 'runs.db')}")
    with postgres() as url:
        found += measured("PostgreSQL", url) if url else ()
    many = options.processes * options.threads
    notes = [] if url else ["PostgreSQL is not installed here."]
    title = f"{many} writers and {many} readers for {options.seconds} s, runs of {options.max_new_tokens} tokens"
    return Report(title, notes, found)
