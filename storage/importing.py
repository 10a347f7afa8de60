"""Runs of another instance, from its exports: Parquet files of runs, tokens and nodes, or the ZIP
of "Your data"; and runs of servers, from their records. Exact and idempotent.

Runs with known ids are not changed. Votes, studies and links are not imported.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import select

from mars_core.types import DraftNode, Step, Token, Trace
from storage.errors import StorageError
from storage.export import check_groups
from storage.export.columns import RUNS, SCHEMA_VERSION, TOKENS
from storage.export.tables import EXPORTS, read_values
from storage.runs.comparisons import add_comparison, add_run
from storage.runs.records import NewRun, new_run, read_prompt, trace_row
from storage.schema import ComparisonRow, RunRow, Source
from storage.scope import EVERYBODY, check_id
from storage.store import RunStore
from storage.traces.flat import STEP, read_row

RUNS_A_READ = 100
MAX_JSON = 2**28  # bytes
KINDS = ("runs", "tokens", "nodes")
_DATA = "comparisons.json"  # in the ZIP: times, which the tables lack


@dataclass(frozen=True, slots=True)
class Imported:
    """Number of runs imported, and of runs that were already stored."""

    runs: int
    known: int


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run of a served model, which becomes a separate comparison. ``content``: what it was read
    from; runs of the same content are the same run. ``created_at``: aware; None: now."""

    content: str
    trace: Trace
    created_at: datetime | None
    comment: str


def import_files(
    store: RunStore,
    paths: Sequence[Path],
    read: Callable[[Path], Sequence[ImportedRun]] | None = None,
) -> Imported:
    """Add the runs of these files to ``store``; new comparisons belong to its owner. ``read``:
    reads files that are not exports.

    Each run of an export is added in one transaction, all records together in one; calling it again
    after a failure imports the rest. Raises StorageError for a file that is not an export of this
    version, for runs without their tokens, and for a comparison of another owner, and what ``read``
    raises.
    """
    others = [path for path in paths if read and path.is_file() and not _is_export(path)]
    records = [record for path in others for record in (read(path) if read else ())]
    exports = [path for path in paths if path not in others]
    done = _import_exports(store, exports) if exports else Imported(0, 0)
    added = _add_records(store, records)
    return Imported(done.runs + added, done.known + len(records) - added)


def _is_export(path: Path) -> bool:
    with path.open("rb") as file:
        return is_zipfile(path) or file.read(4) == b"PAR1"


def _add_records(store: RunStore, records: Sequence[ImportedRun]) -> int:
    """The number of new runs."""
    with store._write("The records were not imported") as connection:
        unread = {
            sha256(record.content.encode("utf-8", "surrogatepass")).hexdigest()[:32]: record
            for record in records
        }
        for id_ in [*unread]:
            if connection.execute(select(RunRow.id).where(RunRow.id == id_)).first():
                del unread[id_]
        for id_, record in unread.items():
            created = record.created_at or datetime.now(UTC)
            more = {"id": id_, "created_at": created, "comment": record.comment}
            prompt, owner = record.trace.config.prompt, store.scope.owner
            add_comparison(connection, prompt, Source.SERVER, owner, **more)
            add_run(connection, id_, new_run(record.trace, 0, 0, id_))
    return len(unread)


def _import_exports(store: RunStore, paths: Sequence[Path]) -> Imported:
    new = known = 0
    with TemporaryDirectory(prefix="mars-import-") as folder, ExitStack() as stack, _explained():
        files, times = _files(paths, Path(folder))
        tokens, nodes = (
            _Rows([stack.enter_context(pq.ParquetFile(path)) for path in files[kind]])
            for kind in KINDS[1:]
        )
        for path in files["runs"]:
            with pq.ParquetFile(path) as runs:
                for batch in runs.iter_batches(RUNS_A_READ):
                    for row in batch.to_pylist():
                        values = read_values(RUNS, row)
                        steps = _steps(tokens.of(values["run_id"]), nodes.of(values["run_id"]))
                        created = times.get(values["comparison_id"])
                        added = _add(store, values, steps, created or values["created_at"])
                        new, known = new + added, known + (not added)
    return Imported(new, known)


@contextmanager
def _explained() -> Iterator[None]:
    """Of files whose contents are not what their heads say."""
    try:
        yield
    except (pa.ArrowException, MemoryError, OSError, ValueError) as error:
        raise StorageError(
            f"The import ended: a file is damaged ({type(error).__name__})."
        ) from error


