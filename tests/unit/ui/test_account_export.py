"""``/mine/export.zip``: all of whoever asks, nobody else's, in constant memory; one sentence where there is none."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from mars_core.models import ModelPool
from storage import RunStore
from tests.unit.ui.places import client_of, failing
from tests.unit.ui.test_account import ONE, TWO, Asking, keep
from ui.jobs.services import Services
from ui.public.visitors import COOKIE
from ui.tabs.account.actions import NAME

PATH = "/mine/export.zip"


@pytest.fixture
def place(store: RunStore) -> Services:
    return Services(ModelPool(device="cpu"), store, public=True)


def test_the_export_is_ones_own_and_leaves_nothing_behind(
    place: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keep(place, Asking(), "my own words")
    client = client_of(place)
    before = set(tmp_path.iterdir())
    answer = client.get(PATH, headers={"cookie": f"{COOKIE}={ONE}"})
    assert answer.status_code == 200 and NAME in answer.headers["content-disposition"]
    assert "no-store" in answer.headers["cache-control"] and set(tmp_path.iterdir()) == before
    assert "my own words" in unzipped(answer.content)
    assert "my own words" not in unzipped(client.get(PATH, headers={"cookie": f"{COOKIE}={TWO}"}).content)
    assert client.get(PATH).status_code == 403


def unzipped(content: bytes) -> str:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return "\n".join(archive.read(name).decode(errors="replace") for name in archive.namelist())


def test_a_full_disk_ends_the_export_in_a_sentence(
    place: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("storage.export.everything.ZipFile", failing("No space left on device", OSError))
    before = set(tmp_path.iterdir())
    answer = client_of(place).get(PATH, headers={"cookie": f"{COOKIE}={ONE}"})
    assert answer.status_code == 503 and answer.text.count("\n") == 1 and str(tmp_path) not in answer.text
    assert answer.text.startswith("The export was not written") and set(tmp_path.iterdir()) == before


def test_one_export_of_an_owner_is_written_at_a_time(place: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(place)
    entered, meanwhile = list[bool](), list[int]()

    def ask(visitor: str) -> int:
        return client.get(PATH, headers={"cookie": f"{COOKIE}={visitor}"}).status_code

    def write(_: RunStore, path: Path) -> None:
        path.write_bytes(b"")
        if not entered:
            entered.append(True)
            meanwhile.extend([ask(ONE), ask(TWO), ask(ONE)])

    monkeypatch.setattr("ui.tabs.account.actions.write_everything", write)
    assert ask(ONE) == 200 and meanwhile == [429, 200, 429]  # a refused one gives nothing free
    assert ask(ONE) == 200
