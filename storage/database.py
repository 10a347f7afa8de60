"""From a URL to an engine on an up-to-date schema: dialects, pragmas, transactions, migrations.

SQLite: foreign keys on, synchronous FULL, ``BEGIN IMMEDIATE`` for writers. The execution option
UNTIL makes a transaction a writing one and limits its waits, all together. An older schema is
migrated in one transaction; a newer or foreign one raises an error before anything is written.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from platformdirs import user_data_path
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError

from storage.errors import StorageError, explained
from storage.index import create_index
from storage.journal import WITHOUT_LOCKS, keeps_locks, set_journal
from storage.schema.columns import Base, UtcTime, loads
from storage.turns import Turns, patiently

LOG = logging.getLogger("mars.storage")
BUSY_TIMEOUT_S = 10.0  # how long a transaction waits for others
# execution option: the end of the waits of a writing transaction, by the monotonic clock
UNTIL = "mars_until"
# execution option: a migration, in which SQLite replaces tables that others refer to
REBUILDS = "mars_rebuilds"
CONNECTIONS = {
    "pool_size": 20,
    "max_overflow": 20,
    "pool_timeout": 60.0,
}  # of 100 that PostgreSQL allows; threads wait for one
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x4D415253  # PostgreSQL advisory lock: one process migrates at a time
# alembic's
_VERSION_TABLE = "CREATE TABLE alembic_version (version_num VARCHAR(32) CONSTRAINT alembic_version_pkc PRIMARY KEY NOT NULL)"
_MIGRATING = Turns()  # alembic's `op` and `context` belong to the process


def parse_url(url: str | None) -> URL:
    """``url`` with its driver; None: the SQLite file in this user's data folder.

    Raises StorageError (without the URL, which may contain a password).
    """
    if url is None:
        return URL.create(
            "sqlite", database=str(user_data_path("mars-playground", appauthor=False) / "runs.db")
        )
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StorageError("The database URL is not a URL. " + _FORMS) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StorageError(f"The database {parsed.get_backend_name()!r} is not supported. {_FORMS}")
    name = parsed.database or ""
    if parsed.get_backend_name() == "sqlite" and (name in ("", ":memory:") or "\0" in name):
        raise StorageError(f"The database URL does not name a file. {_FORMS}")
    if parsed.get_backend_name() == "sqlite" and "?" in url:
        raise StorageError(
            "The database URL has a '?', after which a path ends; write %3F for one in the path, "
            "and %25 for a %."
        )
    return parsed


def url_of(path: Path) -> str:
    """Return the URL of a SQLite file, whatever is in its name."""
    return f"sqlite:///{quote(str(path))}"


_FORMS = "Use sqlite:////folder/file.db or postgresql://user:password@host/database."


def file_of(url: URL) -> Path | None:
    """Return the database file, absolute and without symbolic links; None for a server."""
    if url.get_backend_name() != "sqlite" or url.database is None:
        return None
    return Path(os.path.realpath(url.database))


def location_of(url: URL) -> str:
    """Return, for messages, the file, or the URL without its password."""
    return str(file_of(url) or url.render_as_string(hide_password=True))


def database_file(url: str | None = None) -> Path | None:
    """Return the file of a store with this URL; None for a server. Raises StorageError."""
    return file_of(parse_url(url))


def open_database(url: URL) -> tuple[Engine, str]:
    """Open an engine on the current schema, and a warning about its file system, if any, without a
    path; creates the folder of a SQLite file. Raises StorageError."""
    location, path, warning = location_of(url), file_of(url), ""
    with explained("The database could not be opened", location):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            warning = "" if keeps_locks(path.parent) else WITHOUT_LOCKS
        engine = _create(url)
        try:
            _prepare(engine, location)
        except BaseException:
            engine.dispose()
            raise
    if warning:
        LOG.warning("%s (%s)", warning, location)
    return engine, warning


def clock(connection: Connection) -> datetime:
    """Return the time in UTC by the clock of the database, which all its users share (SQLite: of
    the machine)."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    return connection.execute(select(func.clock_timestamp(type_=UtcTime))).scalar_one()


