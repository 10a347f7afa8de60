"""``python -m bench.scale``: a study of 10,000 runs of 512 tokens: bytes per token, time of a save,
a read and the report, rate and memory of the exports; and the bytes per token of shorter runs and
of trees.

A worker runs the first tasks on a random pair; the others are copies of them in the database, with
new ids and with numbers that vary like those of real runs. Copying takes minutes, running would
take a day.
"""

from __future__ import annotations

import random
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, func, insert, literal, select, update
from sqlalchemy.orm import DeclarativeBase

from bench.common.bounds import seconds
from bench.common.command import CPU, measurement
from bench.common.decoding import TREE, bundled, complete, config_of
from bench.common.report import Figure, Report
from bench.coupled import small_pair
from bench.memory import halves
from evaluation.report.measure import measure
from evaluation.scoring.names import CONTAINS
from evaluation.study.engine import InProcess
from evaluation.study.plan import Lane, Models, Plan
from evaluation.study.worker import Saved, Worker
from evaluation.suites.item import Item, Suite
from mars_core.demo.corpus import held_out_requests
from mars_core.models import PairSpec
from mars_core.session import Session
from mars_core.types import DrafterConfig, PromptConfig, RuleConfig
from storage import RunStore, write_csv, write_parquet
from storage.database import clock
from storage.schema import Comparison, Run, RunTrace, StudyResult, StudyTask
from storage.scope import new_id
from storage.traces.flat import flatten
from storage.traces.packing import pack

REPORT_S, GROWTH_MB, CSV_ROWS, PARQUET_ROWS = (
    2.0,
    16,
    150_000,
    400_000,
)  # goals: at most, at most, at least, at least
SAVE_MS, READ_MS = 15.0, 10.0  # of a run of 512 tokens, at most
BYTES = {128: 150, 512: 100}  # tokens of a run: bytes a token at most
THETAS = (0.84, 0.9, 0.96)
DRAFTER = DrafterConfig("model", k=5)
LANES = (
    Lane(RuleConfig("none"), DrafterConfig("none")),
    Lane(RuleConfig("strict"), DRAFTER),
    *(Lane(RuleConfig("mars", {"theta": theta}), DRAFTER) for theta in THETAS),
)
TEMPERATURES, REPEATS = (0.0, 1.0), 2
TASKS_A_WRITE = 20


def plan_of(pair: PairSpec, tasks: int, tokens: int) -> Plan:
    """``tasks``, rounded down to whole items; all lanes of each."""
    rng = random.Random(0)
    words = [f"t{number}" for number in range(1, 100)]
    items = tasks // (len(TEMPERATURES) * REPEATS)
    suite = Suite(
        "synthetic",
        tuple(
            Item(str(number), (" ".join(rng.choices(words, k=8)),), (rng.choice(words),))
            for number in range(items)
        ),
        metrics=(CONTAINS,),
    )
    models = Models(pair.key, pair.target, pair.draft, pair.head)
    return Plan(
        "scale", models, (suite,), LANES, TEMPERATURES, REPEATS, max_new_tokens=tokens, chat=False
    )


def run_tasks(store: RunStore, study_id: str, plan: Plan, session: Session, tasks: int) -> None:
    """Run the first ``tasks``, and no more."""
    worker = Worker(store, study_id, plan, session, InProcess(session), "bench")
    with closing(worker.events()) as events:
        for event in events:
            if not isinstance(event, Saved) and store.study_progress(study_id).done == tasks:
                return


def copy_tasks(store: RunStore, study_id: str, done: int, tasks: int) -> None:
    """Make tasks ``done`` to ``tasks`` copies of those before them."""
    rng = random.Random(1)
    for start in range(done, tasks, TASKS_A_WRITE):
        with store._write("Not copied") as connection:
            for task in range(start, min(start + TASKS_A_WRITE, tasks)):
                _copy_task(connection, study_id, task % done, task, rng)


