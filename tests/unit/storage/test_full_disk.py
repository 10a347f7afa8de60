"""A disk that is really full: what was saved stays whole, what could not be is said, and it goes on when there is room again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# On a disk of one megabyte, half of it taken by something else: fills it, makes room, goes on.
CHILD = """
import sqlite3, sys
from pathlib import Path
from storage import RunStore, StorageError, write_everything
from tests.traces import make_trace, same

disk = Path(sys.argv[1])
other = disk / "other"
other.write_bytes(b"x" * 500_000)

def save(store, seed):
    trace = make_trace(seed=seed, new_tokens=60)
    store.save_run(store.new_comparison(trace.config.prompt), trace, lane=0, order=0)

def said(call):
    try:
        call()
    except StorageError as error:
        return str(error)
    raise SystemExit("it should have failed")

store, saved = RunStore(f"sqlite:///{disk / 'runs.db'}"), 0
while True:
    try:
        save(store, saved)
    except StorageError as error:
        print(error)
        break
    saved += 1
print(said(lambda: write_everything(store, disk / "all.zip")))
left = {each.name for each in disk.iterdir()} - {f"runs.db{side}" for side in ("", "-wal", "-shm", "-lock")}
assert left == {"other"}, left
other.unlink()
runs = [run.trace for id_ in store.comparisons()["id"] for run in store.load(id_).runs]
assert len(runs) == saved > 0
assert all(same(trace, make_trace(seed=trace.config.seed, new_tokens=60)) for trace in runs)
save(store, saved)
store.close()
with RunStore(f"sqlite:///{disk / 'runs.db'}") as again:
    assert again.count() == saved + 1
assert sqlite3.connect(disk / "runs.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]
print("whole")
"""


def test_full_disk_harms_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # a mount of its own, which nobody else sees and which goes with the process
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(disk), sys.executable, CHILD]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command[:2], "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no mount of one's own is allowed here")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    child = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    saving, exporting, *rest = child.stdout.splitlines()
    assert "was not saved: database or disk is full" in saving
    assert "Free some space and try again." in saving
    assert exporting.startswith("The export was not written: ")
    assert "No space left on device" in exporting
    assert rest == ["whole"]
