"""A stand-in of the Hub, databases with every kind of thing in them, and pages that back them up
there."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hosting.backup import service
from hosting.backup.repository import Repository
from hosting.backup.service import Backup
from storage import RunStore, Search
from storage.schema import Base
from tests.data.release import SQLITE
from tests.traces import make_trace
from tests.unit.hosting_backup.hub import Hub
from tests.unit.storage.exports import save
from tests.unit.storage.test_counterfactuals import TWO as FOLLOWED

REPO = "mars/backup"


def rows(store: RunStore) -> dict[str, list[str]]:
    """Every row of every table, as the database has it, except what is specific to a database."""
    by_table = {}
    with store.read() as connection:
        for name in Base.metadata.tables:
            every = connection.exec_driver_sql(f"SELECT * FROM {name}").mappings()
            by_table[name] = sorted(
                repr(sorted(row.items() - {("number", row.get("number"))})) for row in every
            )
    return by_table


def backup_at(path: Path, hub: Hub) -> Backup:
    return Backup(path, Repository(hub.api(), REPO), 60, logging.getLogger("tests.backup"))


class Page:
    """A database and its backup, one thing after the other: no thread pushes."""

    def __init__(self, path: Path, hub: Hub) -> None:
        self.backup = backup_at(path, hub)
        self.notice = self.backup.restore()
        self.store = RunStore(f"sqlite:///{path}")
        self.backup._store = self.store

    def push(self) -> str:
        """What went wrong."""
        self.backup.push()
        return self.backup.problem

    @property
    def rows(self) -> dict[str, list[str]]:
        return rows(self.store)

    @property
    def prompts(self) -> list[str]:
        ids = self.store.matching_ids(Search(limit=1000))
        return sorted(self.store.load(id_).prompt.text for id_ in ids)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setattr(service, "PAUSES_S", (0.0, 0.0, 0.0))
    (tmp_path / "hub").mkdir()
    return Hub(tmp_path / "hub")


@pytest.fixture
def page(tmp_path: Path, hub: Hub) -> Iterator[Callable[..., Page]]:
    """Opens the database in the folder of this name."""
    pages: list[Page] = []

    def page(name: str) -> Page:
        (tmp_path / name).mkdir(exist_ok=True)
        pages.append(Page(tmp_path / name / "runs.db", hub))
        return pages[-1]

    yield page
    for each in pages:
        each.store.close()


@pytest.fixture
def first(page: Callable[..., Page]) -> Page:
    """It has pushed a run."""
    made = page("first")
    save(made.store, make_trace(new_tokens=5, prompt="a prompt"))
    made.push()
    return made


@pytest.fixture
def every_kind(tmp_path: Path) -> str:
    """A database with every kind of thing, which knows of no backup."""
    (tmp_path / "first").mkdir()
    path = shutil.copy(SQLITE, tmp_path / "first" / "runs.db")
    with RunStore(f"sqlite:///{path}") as store:  # the release had no counterfactuals
        comparison = next(
            id_ for id_ in store.matching_ids(Search(limit=1000)) if store.load(str(id_)).runs
        )
        run = store.load(str(comparison)).runs[0].id
        store.save_counterfactuals(run, [FOLLOWED])
    return "first"
