"""Databases with comparisons in them, without the time that making a schema takes."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hosting.backup import writer
from mars_core.types import PromptConfig
from storage import RunStore
from tests.unit.hosting_backup.folder_remote import FolderRemote

Fill = Callable[..., Path]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "runs.db"
    RunStore(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def fill(empty_database: Path) -> Fill:
    """Make the database ``path`` where it is missing and add comparisons with these prompts."""

    def fill(path: Path, *prompts: str) -> Path:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(empty_database, path)
        with RunStore(f"sqlite:///{path}") as store:
            for prompt in prompts:
                store.new_comparison(PromptConfig(prompt))
        return path

    return fill


@pytest.fixture
def log() -> logging.Logger:
    return logging.getLogger("tests.backup")


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    return FolderRemote(tmp_path / "remote")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BEGIN_PAUSES_S", (0.0, 0.0))


def prompts(path: Path) -> list[str]:
    """All prompts in a database, in the order in which they came."""
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT prompt FROM comparisons ORDER BY created_at, id")]


def content(path: Path) -> list[str]:
    """Everything that is in a database, as SQL."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())
