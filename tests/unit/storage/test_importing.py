"""Runs of another instance are imported from its exports: exactly, once, and to their owner."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from mars_core.types import Status, TreeShape
from storage import RunStore, StorageError, write_everything, write_parquet
from storage.__main__ import main
from storage.importing import Imported, import_files
from tests.data.before_columns import HOSTILE, PROMPT, TALK
from tests.traces import make_trace


@pytest.fixture
def other(tmp_path: Path) -> RunStore:
    """Another instance, with runs of every kind."""
    store = RunStore(f"sqlite:///{tmp_path / 'other.db'}")
    for traces in (
        [make_trace(rule="strict", new_tokens=24), make_trace(rule="mars", new_tokens=24, seed=1)],
        [make_trace(rule="mars", new_tokens=16, words=HOSTILE, prompt=PROMPT)],
        [make_trace(rule="mars", new_tokens=20, tree=TreeShape(12, 4, 3))],
        [make_trace(rule="strict", new_tokens=6, prompt=TALK), make_trace(rule="none", new_tokens=6, prompt=TALK)],
        [make_trace(rule="mars", new_tokens=6, prefix=[1, 2])],
        [make_trace(new_tokens=0, status=Status.FAILED, prompt="")],
    ):
        made = store.new_comparison(traces[0].config.prompt)
        for lane, trace in enumerate(traces):
            store.save_run(made, trace, lane=lane, order=lane)
    store.annotate(made, name="=name\ud800", tags=["b", "a\x00"], comment="comment")
    return store


def parquet(store: RunStore, folder: Path) -> list[Path]:
    paths = [folder / f"{name}.parquet" for name in ("runs", "tokens", "nodes")]
    for name, path in zip(("runs", "tokens", "nodes"), paths, strict=True):
        write_parquet(name, store, path)
    return paths


def same(one: RunStore, another: RunStore, *, created: bool) -> None:
    ids = [str(id_) for id_ in one.comparisons()["id"]]
    assert ids and {*ids} == {*map(str, another.comparisons()["id"])}
    for id_ in ids:
        old, new = one.load(id_), another.load(id_)
        if not created:
            old, new = (
                {**{name: getattr(each, name) for name in each.__slots__}, "created_at": None} for each in (old, new)
            )  # type: ignore[assignment]
        assert repr(old) == repr(new)  # nan is nan


def test_parquet_files_bring_every_run_exactly_and_once(other: RunStore, store: RunStore, tmp_path: Path) -> None:
    paths = parquet(other, tmp_path)
    assert import_files(store, paths) == Imported(runs=8, known=0)
    assert import_files(store, paths[::-1]) == Imported(runs=0, known=8)
    same(other, store, created=False)


def test_the_zip_of_ones_data_brings_times_too(other: RunStore, store: RunStore, tmp_path: Path) -> None:
    write_everything(other, tmp_path / "data.zip")
    assert import_files(store, [tmp_path / "data.zip"]).runs == 8
    same(other, store, created=True)


def test_imported_runs_belong_to_whom_they_were_imported_for(
    other: RunStore, sqlite_store: RunStore, tmp_path: Path
) -> None:
    paths = parquet(other, tmp_path)
    import_files(sqlite_store.of("ann"), paths)
    assert sqlite_store.of("ann").count() == 6 and sqlite_store.of("bob").count() == 0
    write_parquet("runs", other, tmp_path / "again.parquet")
    sqlite_store.of("ann").delete(str(sqlite_store.of("ann").comparisons()["id"][0]))
    assert import_files(sqlite_store.of("ann"), paths).runs == 0  # what was deleted stays so
    assert sqlite_store.of("ann").count() == 5


def test_a_run_of_somebody_elses_comparison_is_refused(other: RunStore, sqlite_store: RunStore, tmp_path: Path) -> None:
    paths = parquet(other, tmp_path)
    first = other.load(str(other.comparisons()["id"][0]))
    import_files(sqlite_store.of("ann"), paths)
    other.save_run(first.id, make_trace(new_tokens=0, status=Status.FAILED, prompt=""), lane=1, order=1)
    with pytest.raises(StorageError, match="belongs to another owner"):
        import_files(sqlite_store.of("bob"), parquet(other, tmp_path))
    assert sqlite_store.of("bob").count() == 0
    assert import_files(sqlite_store.of("ann"), parquet(other, tmp_path)) == Imported(runs=1, known=8)


def test_what_is_no_export_is_named(other: RunStore, sqlite_store: RunStore, tmp_path: Path) -> None:
    paths = parquet(other, tmp_path)
    with pytest.raises(StorageError, match="steps, but the files of tokens have 0"):
        import_files(sqlite_store, paths[:1])
    with pytest.raises(StorageError, match="no file has runs"):
        import_files(sqlite_store, paths[1:])
    with pytest.raises(StorageError, match="does not exist"):
        import_files(sqlite_store, [tmp_path / "nowhere.parquet"])
    (tmp_path / "text").write_text("a")
    with ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("a", "b")
    for name in ("text", "empty.zip"):
        with pytest.raises(StorageError, match=f"{name} is not an export of MARS Playground"):
            import_files(sqlite_store, [tmp_path / name])


def test_the_command_says_how_many(other: RunStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    assert main(["import", *map(str, parquet(other, tmp_path)), "--database", url, "--owner", "ann"]) == 0
    assert capsys.readouterr().out == "8 runs imported; 0 were already stored.\n"
    assert main(["import", str(tmp_path / "runs.parquet"), "--database", url]) == 0
    assert main(["import", str(tmp_path / "nowhere"), "--database", url]) == 2
    assert "does not exist" in capsys.readouterr().err