def _files(
    paths: Sequence[Path], folder: Path
) -> tuple[dict[str, list[Path]], dict[str, datetime]]:
    """The Parquet files by kind, and when the comparisons of a ZIP were created, by id."""
    files: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    times: dict[str, datetime] = {}
    for number, path in enumerate(paths):
        if not path.is_file():
            raise StorageError(f"Nothing was imported: the file {path} does not exist.")
        try:
            tables = [path]
            if is_zipfile(path):
                data, *tables = _extracted(path, folder / str(number))
                for row in json.loads(data.read_bytes()):
                    times[row["id"]] = datetime.fromisoformat(row["created_at"])
            for table in tables:
                files[_kind(table)].append(table)
        except (BadZipFile, KeyError, ValueError, OSError, pa.ArrowException) as error:
            raise StorageError(
                f"Nothing was imported: {path} is not an export of MARS Playground ({error})."
            ) from None
    if not files["runs"]:
        raise StorageError(
            "Nothing was imported: no file has runs (runs.parquet, or the ZIP of your data)."
        )
    return files, times


def _extracted(path: Path, folder: Path) -> list[Path]:
    """_DATA and the Parquet files of a ZIP. Raises ValueError for one that is too large."""
    with ZipFile(path) as archive:
        names = (_DATA, *(f"{kind}.parquet" for kind in KINDS))
        sizes = [archive.getinfo(name).file_size for name in names]
        if sizes[0] > MAX_JSON or sum(sizes) > shutil.disk_usage(folder.parent).free // 2:
            raise ValueError(
                f"it has {sizes[0]:,} bytes of {_DATA} and {sum(sizes):,} in all; at most "
                f"{MAX_JSON:,}, and half of the free disk, are read"
            )
        return [Path(archive.extract(name, folder)) for name in names]


def _kind(path: Path) -> str:
    """The kind of an exported Parquet file. Raises ValueError unless it is one of this version."""
    with pq.ParquetFile(path) as file:
        check_groups(file)
        schema = file.schema_arrow
    version = (schema.metadata or {}).get(b"schema_version", b"none").decode()
    for kind in KINDS:
        if schema.names == EXPORTS[kind].schema.names and version == str(SCHEMA_VERSION):
            return kind
    raise ValueError(
        f"schema_version is {version}; it must be {SCHEMA_VERSION}, with all columns of runs, "
        "tokens or nodes"
    )


class _Rows:
    """The rows of each run in some files; of a run that is in several, those of the last."""

    def __init__(self, files: Sequence[pq.ParquetFile]) -> None:
        self._at: dict[str, tuple[pq.ParquetFile, list[int]]] = {}  # run → file and row groups
        for file in files:
            groups: dict[str, list[int]] = {}
            for group in range(file.num_row_groups):
                for run_id in file.read_row_group(group, ["run_id"])["run_id"].unique().to_pylist():
                    groups.setdefault(run_id, []).append(group)
            self._at |= {run_id: (file, some) for run_id, some in groups.items()}
        self._read = lru_cache(2)(
            pq.ParquetFile.read_row_group
        )  # runs are in the order of their rows

    def of(self, run_id: str) -> list[dict[str, Any]]:
        file, groups = self._at.get(run_id, (None, ()))
        tables = (self._read(file, group) for group in groups)
        filtered = (table.filter(pc.equal(table["run_id"], run_id)) for table in tables)
        return [read_values(TOKENS, row) for table in filtered for row in table.to_pylist()]


def _steps(tokens: Sequence[dict[str, Any]], nodes: Sequence[dict[str, Any]]) -> tuple[Step, ...]:
    step = itemgetter("step")
    drafts = {
        number: tuple(read_row(DraftNode, row) for row in rows)
        for number, rows in groupby(nodes, step)
    }
    return tuple(
        Step(
            number,
            **{name: rows[0][f"step_{name}"] for name in STEP},
            nodes=drafts.get(number, ()),
            tokens=tuple(read_row(Token, row) for row in rows),
        )
        for number, rows in ((number, list(rows)) for number, rows in groupby(tokens, step))
    )


def _add(
    store: RunStore, row: Mapping[str, Any], steps: tuple[Step, ...], created: datetime
) -> bool:
    """Whether the run was new. ``created``: its comparison."""
    run_id, comparison_id = row["run_id"], row["comparison_id"]
    check_id(run_id, "run")
    check_id(comparison_id)
    with store._write("The run was not imported") as connection:
        if connection.execute(select(RunRow.id).where(RunRow.id == run_id)).first():
            return False
        if len(steps) != row["steps"]:
            raise StorageError(
                f"The run {run_id} was not imported: it has {row['steps']:,} steps, but the files "
                f"of tokens have {len(steps):,}."
            )
        of_comparison = select(ComparisonRow.owner).where(ComparisonRow.id == comparison_id)
        known = connection.execute(of_comparison).first()
        if known is None:
            more = {name: row[name] for name in ("name", "tags", "comment")}
            more |= {"id": comparison_id, "created_at": created}
            source, owner = Source(row["source"]), store.scope.owner
            add_comparison(connection, read_prompt(row), source, owner, **more)
        elif store.scope.owner not in (EVERYBODY, known.owner):
            raise StorageError(
                f"The run {run_id} was not imported: its comparison belongs to another owner."
            )
        run = {name: row[name] for name in row if name in RunRow.__table__.c} | {"id": run_id}
        add_run(connection, comparison_id, NewRun(run, trace_row(run_id, steps, row["seed"])))
        return True
