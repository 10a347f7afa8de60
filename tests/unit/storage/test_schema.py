"""New and migrated databases have the schema of the models, and an unknown one is left as it is."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import (
    JSON,
    Column,
    LargeBinary,
    MetaData,
    inspect,
)

from mars_core.types import PromptConfig
from storage import RunStore, open_or_set_aside
from storage.database import known_schemas
from storage.journal import safe_journal_mode
from storage.schema import Base
from tests.unit.storage.exports import failing


def differences(store: RunStore, metadata: MetaData) -> list[object]:
    with store.read() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": other_default,
            "include_object": lambda item, *_rest: not is_index_of_texts(item),
        }
        return list(
            compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
        )


def other_default(
    _context: object, inspected: Column[Any], _column: object, default: str | None, *rest: object
) -> Any:
    """PostgreSQL has no equality of JSON; None leaves a column to alembic."""
    if isinstance(inspected.type, LargeBinary):
        return False  # each database spells bytes differently
    if not isinstance(inspected.type, JSON) or default is None:
        return None
    return default.removesuffix("::jsonb").removesuffix("::json").strip("'") != str(rest[-1]).strip(
        "'"
    )


def is_index_of_texts(item: object) -> bool:
    """Which no model describes: tables of FTS5, the index of pg_trgm."""
    return getattr(item, "name", "").startswith(
        ("comparison_texts", "comparison_trigrams", "ix_comparisons_search")
    )


def test_opened_by_many_at_once_a_new_database_is_made_once(url: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(RunStore, [url] * 6))
    for store in stores:
        store.new_comparison(PromptConfig("x"))
    assert [store.count() for store in stores] == [6] * 6
    assert differences(store, Base.metadata) == []
    with store.read() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == known_schemas()[-1]
        keys = inspect(connection).get_pk_constraint("alembic_version")
    assert keys["name"] == "alembic_version_pkc"  # as alembic makes it
    for store in stores:
        store.close()


def test_an_unknown_schema_on_a_server_is_refused(postgres_url: str) -> None:
    with RunStore(postgres_url) as store, store.read() as connection:
        assert (
            store.path is None
            and store.location.startswith("postgresql")
            and "secret" not in store.location
        )
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'f00d'")
        connection.commit()
    with failing(r"'f00d'.*another version") as caught:
        RunStore(postgres_url)
    assert "secret" not in str(caught.value)


def disk(point: object, kind: str, source: str = "/dev/vda") -> SimpleNamespace:
    return SimpleNamespace(mountpoint=str(point), fstype=kind, device=source)


def test_wal_only_where_it_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A safe build, and a disk that is known to be local, on which the file is, not a link to it:
    the deepest and last mount."""
    (tmp_path / "net").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "net" / "runs.db")
    kinds = {"net": "nfs4", "twice": "ext4"}
    mounts = [disk(tmp_path, "ext4"), *(disk(tmp_path / each, kinds[each]) for each in kinds)]
    mounts.append(disk(tmp_path / "twice", "9p"))
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: mounts)
    modes = {
        (version, name): safe_journal_mode(tmp_path / name, version)
        for version in ((3, 40, 1), (3, 51, 2), (3, 51, 3), (4, 0, 0))
        for name in ("runs.db", "network/runs.db", "net/runs.db", "link.db", "twice/runs.db")
    }
    assert {key for key, mode in modes.items() if mode == "WAL"} == {
        (version, name)
        for version in ((3, 51, 3), (4, 0, 0))
        for name in ("runs.db", "network/runs.db")
    }
    assert set(modes.values()) == {"WAL", "TRUNCATE"}
    mounts.clear()
    assert safe_journal_mode(tmp_path / "runs.db", (4, 0, 0)) == "TRUNCATE"


SAFE = {"foreign_keys": 1, "synchronous": 2, "busy_timeout": 10_000}


def test_a_file_gets_the_safe_journal_when_it_is_opened(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every connection the safe settings. A WAL of an earlier release too, by two processes or
    threads at once; all that was in it stays."""
    for number, (safe, mode) in enumerate(
        [((3,), "wal"), ((99,), "truncate"), ((3,), "wal"), ((99,), "truncate")]
    ):
        monkeypatch.setattr("storage.journal.WAL_SAFE", safe)
        with ThreadPoolExecutor(3) as pool:
            stores = list(pool.map(RunStore, [sqlite_url] * 3))
        for store in stores:
            with store.read() as one, store.read() as other:
                for connection in (one, other):
                    for name, value in (SAFE | {"journal_mode": mode}).items():
                        assert connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() == value
        stores[0].new_comparison(PromptConfig("written while others have it open"))
        assert {store.count() for store in stores} == {number + 1}
        for store in stores:
            store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "not a URL"),
        ("runs.db:secret", "not a URL"),
        ("sqlite://", "does not name a file"),
        ("sqlite:///:memory:", "does not name a file"),
        ("sqlite:////runs\0.db", "does not name a file"),
        ("sqlite:///file:runs.db?uri=true", "write %3F"),
        ("mysql://root:secret@host/db", "'mysql' is not supported"),
        ("postgresql://mars:secret@127.0.0.1:1/none", "could not be opened: .*refused"),
        ("postgresql+nonsense://mars:secret@127.0.0.1:1/none", "could not be opened"),
    ],
)
def test_bad_url_is_explained_without_its_password(url: str, message: str) -> None:
    for open_ in (RunStore, open_or_set_aside):
        with failing(message) as caught:
            open_(url)
        assert "secret" not in str(caught.value)


def test_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with failing("pip install"):
        RunStore("postgresql://mars:secret@127.0.0.1:1/none")