def _copy_task(
    connection: Connection, study_id: str, source: int, task: int, rng: random.Random
) -> None:
    comparison_id = new_id()
    here = StudyTask.study_id == study_id
    (old,) = connection.execute(
        select(StudyTask.comparison_ids).where(here, StudyTask.task == source)
    ).scalar_one()
    _copy(
        connection,
        Comparison,
        "id",
        old,
        {"id": comparison_id, "created_at": clock(connection), "number": None},
    )
    found = select(StudyResult.__table__).where(
        StudyResult.study_id == study_id, StudyResult.task == source
    )
    for row in connection.execute(found).mappings().all():
        run_id = new_id()
        _copy(
            connection, Run, "id", row["run_ids"][0], {"id": run_id, "comparison_id": comparison_id}
        )
        _copy(connection, RunTrace, "run_id", row["run_ids"][0], {"run_id": run_id})
        copied = dict(row) | {"task": task, "run_ids": [run_id]} | _varied(dict(row), rng)
        connection.execute(insert(StudyResult), copied)
    ended = {"done_at": clock(connection), "comparison_ids": [comparison_id]}
    connection.execute(update(StudyTask).where(here, StudyTask.task == task).values(ended))


def _copy(
    connection: Connection, table: type[DeclarativeBase], key: str, old: str, new: Mapping[str, Any]
) -> None:
    """The rows whose ``key`` is ``old``, with the values of ``new`` in place of their own."""
    columns = table.__table__.c
    values = [
        literal(new[column.name], column.type) if column.name in new else column
        for column in columns
    ]
    rows = select(*values).where(columns[key] == old)
    connection.execute(insert(table).from_select([column.name for column in columns], rows))


