"""``mars export``: the log's tables from the command line, filtered as History filters them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_core.types import Status
from mars_playground.__main__ import main, parser
from storage import RunStore
from storage.export.tables import EXPORTS
from tests.traces import make_trace
from tests.unit.storage.exports import csv_of, parsed, read_parquet, save


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A database with a completed comparison of ann's and a failed one of bob's."""
    url = f"sqlite:///{tmp_path}/log.db"
    with RunStore(url) as store:
        save(store.of("ann"), make_trace())
        save(store.of("bob"), make_trace(status=Status.FAILED, error="It failed."))
    return url


def test_every_table_is_written_whole_as_the_page_writes_it(log: str, tmp_path: Path) -> None:
    for table in EXPORTS:
        files = [tmp_path / f"{table}.csv", tmp_path / f"{table}.parquet"]
        for file in files:
            file.write_text("older")
            assert main(["export", table, str(file), "--db", log]) == 0
        with RunStore(log) as store:
            assert files[0].read_bytes().decode() == csv_of(table, store)
        assert len(read_parquet(files[1])) == len(parsed(files[0].read_text()))
    assert sorted(path.name for path in tmp_path.glob("*.part")) == []


def test_the_filters_choose_comparisons(log: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    for filters, found in (
        ("", 2),
        ("--owner ann", 1),
        ("--status failed", 1),
        ("--status failed --owner ann", 0),
        ("--rule nonsense", 0),
        ("--since 2001-01-01 --until 9000-01-01T00:00+02:00", 2),
        ("--until 2001-01-01", 0),
    ):
        assert main(["export", "runs", str(file), "--db", log, *filters.split()]) == 0
        assert len(parsed(file.read_text())) == found, filters


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("runs runs.xlsx", "must end in .csv or .parquet, not 'runs.xlsx'"),
        ("runs runs.csv --since yesterday", "must be as in 2026-11-29"),
        ("run runs.csv", "'counterfactuals'"),
    ],
)
def test_a_wrong_value_is_refused(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(["export", *words.split()])
    assert said in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "runs", str(tmp_path / "none" / "runs.csv"), "--db", log]) == 2
    assert "was not written" in capsys.readouterr().err
