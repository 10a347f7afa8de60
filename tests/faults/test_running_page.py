"""Bad days of the running page: it is stopped, its disk is full, its database is damaged or newer, a
thread never ends. Real processes, real files."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hosting.health import TEMPORARY
from mars_core.types import Status
from storage import RunStore, Search
from tests.faults.running import OWNER, SHORT, SLOW, Running, running
from tests.serving import until

pytestmark = pytest.mark.slow
GARBAGE = b"SQLite format 3\0" + os.urandom(50_000)


def intact(folder: Path) -> bool:
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


def statuses(folder: Path) -> list[Status]:
    with RunStore(f"sqlite:///{folder / 'runs.db'}") as store:
        return [status for row in store.find(Search()).rows for status in row["status"]]


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """The page of a Space without network, which found a damaged database in its folder."""
    folder, nowhere = tmp_path_factory.mktemp("space"), "http://127.0.0.1:9"
    (folder / "runs.db").write_bytes(GARBAGE)
    environment = {
        "SPACE_ID": "someone/mars",
        "SYSTEM": "spaces",
        "SPACE_HOST": "someone-mars.hf.space",
        "HOME": str(folder),
        "HF_HOME": str(folder / "empty"),
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
    }
    with running(folder, **environment) as page:
        yield page, folder


def test_a_space_without_network_outlives_a_damaged_database_and_a_full_disk(
    space: tuple[Running, Path],
) -> None:
    page, folder = space
    assert "runs.db.damaged" in page.log
    assert "The database was damaged; it was moved" in page.client.get("/").text
    event, first = page.request("compare", SHORT)
    assert event == "complete" and first["runs"][0]["text"]
    assert not (folder / "empty").exists() or not any((folder / "empty").rglob("*.safetensors"))
    page.limit_files(max(path.stat().st_size for path in folder.glob("runs.db*")) + 16_000)
    saved, event = 0, "complete"
    while event == "complete" and saved < 20:
        event, result = page.request("compare", SHORT | {"max_new_tokens": 64, "seed": saved})
        saved += event == "complete"
    assert event == "error" and "not saved" in str(result), page.log
    assert page.request("rules", {})[0] == "complete"  # the page lives
    page.limit_files(resource.RLIM_INFINITY)
    assert page.request("compare", SHORT)[0] == "complete"
    assert intact(folder) and statuses(folder).count(Status.COMPLETED) == saved + 2
    aside = [path for path in folder.iterdir() if "damaged" in path.name]
    assert [path.read_bytes() for path in aside] == [GARBAGE]


def test_on_sigterm_the_page_answers_until_every_client_has_heard(
    space: tuple[Running, Path],
) -> None:
    page, folder = space
    before, lines = statuses(folder), len(page.log.splitlines())
    first = page.begin(SLOW)
    second = page.call("compare", SLOW, owner="another-program-of-the-tests")
    assert next(second)[0] in ("generating", "heartbeat")  # it waits for its turn
    body = {"x-mars-visitor": "a-program-that-never-listens"}
    page.client.post("/gradio_api/call/v2/rules", json={}, headers=body).raise_for_status()
    page.process.send_signal(signal.SIGTERM)
    while (unready := page.client.get("/ready")).status_code == 200:
        pass
    assert unready.status_code == 503 and unready.json()["reason"] == "The page is shutting down."
    assert page.client.get("/health").json() == {"alive": True}
    endings = [list(first)[-1], list(second)[-1]]
    assert page.stop() == 0  # of an impatient host
    log = [json.loads(line) for line in page.log.splitlines()]
    assert [event for event, _ in endings] == ["complete", "error"], endings
    assert endings[0][1][0]["runs"][0]["status"] == "cancelled" and endings[1][1]
    bad = [
        line
        for line in log[lines:]
        if line["level"] != "info" and line["logger"] not in ("mars.health", "printed")
    ]
    assert not bad, bad
    assert intact(folder) and Counter(statuses(folder)) - Counter(before) == {Status.CANCELLED: 1}


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path, bytes]]:
    """A page over a database of a newer version, its folder, and that database's bytes."""
    folder = tmp_path_factory.mktemp("newer")
    with RunStore(f"sqlite:///{folder / 'runs.db'}"):
        pass
    with closing(sqlite3.connect(folder / "runs.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = (folder / "runs.db").read_bytes()
    with running(folder, unready=TEMPORARY) as page:
        yield page, folder, before


def test_a_newer_database_is_left_as_it_is_and_nothing_of_a_visitor_is_in_the_log(
    temporary: tuple[Running, Path, bytes],
) -> None:
    page, folder, before = temporary
    assert "another version" in page.log
    html = page.client.get("/").text
    assert "Runs are stored only until the page stops" in html and str(folder) not in html
    event, result = page.request("compare", SHORT | {"prompt": "a secret that only I know"})
    assert event == "complete" and result["prompt"] == "a secret that only I know"
    assert (
        page.request("compare", SHORT | {"prompt": "a secret", "rules": ["secret rule"]})[0]
        == "error"
    )
    page.client.get("/downloads/runs.csv", params={"text": "a secret that only I know"})
    log = page.log.replace(page.url, "")
    assert "secret" not in log and OWNER not in log and "127.0.0.1" not in log
    assert (folder / "runs.db").read_bytes() == before


def test_a_thread_that_computes_for_ever_does_not_keep_the_process(
    temporary: tuple[Running, Path, bytes],
) -> None:
    """Nor does its end touch the database that the page left as it is."""
    page, folder, before = temporary
    page.client.post(
        "/gradio_api/call/v2/compare", json=SHORT | {"prompt": "endlessly"}
    ).raise_for_status()
    until(lambda: "computing endlessly" in page.log)
    assert page.stop() == 1  # by itself: else the wait for it fails
    assert "_compute_endlessly" in page.log
    log = page.log.replace(page.url, "")
    assert "secret" not in log and "127.0.0.1" not in log
    assert (folder / "runs.db").read_bytes() == before
