"""RunStore: keeps runs whole or not at all and hands them back. Knows no models, no screen and no environment."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
from platformdirs import user_data_path
from sqlalchemy import URL, Connection, RowMapping, Select, delete, func, insert, select

from mars_core.types import PromptConfig, Trace
from storage.columns import SafeText
from storage.database import WRITING, file_of, location_of, open_database, parse_url
from storage.errors import StorageError, explained
from storage.records import (
    check_id,
    check_numbering,
    no_comparison,
    prompt_row,
    read_prompt,
    read_trace,
    rule_label,
    run_row,
    step_rows,
    token_rows,
)
from storage.schema import Comparison, Run, Step, Token
from storage.text import readable

Query = Select[*tuple[Any, ...]]
PROMPT_PREVIEW = 280  # characters of the prompt in the table of comparisons
_LANE_COLUMNS = ("rule", "status", "new_tokens", "tau", "tokens_per_s", "ttft_s", "wall_s", "relaxed_share")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was saved. ``lane``: its column, 0-based; ``order``: its place in the order of execution."""

    id: str
    lane: int
    order: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A comparison and its runs, by lane, then order. ``created_at`` is aware, in UTC."""

    id: str
    created_at: datetime
    prompt: PromptConfig
    runs: tuple[StoredRun, ...]


class RunStore:
    """The runs in one database: ``sqlite:////folder/file.db`` or ``postgresql://…``; None: a file in the data folder.

    May be used from several threads; writes are made one after the other. Every method raises StorageError when the
    database fails, and then nothing has been changed.
    """

    def __init__(self, url: str | None = None) -> None:
        """Open the database, make its folder and file where missing, and bring its schema up to date."""
        parsed = default_url() if url is None else parse_url(url)
        self.path: Path | None = file_of(parsed)  # None for a server
        self.location: str = location_of(parsed)  # for people; holds no password
        self._engine = open_database(parsed)
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def new_comparison(self, prompt: PromptConfig) -> str:
        """Make a comparison without runs; returns its id."""
        comparison_id = uuid.uuid4().hex
        row = {"id": comparison_id, "created_at": datetime.now(UTC), **prompt_row(prompt)}
        with self._write("The comparison was not saved") as connection:
            connection.execute(insert(Comparison), row)
        return comparison_id

    def save_run(self, comparison_id: str, trace: Trace, *, lane: int, order: int) -> str:
        """Save a run, whole or not at all; returns its id. Its prompt must be the comparison's."""
        check_numbering(trace)
        run_id = uuid.uuid4().hex
        keys = {"id": run_id, "comparison_id": comparison_id, "lane": lane, "execution_order": order}
        run = keys | {"created_at": datetime.now(UTC)} | run_row(trace)
        steps, tokens = step_rows(trace, run_id), list(token_rows(trace, run_id))
        with self._write("The run was not saved") as connection:
            if read_prompt(_comparison(connection, comparison_id)) != trace.config.prompt:
                raise StorageError("The run was not saved: its prompt is not the prompt of its comparison.")
            connection.execute(insert(Run), run)
            if steps:
                connection.execute(insert(Step), steps)
            if tokens:
                connection.execute(insert(Token), tokens)
        return run_id

    def delete(self, comparison_id: str) -> None:
        """Remove a comparison with its runs, steps and tokens."""
        with self._write("The comparison was not deleted") as connection:
            _comparison(connection, comparison_id)
            connection.execute(delete(Comparison).where(Comparison.id == comparison_id))

    def load(self, comparison_id: str) -> StoredComparison:
        """A comparison with the traces that were saved. Raises StorageError where there is none of this id."""
        with self.read() as connection:
            row = _comparison(connection, comparison_id)
            prompt = read_prompt(row)
            statement = select(Run.__table__).where(Run.comparison_id == comparison_id)
            runs = _rows(connection, statement.order_by(Run.lane, Run.execution_order))
            stored = tuple(_stored(connection, run, prompt) for run in runs)
        return StoredComparison(row["id"], row["created_at"], prompt, stored)

    def count(self) -> int:
        """How many comparisons there are."""
        with self.read() as connection:
            return connection.execute(select(func.count()).select_from(Comparison)).scalar_one()

    def comparisons(self, *, limit: int = 200, offset: int = 0) -> pd.DataFrame:
        """One page of the comparisons, latest first, one row each.

        Columns: ``id``, ``created_at`` (UTC), ``prompt`` (its first 280 characters, made ``text.readable``), ``target``
        (of the first lane; empty where there is no run); and, each a tuple with one entry a run by lane: ``rules``,
        ``status``, ``new_tokens``, ``tau``, ``tokens_per_s``, ``ttft_s``, ``wall_s``, ``relaxed_share``.
        """
        if limit < 0 or offset < 0:
            raise StorageError(f"limit and offset must be 0 or more, not {limit} and {offset}.")
        with self.read() as connection:
            page = _page(limit, offset)
            comparisons, runs = _rows(connection, page), _rows(connection, _lanes(page))
        return _frame(comparisons, runs)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on one unchanging state of the database. Keep it briefly: on SQLite it holds up writers."""
        with explained("The database could not be read", self.location), self._engine.connect() as connection:
            if self._engine.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def _write(self, failure: str) -> Iterator[Connection]:
        with (
            self._writing,
            explained(failure, self.location),
            self._engine.connect().execution_options(**{WRITING: True}) as connection,
            connection.begin(),
        ):
            yield connection


def default_url() -> URL:
    """The SQLite file in this user's data folder."""
    return URL.create("sqlite", database=str(user_data_path("mars-playground", appauthor=False) / "runs.db"))


