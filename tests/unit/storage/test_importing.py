"""Runs of another instance are imported from its exports: exactly, once, and to their owner."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest

from mars_core.types import Trace
from mars_playground.__main__ import main
from storage import RunStore, write_everything, write_parquet
from storage.importing import Imported, import_files
from tests.traces import make_trace
from tests.unit.storage.exports import failing, save
from tests.unit.storage.test_roundtrip import HOSTILE, TRACES, hostile_trace


def odd_trace() -> Trace:
    trace = make_trace(new_tokens=2)
    return replace(trace, summary=replace(trace.summary, acceptance_by_position=(0.5, math.nan)))


TRACED = (*TRACES.values(), lambda: hostile_trace("".join(HOSTILE)), odd_trace)
RUNS = len(TRACED) + 1


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Another instance, with runs of every kind."""
    store = RunStore(f"sqlite:///{tmp_path_factory.mktemp('other') / 'runs.db'}")
    for make in TRACED:
        made = save(store, make())
    store.save_run(made, make(), lane=1, order=1)
    store.annotate(made, name="=name\ud800", tags=["b", "a\x00"], comment="comment")
    return store


@pytest.fixture(scope="module")
def paths(other: RunStore, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return parquet(other, tmp_path_factory.mktemp("parquet"))


def parquet(store: RunStore, folder: Path) -> list[Path]:
    paths = [folder / f"{name}.parquet" for name in ("runs", "tokens", "nodes")]
    for path in paths:
        write_parquet(path.stem, store, path)
    return paths


def same(one: RunStore, another: RunStore, *, created: bool) -> None:
    ids = one.comparisons()["id"].tolist()
    assert ids and {*ids} == {*another.comparisons()["id"]}
    for id_ in ids:
        old, new = one.load(id_), another.load(id_)
        assert repr(old) == repr(new if created else replace(new, created_at=old.created_at))


def test_parquet_files_bring_every_run_exactly_and_once(
    other: RunStore, paths: list[Path], store: RunStore
) -> None:
    assert import_files(store, paths) == Imported(runs=RUNS, known=0)
    assert import_files(store, paths[::-1]) == Imported(runs=0, known=RUNS)
    same(other, store, created=False)


def test_the_zip_of_ones_data_brings_times_too(
    other: RunStore, store: RunStore, tmp_path: Path
) -> None:
    write_everything(other, tmp_path / "data.zip")
    assert import_files(store, [tmp_path / "data.zip"]).runs == RUNS
    same(other, store, created=True)


def test_imported_runs_belong_to_whom_they_were_imported_for(
    sqlite_store: RunStore, tmp_path: Path
) -> None:
    ann, bob = sqlite_store.of("ann"), sqlite_store.of("bob")
    with RunStore(f"sqlite:///{tmp_path / 'other.db'}") as other:
        first, second = (save(other, make_trace(new_tokens=2)) for _ in range(2))
        paths = parquet(other, tmp_path)
        import_files(ann, paths)
        assert ann.count() == 2 and bob.count() == 0
        ann.delete(first)
        assert import_files(ann, paths).runs == 0  # what was deleted stays so
        assert ann.count() == 1
        other.save_run(second, make_trace(new_tokens=1), lane=1, order=1)
        with failing("belongs to another owner"):
            import_files(bob, parquet(other, tmp_path))
        assert bob.count() == 0
        assert import_files(ann, parquet(other, tmp_path)) == Imported(runs=1, known=2)


def test_what_is_no_export_is_named(
    paths: list[Path], sqlite_store: RunStore, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("a")
    with ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("a", "b")
    for version in ("7", "99"):
        other = pq.read_table(paths[0]).replace_schema_metadata({"schema_version": version})
        pq.write_table(other, tmp_path / f"{version}.parquet")
    for sources, message in (
        (paths[:1], "steps, but the files of tokens have 0"),
        (paths[1:], "no file has runs"),
        ([tmp_path / "nowhere.parquet"], "does not exist"),
        ([tmp_path / "text"], "text is not an export of MARS Playground"),
        *(
            (
                [tmp_path / f"{n}.parquet"],
                rf"schema_version is {n}; it must be 8, with [a-z, ]+\)\.$",
            )
            for n in (7, 99)
        ),
        ([tmp_path / "empty.zip"], "empty.zip is not an export of MARS Playground"),
    ):
        with failing(message):
            import_files(sqlite_store, sources)


def test_the_command_says_how_many(
    paths: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    assert main(["import", *map(str, paths), "--db", url, "--owner", "ann"]) == 0
    assert capsys.readouterr().out == f"{RUNS} runs imported; 0 were already stored.\n"
    assert main(["import", str(paths[0]), "--db", url]) == 0
    assert main(["import", str(tmp_path / "nowhere"), "--db", url]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_sizes_are_checked_before_a_file_is_read(
    paths: list[Path],
    other: RunStore,
    sqlite_store: RunStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_everything(other, tmp_path / "all.zip")
    for name, files, sentence in (
        ("storage.export.MAX_ROWS", paths, "a row group has"),
        ("storage.export.MAX_BYTES", paths, "a row group has"),
        (
            "storage.importing.MAX_JSON",
            [tmp_path / "all.zip"],
            "bytes of comparisons.json .* at most 1, and",
        ),
    ):
        with (
            monkeypatch.context() as limited,
            failing(f"Nothing was imported: .*{sentence}"),
        ):
            limited.setattr(name, 1)
            import_files(sqlite_store, files)
    assert sqlite_store.count() == 0


def test_a_file_that_is_damaged_inside_is_one_sentence(
    paths: list[Path], sqlite_store: RunStore, tmp_path: Path
) -> None:
    data = bytearray(paths[1].read_bytes())
    data[100:400] = bytes(300)
    (damaged := tmp_path / "tokens.parquet").write_bytes(data)
    with failing("The import ended: a file is damaged"):
        import_files(sqlite_store, [paths[0], damaged, paths[2]])