def _varied(row: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Times, scores and agreement as different as those of other prompts would be."""
    data, relative = dict(row["data"]), dict(row["relative"])
    for name in ("wall_s", "draft_s", "verify_s"):
        data[name] *= rng.uniform(0.8, 1.25)
    data["scores"] = {name: float(rng.random() < 0.7) for name in data["scores"]}
    relative |= {name: rng.random() for name in ("bleu", "chrf", "rouge_l")}
    return {"data": data, "relative": relative}


def build(url: str, runs: int, tokens: int, base: int) -> str:
    """The id of a study of ``runs`` runs, of which ``base`` tasks were run and the others
    copied."""
    pair = small_pair()
    plan = plan_of(pair.spec, runs // len(LANES), tokens)
    with RunStore(url) as store:
        study_id = store.new_study(plan.name, plan.as_dict(), plan.tasks)
        run_tasks(store, study_id, plan, Session(pair), base)
        copy_tasks(store, study_id, base, plan.tasks)
    return study_id


def examine(url: str, study_id: str, folder: Path, rounds: int) -> Iterator[Figure]:
    """Reading the results, measuring the report, the exports."""

    with RunStore(url) as store:
        yield from one_run(store, rounds)
        results = [seconds(lambda: store.results(study_id), CPU) for _ in range(rounds)]
        yield Figure.of("results read", results, "s")
        reports = [seconds(lambda: measure(store, study_id), CPU) for _ in range(rounds)]
        yield Figure.of("report measured", reports, "s", most=REPORT_S)
        yield from exported(store, "tokens, CSV", write_csv, folder / "csv", CSV_ROWS)
        yield from exported(
            store, "tokens, Parquet", write_parquet, folder / "parquet", PARQUET_ROWS
        )


def one_run(store: RunStore, rounds: int) -> Iterator[Figure]:
    """The time of saving one more run, and of reading it."""
    last = store.load(str(store.comparisons(limit=1)["id"].item()))
    drafted = [run.trace for run in last.runs if run.trace.config.rule.name != "none"]
    trace = max(drafted, key=lambda trace: len(trace.steps))
    ids = [store.new_comparison(trace.config.prompt) for _ in range(10 * rounds)]
    saved = [
        1000 * seconds(partial(store.save_run, id_, trace, lane=0, order=0), CPU) for id_ in ids
    ]
    read = [1000 * seconds(partial(store.load, id_), CPU) for id_ in ids]
    for id_ in ids:
        store.delete(id_)
    tokens = len(trace.tokens)
    yield Figure.of(f"a run of {tokens} tokens saved", saved, "ms", most=SAVE_MS)
    yield Figure.of(f"a run of {tokens} tokens read", read, "ms", most=READ_MS)


def sizes(runs: int) -> Iterator[Figure]:
    """Bytes a token of the columnar values of the bundled pair's and of a random pair's runs."""
    story = held_out_requests(1)[0]
    pairs = {
        "bundled": (bundled(device="cpu", dtype="float32"), story),
        "random": (small_pair(), "t1"),
    }
    shapes = {
        "chains, K = 5": (DRAFTER, "random"),
        "trees of 12": (DrafterConfig("eagle3", tree=TREE), "bundled"),
    }
    rule = RuleConfig("mars", {"theta": THETAS[1]})
    for (name, (drafter, where)), (tokens, most), temperature in product(
        shapes.items(), BYTES.items(), (0.0, 1.0)
    ):
        pair, prompt = pairs[where]
        configs = (
            config_of(pair, PromptConfig(prompt), drafter, temperature, tokens, seed, rule)
            for seed in range(runs)
        )
        traces = [complete(pair, config) for config in configs]
        found = [
            len(pack(flatten(trace.steps, trace.config.seed))) / len(trace.tokens)
            for trace in traces
        ]
        longest = max(len(trace.tokens) for trace in traces)
        title = f"bytes a token: {name}, temperature {temperature:g}, {longest} tokens"
        yield Figure.of(title, found, "B", most=most if where == "random" else None)


def exported(
    store: RunStore, name: str, write: Callable[..., None], path: Path, least: int
) -> Iterator[Figure]:
    """``write`` of all runs to a file, after that of some comparisons: statements are compiled,
    libraries loaded."""
    some = store.comparisons(limit=max(1, store.count() // 10))["id"]
    write("tokens", store, path, map(str, some))
    rows = rows_of(store)
    cpu, started = time.process_time(), time.perf_counter()
    first, last = halves(lambda: write("tokens", store, path))
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    note = f"{rows:,} rows, {path.stat().st_size / 1e9:.2f} GB in {took:.1f} s; {rows / cpu:,.0f} rows a CPU second"
    yield Figure(name, rows / took, "rows/s", note, least=least)
    note = f"resident in the first half {first / 1e6:.1f} MB, in the second {last / 1e6:.1f} MB, medians"
    yield Figure(f"{name}: growth of memory", (last - first) / 1e6, "MB", note, most=GROWTH_MB)


def rows_of(store: RunStore) -> int:
    """Tokens, of which the rejected ones are not in the text; one of every step but the last."""
    with store.read() as connection:
        columns = Run.__table__.c
        tokens, rejected = connection.execute(
            select(func.sum(columns.new_tokens), func.sum(columns.recovered))
        ).one()
        return int(tokens + rejected)


@measurement("scale", runs=10_000, max_new_tokens=512, rounds=3, base=4)
def main(options: Namespace) -> Report:
    """``base``: tasks that are run and not copied."""
    with TemporaryDirectory(prefix="mars-scale-") as name:
        path = Path(name, "runs.db")
        url, started = f"sqlite:///{path}", time.perf_counter()
        study_id = build(url, options.runs, options.max_new_tokens, options.base)
        notes = [
            f"SQLite, {path.stat().st_size / 1e9:.2f} GB; built in {time.perf_counter() - started:.0f} s"
        ]
        figures = [*sizes(options.rounds), *examine(url, study_id, path.parent, options.rounds)]
    return Report(
        f"A study of {options.runs:,} runs of {options.max_new_tokens} tokens", notes, figures
    )