def _rows(connection: Connection, statement: Query) -> Sequence[RowMapping]:
    return connection.execute(statement).mappings().all()


def _comparison(connection: Connection, comparison_id: str) -> RowMapping:
    check_id(comparison_id)
    statement = select(Comparison.__table__).where(Comparison.id == comparison_id)
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        raise no_comparison(comparison_id)
    return row


def _stored(connection: Connection, run: RowMapping, prompt: PromptConfig) -> StoredRun:
    steps = _rows(connection, select(Step.__table__).where(Step.run_id == run["id"]).order_by(Step.step))
    statement = select(Token.__table__).where(Token.run_id == run["id"]).order_by(Token.step, Token.ordinal)
    trace = read_trace(run, prompt, steps, _rows(connection, statement))
    return StoredRun(run["id"], run["lane"], run["execution_order"], trace)


def _page(limit: int, offset: int) -> Query:
    preview = func.substr(Comparison.prompt, 1, PROMPT_PREVIEW, type_=SafeText).label("prompt")
    statement = select(Comparison.id, Comparison.created_at, preview)
    return statement.order_by(Comparison.created_at.desc(), Comparison.id.desc()).limit(limit).offset(offset)


def _lanes(page: Query) -> Query:
    table = Run.__table__.c
    columns = (
        table.comparison_id,
        table.target,
        table.rule_parameters,
        table.drafter,
        *(table[name] for name in _LANE_COLUMNS),
    )
    statement = select(*columns).where(Run.comparison_id.in_(select(page.subquery().c.id)))
    return statement.order_by(Run.comparison_id, Run.lane, Run.execution_order)


def _frame(comparisons: Sequence[RowMapping], runs: Sequence[RowMapping]) -> pd.DataFrame:
    lanes: dict[str, list[RowMapping]] = {row["id"]: [] for row in comparisons}
    for run in runs:
        lanes[run["comparison_id"]].append(run)
    data: dict[str, list[Any]] = {name: [row[name] for row in comparisons] for name in ("id", "created_at")}
    data["prompt"] = [readable(row["prompt"]) for row in comparisons]  # pandas keeps strings as UTF-8
    data["target"] = [readable(lane[0]["target"]) if lane else "" for lane in lanes.values()]
    data["rules"] = [tuple(rule_label(run) for run in lane) for lane in lanes.values()]
    for name in _LANE_COLUMNS[1:]:
        data[name] = [tuple(run[name] for run in lane) for lane in lanes.values()]
    frame = pd.DataFrame(data)
    return frame.astype({"created_at": "datetime64[us, UTC]"})
