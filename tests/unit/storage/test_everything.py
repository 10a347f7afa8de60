"""One file has all that is somebody's, and nothing of others; it appears completely or not at all."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq

from storage import RunStore, Shared, write_everything
from storage.export.tables import EXPORTS
from tests.traces import make_trace
from tests.unit.storage.exports import csv_of, failing, file_limit, parsed, save
from tests.unit.storage.test_owners import make

HOSTILE = "=1+1\x01␛<script>"
JSON = ("comparisons.json", "studies.json", "shares.json")
FILES = {"README.txt", *JSON, *(f"{name}.csv" for name in EXPORTS)}


def test_file_has_everything_of_its_owner(store: RunStore, tmp_path: Path) -> None:
    anna, boris = (make(store.of(name), f"{name}s things") for name in ("anna", "boris"))
    mine, path = store.of("anna"), tmp_path / "mine.zip"
    mine.annotate(anna.comparison, comment=HOSTILE)
    mine.new_study("hostile", {"tau": math.inf, "kl": math.nan, "x": HOSTILE}, 1)
    token = mine.share(Shared.COMPARISON, anna.comparison)
    write_everything(mine, path)
    with ZipFile(path) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
    assert files.keys() == FILES | {f"{name}.parquet" for name in EXPORTS}
    texts = {name: files[name].decode() for name in FILES}
    for name in EXPORTS:
        assert texts[f"{name}.csv"] == csv_of(name, mine)
        exact = pq.read_table(io.BytesIO(files[f"{name}.parquet"])).to_pylist()
        assert len(exact) == len(parsed(texts[f"{name}.csv"]))
        texts[f"{name}.parquet"] = repr(exact)
    everything = "".join(texts.values())
    assert [mark for mark in (*boris.marks, token) if mark in everything] == []
    comparisons = {item["id"]: item for item in json.loads(texts["comparisons.json"])}
    assert comparisons.keys() == {anna.comparison, anna.deleted, anna.of_done, anna.studied}
    assert comparisons[anna.comparison]["comment"] == HOSTILE
    deleted = {id_ for id_, item in comparisons.items() if item["deleted_at"]}
    assert deleted == {anna.deleted}
    done, study, hostile = json.loads(texts["studies.json"])
    assert (study["id"], done["plan"]) == (anna.study, {"y": "plan annas things"})
    assert hostile["plan"] == {"tau": "inf", "kl": "nan", "x": HOSTILE}
    assert [item["object_id"] for item in json.loads(texts["shares.json"])] == [anna.comparison]
    assert all(name in texts["README.txt"] for name in FILES - {"README.txt"})
    assert path.stat().st_mode & 0o077 == 0 and not list(tmp_path.glob("*.part"))


def test_full_disk_leaves_nothing(sqlite_store: RunStore, tmp_path: Path) -> None:
    for seed in range(4):
        save(sqlite_store, make_trace(seed=seed, new_tokens=200))
    with (
        file_limit(20_000),
        failing("The export was not written: "),
    ):
        write_everything(sqlite_store, tmp_path / "all.zip")
    assert list(tmp_path.glob("*.zip*")) == []
