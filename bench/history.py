"""``python -m bench.history``: the time of each action of History with 100,000 comparisons, on
SQLite and PostgreSQL.

Comparisons and runs are synthetic and inserted in bulk, without steps and tokens. Most belong to
one owner, some to a second one; one in a hundred is deleted. Each action is timed on a warm
connection, for everything and for both owners.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert

from bench.common.command import Options, Reports, measurement
from bench.common.decoding import DRAFTERS, Ours, complete, loaded, mixed_prompts
from bench.common.measure import timed
from bench.common.postgres import cluster
from bench.common.report import BenchReport, MeasuredFigure, ResultTable
from mars_core.rules import RULES
from mars_core.types import Status, Trace
from storage import RunStore, Search, Sort, Source
from storage.index import reindex
from storage.runs.records import run_row
from storage.schema import ComparisonRow, RunRow
from storage.scope import new_id

MAX_MS = 100
COMPARISONS_A_WRITE = 5000
TARGETS = tuple(f"organisation/model-{size}b-instruct" for size in (1, 3, 7, 8, 14, 32, 70))
SOURCES = (Source.COMPARE,) * 12 + (Source.STUDY,) * 7 + (Source.VOTE,)
OWNERS = ("anna",) * 89 + ("",) * 10 + ("boris",)
STATUSES = (Status.COMPLETED,) * 96 + (Status.CANCELLED,) * 3 + (Status.FAILED,)
LANES = (1, 2, 2, 3, 3, 3, 4, 3)
START = datetime(2026, 1, 1, tzinfo=UTC)
DEEP = 19_980  # the offset of page 1,000
HEADS = ("action", "everything", "owner of 89 %", "owner of 1 %")
SEARCHES = {
    "first page": Search(),
    "page 1,000": Search(offset=DEEP),
    "rule mars": Search(rule="mars"),
    "rule mars, page 1,000": Search(rule="mars", offset=DEEP),
    "rule mars, sort tau": Search(rule="mars", sort=Sort.TAU),
    "rule that is not there": Search(rule="none of these"),
    "target": Search(target=TARGETS[0]),
    "status failed, sort speed": Search(status=Status.FAILED, sort=Sort.TOKENS_PER_S),
    "source vote": Search(source=Source.VOTE),
    "rule, target, status": Search(rule="mars", target=TARGETS[1], status=Status.COMPLETED),
    "tag": Search(tag="tag 3"),
    "a week": Search(since=START, until=START + timedelta(days=7)),
    "text in most, rule mars, sort tau": Search(text="w1", rule="mars", sort=Sort.TAU),
    "text in few, rule mars": Search(text="needle", rule="mars"),
    **{f"text {text!r}": Search(text=text) for text in ("w1", "needle", "zzy", "e", "w9", "日")},
    **{
        f"sort {sort.value}, {'down' if down else 'up'}": Search(sort=sort, descending=down)
        for sort in Sort
        for down in (True, False)
    },
}


def comparison(number: int, rng: random.Random) -> dict[str, Any]:
    """Words as frequent as in texts (Zipf's law)."""
    words = [f"w{int(4000 ** rng.random())}" for _ in range(rng.randint(5, 60))]
    tags = {f"tag {rng.randint(1, 30)}" for _ in range(2)}
    created = START + timedelta(minutes=number)
    return {
        "id": new_id(),
        "created_at": created,
        "chat": False,
        "prompt": " ".join([*words, *["needle"] * (number % 5000 == 7)]),
        "system": "",
        "stop": [],
        "name": " ".join(words[:3]) if number % 10 == 0 else "",
        "tags": sorted(tags) if number % 20 == 0 else [],
        "source": rng.choice(SOURCES),
        "owner": rng.choice(OWNERS),
        "deleted_at": created if number % 100 == 99 else None,
    }


def run(trace: Trace, of: Mapping[str, Any], lane: int, rng: random.Random) -> dict[str, Any]:
    """Make a run; what History does not show is the trace's."""
    return run_row(trace) | {
        "id": new_id(),
        "lane": lane,
        "execution_order": lane,
        "comparison_id": of["id"],
        "created_at": of["created_at"],
        "rule": ("strict", "mars", *rng.choices([*RULES], k=2))[lane],
        "target": rng.choice(TARGETS),
        "status": rng.choice(STATUSES),
        "text": of["prompt"],
        "tokens_per_s": rng.uniform(5, 90),
        "tau": rng.uniform(1, 5),
        "new_tokens": rng.randint(1, 128),
    }


def fill(store: RunStore, count: int) -> None:
    rng, pair = random.Random(0), loaded()
    decoding = Ours(pair, "", DRAFTERS["draft model"], 1.0, 8)
    trace = complete(pair, decoding.config(mixed_prompts(1)[0], 0))
    for first in range(0, count, COMPARISONS_A_WRITE):
        numbers = range(first, min(first + COMPARISONS_A_WRITE, count))
        rows = [comparison(number, rng) for number in numbers]
        runs = [run(trace, each, lane, rng) for each in rows for lane in range(rng.choice(LANES))]
        with store._write("Not filled") as connection:
            connection.execute(insert(ComparisonRow), rows)
            connection.execute(insert(RunRow), runs)
            reindex(connection, [row["id"] for row in rows])


def actions(store: RunStore) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the queries of History, by name."""
    yield "choices", store.choices
    yield "counts", store.counts
    for name, search in SEARCHES.items():
        displayed = replace(search, limit=20, without_batches=search.source is None)
        yield name, partial(store.find, displayed)


def measure(url: str, count: int, rounds: int) -> dict[str, list[float]]:
    """Median milliseconds by action: for everything and for both owners, after one warm-up call."""
    with RunStore(url) as store:
        fill(store, count)
        if store.path is None:  # as the server itself does within minutes
            with store._engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.exec_driver_sql("VACUUM ANALYZE")
    by_action = defaultdict[str, list[float]](list)
    with RunStore(url) as store:
        for scoped in (store, store.of("anna"), store.of("boris")):
            for name, act in actions(scoped):
                act()
                by_action[name].append(1000 * timed(act, rounds))
    return by_action


@measurement("bench.history", __doc__, comparisons=100_000, rounds=5)
def main(options: Options) -> Reports:
    tables, figures, data = [], [], {}
    with TemporaryDirectory(prefix="mars-history-") as folder, cluster() as socket:
        urls = {"SQLite": f"sqlite:///{folder}/runs.db"}
        if socket is not None:
            urls["PostgreSQL"] = f"postgresql://mars@/postgres?host={socket}"
        for name, url in urls.items():
            by_action = data[name] = measure(url, options.comparisons, options.rounds)
            slowest = max(by_action, key=lambda action: max(by_action[action]))
            ms, title = max(by_action[slowest]), f"{name}: slowest action"
            figures.append(MeasuredFigure(title, ms, "ms", slowest, most=MAX_MS))
            tables.append(
                ResultTable(HEADS, [(each, *by_action[each]) for each in by_action], f"{name}, ms")
            )
    title = f"History with {options.comparisons:,} comparisons"
    yield BenchReport(title, list(urls), figures, tables, data)


if __name__ == "__main__":
    raise SystemExit(main())