@cache
def known_schemas() -> tuple[str, ...]:
    """Return the revisions that this version can read or migrate, the current one last: the numbers
    of the migration files."""
    return tuple(
        sorted(path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))
    )


def _create(url: URL) -> Engine:
    dumps = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    as_json: dict[str, Any] = {"json_serializer": dumps, "json_deserializer": loads}
    if file_of(url) is not None:
        waits = {"timeout": BUSY_TIMEOUT_S}
        engine = create_engine(url, **as_json, connect_args=waits, max_overflow=-1)
        event.listen(engine, "connect", _set_pragmas)
        event.listen(engine, "begin", _begin)
        event.listen(engine, "commit", _commit)
        return engine
    try:
        engine = create_engine(url, **as_json, pool_pre_ping=True, **CONNECTIONS)
    except ModuleNotFoundError as error:
        raise StorageError("PostgreSQL needs a driver: pip install 'psycopg[binary]'.") from error
    event.listen(engine, "begin", _limit_waits)
    return engine


def _set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # _begin begins transactions, not the driver
    connection.text_factory = _as_text
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "PRAGMA secure_delete = ON"
    )  # deleted data must not remain in copies of the file


def _as_text(stored: bytes) -> str:
    """Read a text whose bytes are not UTF-8 too, so that its row can be named: the columns
    refuse it."""
    return stored.decode("utf-8", "surrogateescape")


def _begin(connection: Connection) -> None:
    options, cursor = connection.get_execution_options(), connection.connection.cursor()
    until = options.get(UNTIL)
    cursor.execute(f"PRAGMA foreign_keys = {REBUILDS not in options}")
    cursor.execute(f"PRAGMA busy_timeout = {0 if until else int(1000 * BUSY_TIMEOUT_S)}")
    patiently(partial(cursor.execute, "BEGIN IMMEDIATE" if until else "BEGIN"), until or 0.0)


def _commit(connection: Connection) -> None:
    """Commit: a writer waits for the end of other writers when it begins, and for readers when it
    commits."""
    if until := connection.get_execution_options().get(UNTIL):
        patiently(partial(connection.connection.cursor().execute, "COMMIT"), until)


def _limit_waits(connection: Connection) -> None:
    """Limit the waits for locks of PostgreSQL."""
    if until := connection.get_execution_options().get(UNTIL):
        left_ms = max(1, int(1000 * (until - time.monotonic())))
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {left_ms}")


def _prepare(engine: Engine, location: str) -> None:
    with engine.connect() as connection:
        current = _is_current(connection, location)
    path = file_of(engine.url)
    if path is not None:
        set_journal(engine, path, time.monotonic() + BUSY_TIMEOUT_S)
    if current:
        return
    with _migrating(engine) as connection:
        if not _is_current(connection, location):
            _upgrade(connection)


@contextmanager
def _migrating(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that excludes migrations by other processes."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    with (
        _MIGRATING.taken(until),
        engine.connect().execution_options(**{UNTIL: until, REBUILDS: True}) as connection,
        connection.begin(),
    ):
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        yield connection


def _versions(connection: Connection) -> Sequence[str]:
    there = inspect(connection).has_table("alembic_version")
    return (
        connection.scalars(text("SELECT version_num FROM alembic_version")).all() if there else ()
    )


def _is_current(connection: Connection, location: str) -> bool:
    """Return whether the schema is current. Raises StorageError for an unknown revision."""
    present = _versions(connection)
    if unknown := sorted(set(present) - {*known_schemas()}):
        raise StorageError(
            f"The database has the schema {unknown[0]!r}, which this version of MARS Playground "
            f"does not know; it was made by another version ({location}). Update the app or "
            "choose another database; nothing was changed."
        )
    return list(present) == [known_schemas()[-1]]


def _upgrade(connection: Connection) -> None:
    """Create the schema, or migrate an older one."""
    if not _versions(connection):
        Base.metadata.create_all(connection, checkfirst=False)
        create_index(connection)
        connection.execute(text(_VERSION_TABLE))
        connection.execute(
            text("INSERT INTO alembic_version VALUES (:now)"), {"now": known_schemas()[-1]}
        )
        return
    from alembic import command  # imported here because migrations are rare
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")
