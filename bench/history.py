"""``python -m bench.history``: the time of each action of History with 100,000 comparisons, on
SQLite and PostgreSQL.

Comparisons and runs are synthetic and inserted in bulk, without steps and tokens. Most belong to
one owner, some to a second one; one in a hundred is deleted. Each action is timed on a warm
connection, for everything and for both owners.
"""

from __future__ import annotations

import random
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert

from bench.common.bounds import timed as median_s
from bench.common.command import CPU, measurement
from bench.common.postgres import postgres
from bench.common.report import Cell, Figure, Report, Table
from mars_core.rules import RULES
from mars_core.types import Status
from storage import Choice, RunStore, Search, Sort, Source
from storage.runs.index import reindex
from storage.schema import Comparison, Run, Vote
from storage.scope import new_id

MAX_MS = 100
COMPARISONS_A_WRITE = 5000
WORDS = 4000  # in the vocabulary of the prompts
NAMES = ("strict", "mars", *(name for name in RULES if name not in ("strict", "mars")))
TARGETS = tuple(f"organisation/model-{size}b-instruct" for size in (1, 3, 7, 8, 14, 32, 70))
SOURCES = (Source.COMPARE,) * 12 + (Source.STUDY,) * 7 + (Source.VOTE,)
OWNERS = ("anna",) * 89 + ("",) * 10 + ("boris",)
LANES = (1, 2, 2, 3, 3, 3, 4, 3)
Rows = list[dict[str, Any]]


