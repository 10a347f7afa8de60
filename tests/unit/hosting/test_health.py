"""/health and /ready: what a load balancer gets, by probes that break, hang and recover."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from hosting import health
from hosting.health import PairProbe, Probe, database_probe, health_routes
from storage import RunStore


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer comes in time on any machine, and is never an earlier one."""
    monkeypatch.setattr(health, "PATIENCE_S", 240.0)
    monkeypatch.setattr(health, "FRESH_S", 0.0)


def serve(**probes: Probe) -> TestClient:
    """``backup`` is only displayed."""
    information = {name: probes.pop(name) for name in ("backup",) if name in probes}
    return TestClient(Starlette(routes=health_routes(probes, information)))


def well() -> str:
    return ""


def test_unready_with_the_first_reason(caplog: pytest.LogCaptureFixture) -> None:
    """What a probe raises is for the log alone."""

    def breaks() -> str:
        raise ValueError("/secret/path")

    answer = serve(database=well, backup=lambda: "3 minutes old").get("/ready")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "reason": "", "backup": "3 minutes old"}
    assert answer.headers["cache-control"] == "no-store"
    answer = serve(b=well, c=breaks, a=lambda: "No a.").get("/ready")
    assert answer.status_code == 503
    reason = "The c could not be checked; see the log."
    assert answer.json() == {"ready": False, "reason": reason}
    assert any(record.exc_info for record in caplog.records)


def test_a_probe_that_hangs_is_reported_in_time_called_once_and_read_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go, calls = threading.Event(), []
    monkeypatch.setattr(health, "PATIENCE_S", 0.1)

    def hangs() -> str:
        calls.append(1)
        let_go.wait(240)
        return ""

    client = serve(database=hangs)
    for _ in range(3):
        answer = client.get("/ready")
        assert answer.json()["reason"] == "The database did not respond within 0.1 s."
        assert client.get("/health").json() == {"alive": True}
    assert len(calls) == 1
    monkeypatch.setattr(health, "FRESH_S", 240.0)  # an answer is given again for a while
    let_go.set()
    next(thread for thread in threading.enumerate() if thread.name == "ready").join()
    assert [client.get("/ready").status_code for _ in range(2)] == [200, 200] and len(calls) == 1


def file_of(store: RunStore) -> Path:
    assert store.path is not None
    return store.path


def test_a_database_that_another_program_writes_to_or_whose_disk_is_full(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOCKED_S", 0.05)
    with closing(sqlite3.connect(file_of(store), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert database_probe(store)() == health.LOCKED
        other.execute("ROLLBACK")
    before = file_of(store).read_bytes()
    assert database_probe(store)() == "" and file_of(store).read_bytes() == before
    monkeypatch.setattr(health, "MIN_FREE_BYTES", 2**62)
    assert database_probe(store)() == health.FULL


def test_a_database_that_is_gone_or_damaged(store: RunStore) -> None:
    path = file_of(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "PRAGMA wal_checkpoint(TRUNCATE)"
        )  # else all of it is in the log, and is read from there
    assert database_probe(store)() == ""
    path.write_bytes(b"x" * path.stat().st_size)
    assert database_probe(store)() in (health.READING, health.WRITING)
    path.unlink()
    assert database_probe(store)() in (health.READING, health.WRITING)


def test_a_pair_that_is_loading_or_hangs_or_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs: list[str] = []
    probe = PairProbe(lambda: pairs)
    assert probe() == health.LOADING
    with monkeypatch.context() as patch:
        patch.setattr(health, "LONG_S", -1.0)
        assert probe() == health.LATE
    probe.fail()
    assert probe() == health.NO_PAIR
    pairs.append("another")
    assert probe() == ""
    pairs.clear()  # another pair replaces it
    assert probe() == ""
