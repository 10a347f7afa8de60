"""``python -m bench.scale``: a study of 10,000 runs of 512 tokens: the time of its report, rate and memory of its exports.

A worker runs the first tasks on a random pair; the others are copies of them in the database, under ids of their own and with numbers
that differ as those of real runs do. Copying takes minutes where running would take a day.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from bench.growth import save_pair
from bench.machine import RESULTS, machine, stem
from bench.memory import peak_above
from bench.scale_study import LANES, copy_tasks, plan_of, run_tasks
from evaluation.report.measure import measure
from mars_core.models import ModelPool
from mars_core.session import Session
from storage import RunStore, write_tokens_csv, write_tokens_parquet

VOCABULARY = 2048
REPORT_S, ROWS_A_S, GROWTH_MB = 2.0, 20_000, 16  # goals: at most, at least, at most


@dataclass(frozen=True, slots=True)
class Exported:
    """One export of all tokens. ``cpu_s``: of this process; ``few_bytes``, ``peak_bytes``: what it held at most above what was there."""

    name: str
    rows: int
    bytes: int
    wall_s: float
    cpu_s: float
    few_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Scale:
    """What was found. ``reports_s``, ``results_s``: of each reading."""

    runs: int
    tokens: int
    build_s: float
    database_bytes: int
    results_s: tuple[float, ...]
    reports_s: tuple[float, ...]
    exports: tuple[Exported, ...]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def build(url: str, folder: Path, runs: int, tokens: int, base: int) -> str:
    """The id of a study of ``runs`` runs, of which ``base`` tasks were run and the others copied."""
    pair = save_pair(folder / "pair", VOCABULARY)
    plan = plan_of(pair, runs // len(LANES), tokens)
    session = Session(ModelPool(device="cpu", dtype="float32").get(pair))
    with RunStore(url) as store:
        study_id = store.new_study(plan.name, plan.as_dict(), plan.tasks)
        run_tasks(store, study_id, plan, session, base)
    copy_tasks(url, study_id, base, plan.tasks)
    return study_id


def exported(
    store: RunStore, name: str, write: Callable[[Path, Sequence[str] | None], object], folder: Path
) -> Exported:
    """``write``: to a file, some comparisons or all."""
    device, path = torch.device("cpu"), folder / "export"
    ids = [str(id_) for id_ in store.comparisons(limit=1000)["id"]]
    few = ids[: max(1, store.count() // 10)]
    write(path, few)  # statements are compiled, libraries loaded
    few_bytes = peak_above(device, lambda: write(path, few))
    cpu, started = time.process_time(), time.perf_counter()
    peak = peak_above(device, lambda: write(path, None))
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Exported(name, rows_of(store), path.stat().st_size, took, cpu, few_bytes, peak)


def rows_of(store: RunStore) -> int:
    with store.read() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM tokens").scalar_one())


def csv_of(store: RunStore) -> Callable[[Path, Sequence[str] | None], None]:
    def write(path: Path, ids: Sequence[str] | None) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            write_tokens_csv(store, stream, ids)

    return write


def examine(
    url: str, study_id: str, folder: Path, rounds: int
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[Exported, ...]]:
    """Seconds of reading the results, seconds of the report, the exports."""
    with RunStore(url) as store:
        results = tuple(seconds(lambda: store.results(study_id)) for _ in range(rounds))
        reports = tuple(seconds(lambda: measure(store, study_id)) for _ in range(rounds))
        exports = (
            exported(store, "tokens, CSV", csv_of(store), folder),
            exported(store, "tokens, Parquet", lambda path, ids: write_tokens_parquet(store, path, ids), folder),
        )
    return results, reports, exports


def said(found: Scale, facts: Mapping[str, str]) -> str:
    """Markdown."""
    lines = [
        f"# A study of {found.runs:,} runs of {found.tokens} tokens",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        f"- SQLite, {found.database_bytes / 1e9:.2f} GB; built in {found.build_s:.0f} s",
        "",
        "| what | median | all | goal | reached |",
        "|---|---:|---|---:|---|",
    ]
    for name, values, goal in (("results read", found.results_s, None), ("report measured", found.reports_s, REPORT_S)):
        each = ", ".join(f"{value:.2f}" for value in values)
        end = "– | –" if goal is None else f"≤ {goal:g} s | {'yes' if median(values) <= goal else 'no'}"
        lines.append(f"| {name} | {median(values):.2f} s | {each} | {end} |")
    lines += [
        "",
        f"Goals of an export: at least {ROWS_A_S:,} rows a second, and all runs take at most {GROWTH_MB} MB more than a tenth of them do.",
        "",
        "| export | rows | GB | wall, s | rows a second | rows a CPU second | memory, a tenth of the runs | memory, all | reached |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    lines += [_export_row(each) for each in found.exports]
    return "\n".join(lines) + "\n"


def _export_row(each: Exported) -> str:
    fast, flat = each.rows / each.wall_s >= ROWS_A_S, each.peak_bytes - each.few_bytes <= GROWTH_MB * 1e6
    rates = f"{each.rows / each.wall_s:,.0f} | {each.rows / each.cpu_s:,.0f}"
    memory = f"{each.few_bytes / 1e6:.1f} MB | {each.peak_bytes / 1e6:.1f} MB"
    reached = "yes" if fast and flat else "no"
    return (
        f"| {each.name} | {each.rows:,} | {each.bytes / 1e9:.2f} | {each.wall_s:.1f} | {rates} | {memory} | {reached} |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--max-new-tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--base", type=int, default=4, help="tasks that are run and not copied")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="mars-scale-") as name:
        folder = Path(name)
        path = folder / "runs.db"
        url = f"sqlite:///{path}"
        started = time.perf_counter()
        study_id = build(url, folder, options.runs, options.max_new_tokens, options.base)
        built = time.perf_counter() - started
        size = path.stat().st_size
        found = Scale(
            options.runs, options.max_new_tokens, built, size, *examine(url, study_id, folder, options.rounds)
        )
    device = torch.device("cpu")
    command = f"`python -m bench.scale --runs {options.runs} --max-new-tokens {options.max_new_tokens} --rounds {options.rounds}`"
    facts = {"command": command, **machine(device)}
    text = said(found, facts)
    sys.stdout.write(text)
    target = stem(options.out, "scale", device.type)
    target.with_suffix(".md").write_text(text, encoding="utf-8")
    target.with_suffix(".json").write_text(json.dumps({"machine": facts, **asdict(found)}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