class Invented:
    """Synthetic rows of comparisons with their runs and votes, deterministic."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        lengths = [self.rng.randint(2, 11) for _ in range(WORDS)]
        self.words = [
            "".join(self.rng.choices(letters, range(26, 0, -1), k=length)) for length in lengths
        ]
        self.weights = [1 / (rank + 1) for rank in range(WORDS)]  # Zipf's law
        kinds = {"JSON": [], "INTEGER": 5, "BIGINT": 5, "DOUBLE": 1.5, "BOOLEAN": False}
        self.run = {
            column.name: None if column.nullable else kinds.get(str(column.type).split("(")[0], "")
            for column in Run.__table__.columns
        }
        self.run |= {"rule_parameters": {"theta": 0.9}, "stop_reason": "eos", "draft_mode": "chain"}
        self.run |= {"environment": {"device": "cpu"}}
        self.start = datetime(2026, 1, 1, tzinfo=UTC)

    def text(self, words: int) -> str:
        return " ".join(self.rng.choices(self.words, self.weights, k=words))

    def rows(self, first: int, count: int) -> tuple[Rows, Rows, Rows]:
        """Comparisons, runs and votes, those numbered from ``first``."""
        comparisons, runs, votes = [], [], []
        for number in range(first, first + count):
            comparison = self._comparison(number)
            lanes = [self._run(comparison, lane) for lane in range(self.rng.choice(LANES))]
            comparisons.append(comparison)
            runs += lanes
            if comparison["source"] is Source.VOTE and len(lanes) > 1 and number % 3:
                sides = {"left_run_id": lanes[0]["id"], "right_run_id": lanes[1]["id"]}
                vote = {
                    "id": new_id(),
                    "comparison_id": comparison["id"],
                    "created_at": comparison["created_at"],
                }
                votes.append(
                    vote | sides | {"choice": self.rng.choice(list(Choice)), "comment": ""}
                )
        return comparisons, runs, votes

    def _comparison(self, number: int) -> dict[str, Any]:
        prompt = self.text(self.rng.randint(5, 60)) + (
            " a rare needle" if number % 5000 == 7 else ""
        )
        name = self.text(3) if number % 10 == 0 else ""
        tags = (
            sorted({f"tag {self.rng.randint(1, 30)}" for _ in range(2)}) if number % 20 == 0 else []
        )
        created = self.start + timedelta(seconds=60 * number)
        row = {
            "id": new_id(),
            "created_at": created,
            "chat": False,
            "prompt": prompt,
            "system": "",
            "stop": [],
        }
        row |= {"name": name, "tags": tags, "comment": "", "source": self.rng.choice(SOURCES)}
        row |= {"owner": self.rng.choice(OWNERS)}
        return row | {"deleted_at": created if number % 100 == 99 else None}

    def _run(self, comparison: Mapping[str, Any], lane: int) -> dict[str, Any]:
        draw = self.rng.random()
        status = (
            Status.COMPLETED if draw < 0.96 else Status.CANCELLED if draw < 0.99 else Status.FAILED
        )
        rule = NAMES[lane] if lane < 2 else self.rng.choice(NAMES)
        row = {
            "id": new_id(),
            "comparison_id": comparison["id"],
            "lane": lane,
            "execution_order": lane,
            "rule": rule,
        }
        row |= {
            "target": self.rng.choice(TARGETS),
            "status": status,
            "created_at": comparison["created_at"],
        }
        row |= {"tokens_per_s": self.rng.uniform(5, 90), "tau": self.rng.uniform(1, 5)}
        row |= {"new_tokens": self.rng.randint(1, 128)}
        return self.run | row | {"text": self.text(40), "prompt_ids": list(range(60))}


def fill(store: RunStore, comparisons: int) -> None:
    """Inserts the comparisons, one per second of created_at."""
    invented = Invented()
    for first in range(0, comparisons, COMPARISONS_A_WRITE):
        rows = invented.rows(first, min(COMPARISONS_A_WRITE, comparisons - first))
        with store._write("Not filled") as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA cache_size = -500000")
            for table, each in zip((Comparison, Run, Vote), rows, strict=True):
                if each:
                    connection.execute(insert(table), each)
            reindex(connection, [row["id"] for row in rows[0]])


def actions(store: RunStore, comparisons: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The queries of History, by name."""
    common, rare = Invented().words[0], "rare needle"
    middle = Invented().start + timedelta(minutes=comparisons // 2)

    def find(**criteria: Any) -> Callable[[], object]:
        return lambda: store.find(Search(limit=20, **{"without_batches": True, **criteria}))

    yield "first page", find()
    yield "page 1,000", find(offset=19_980)
    yield "everything, page 1,000", find(without_batches=False, offset=19_980)
    yield "choices", store.choices
    yield "counts", store.counts
    yield "rule mars", find(rule="mars")
    yield "rule fly", find(rule="fly")
    yield "rule that is not there", find(rule="none of these")
    yield "target", find(target=TARGETS[0])
    yield "status failed", find(status=Status.FAILED)
    yield "source vote", find(source=Source.VOTE, without_batches=False)
    yield "tag", find(tag="tag 3")
    yield "since the middle", find(since=middle)
    yield "a week", find(since=middle, until=middle + timedelta(days=7))
    yield "text in most", find(text=common)
    yield "text in few", find(text=rare)
    yield "text in none", find(text="is not there")
    for text in ("e", "j", "qz", "日", "zzy"):
        yield f"text {text!r}", find(text=text)
    for sort in Sort:
        for descending in (True, False):
            way = "descending" if descending else "ascending"
            yield f"sort {sort.value} {way}", find(sort=sort, descending=descending)
    yield "sort tau, page 1,000", find(sort=Sort.TAU, offset=19_980)
    yield "rule mars, page 1,000", find(rule="mars", offset=19_980)
    yield "rule mars, sort tau", find(rule="mars", sort=Sort.TAU)
    yield "status failed, sort speed", find(status=Status.FAILED, sort=Sort.TOKENS_PER_S)
    yield "rule, target, status", find(rule="mars", target=TARGETS[1], status=Status.COMPLETED)
    yield "text in few, rule mars", find(text=rare, rule="mars")
    yield "text in most, rule mars, sort tau", find(text=common, rule="mars", sort=Sort.TAU)


def timed(store: RunStore, comparisons: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of each action, after one warm-up call."""
    found = {}
    for name, act in actions(store, comparisons):
        act()
        found[name] = 1000 * median_s(act, CPU, rounds)
    return found


def measure(url: str, comparisons: int, rounds: int) -> tuple[dict[str, dict[str, float]], float]:
    """Milliseconds by owner ("": everything) and action; and the seconds of inserting."""
    started = time.perf_counter()
    with RunStore(url) as store:
        fill(store, comparisons)
    took = time.perf_counter() - started
    with RunStore(url) as store:
        if store.path is None:
            with store._engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as connection:
                connection.exec_driver_sql(
                    "VACUUM ANALYZE"
                )  # as the server itself does within minutes
        each = {owner: store.of(owner) if owner else store for owner in ("", "anna", "boris")}
        return {owner: timed(scoped, comparisons, rounds) for owner, scoped in each.items()}, took


@measurement("history", comparisons=100_000, rounds=5)
def main(options: Namespace) -> Report:
    tables, figures, notes, data = [], [], list[str](), dict[str, Any]()
    with TemporaryDirectory(prefix="mars-history-") as folder, postgres() as server:
        for name, url in (
            ("SQLite", f"sqlite:///{Path(folder, 'runs.db')}"),
            ("PostgreSQL", server),
        ):
            if url is None:
                notes.append("PostgreSQL is not installed here, so it was not measured.")
                continue
            found, took = measure(url, options.comparisons, options.rounds)
            notes.append(f"{name}: filled in {took:.0f} s")
            data[name] = found
            slowest, action = max(
                (ms, action) for each in found.values() for action, ms in each.items()
            )
            figures.append(Figure(f"{name}: slowest action", slowest, "ms", action, most=MAX_MS))
            rows: list[list[Cell]] = [
                [action, *(each[action] for each in found.values())] for action in found[""]
            ]
            tables.append(
                Table(
                    ("action", "everything", "owner of 89 %", "owner of 1 %"), rows, f"{name}, ms"
                )
            )
    return Report(f"History with {options.comparisons:,} comparisons", notes, figures, tables, data)
