"""The commands: a study is run, gone on with, listed and deleted; what is wrong with the options is
one sentence and status 2."""

from __future__ import annotations

import csv
import io
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from evaluation.judge.study import KEY
from evaluation.plan.plan import PLAN, read_plan
from evaluation.report.files import TABLES
from storage import RunStore
from tests.unit.evaluation.calls import mars
from tests.unit.evaluation.study.working import HERE, planned_and_run


def test_a_study_is_planned_and_run(
    options: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "--rules none,strict,mars,typical --theta 0.5,0.9 --set typical.delta=0.2,0.3"
    assert mars(f"eval run {options} {rules} --temperature 0,1 --quiet") == 0
    printed = capsys.readouterr()
    study, plan = planned_and_run(url)
    assert printed.out.strip() == study
    assert [printed.err.count(f"On this pair θ = {theta} calls") for theta in (0.5, 0.9)] == [1, 1]
    names = [lane.name for lane in plan.lanes]
    assert names[:4] == ["none", "strict", "mars(theta=0.5)", "mars(theta=0.9)"] and len(names) == 6
    assert all(name.startswith("typical(") for name in names[4:])
    assert mars(f"eval list --db {url}") == 0
    assert f"{study}  " in (table := capsys.readouterr().out) and "4/4 tasks  own" in table
    assert mars(f"eval delete {study[:8]} --db {url}") == 0
    with RunStore(url) as store:
        assert (store.studies(), store.count()) == ((), 0)
    capsys.readouterr()
    assert mars(f"eval resume abc --db {url}") == 2
    assert (
        capsys.readouterr().err
        == "The study is 'abc', and 0 studies in this database match; name exactly one.\n"
    )


def test_a_plan_may_be_made_first_and_run_later(
    options: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mars(f"eval run {options} --batch auto --plan-only --name", "a\x1b[2J\nb") == 0
    with RunStore(url) as store:
        assert store.study_progress(store.studies()[0].id).results == 0
    assert mars(f"eval list --db {url}") == 0
    assert "a␛[2J b\n" in capsys.readouterr().out  # what a terminal would obey is spelt out
    assert mars(f"eval resume latest {HERE} --db {url} --failed") == 0
    printed = capsys.readouterr().err
    assert "0 tasks are open again" in printed
    assert "Tokens/s: not measured. 2 tasks run in batches of 1.\n" in printed  # too few
    assert "100%" in printed and "6/6 [" in printed
    planned_and_run(url)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("--tree 9/3/2", "--tree is given; drafter model drafts chains only"),
        ("--suite nowhere.jsonl", "nowhere.jsonl"),
        ("--limit 0", "limit"),
        ("--max-new-tokens 5000", "together they must be at most"),
        ("--k 2,2.5", "k is 2.5; it must be a whole number"),
        ("--batch 1,0", "batch is '0'; it must be a whole number from 1 to 256, or auto"),
        ("--threads 0", "--threads is 0; it must be 1 to 1024"),
    ],
)
def test_bad_options_are_one_sentence(
    options: str,
    url: str,
    changed: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert mars(f"eval run {options} {changed} --db {url} --quiet") == 2
    printed = capsys.readouterr().err.strip()
    assert words in printed and "\n" not in printed
    with RunStore(url) as store:
        assert store.studies() == ()


def test_a_study_is_reported_and_exported(
    options: str,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = options.replace("--no-placebos", "--placebo-seeds 1")
    assert mars(f"eval run {options} --quiet --seeds 2 --limit 1") == 0
    capsys.readouterr()
    assert mars(f"eval report latest --db {url}") == 0
    printed = capsys.readouterr().out
    assert "Placebo of MARS θ = 0.9" in printed and "| Keep all drafts |" in printed
    assert "MARS θ = 0.9" in printed and "too few prompts" in printed
    assert "mars eval run --plan plan.json" in printed
    files = f"--folder {tmp_path}/report --markdown {tmp_path}/r.md"
    assert mars(f"eval report latest --db {url} {files}") == 0
    written = {Path(line).name for line in capsys.readouterr().err.split()}
    assert written >= {"report.html", "report.md", "r.md", PLAN, *TABLES}
    assert mars(f"eval export latest --db {url} --folder {tmp_path}/shapes") == 0
    assert any((tmp_path / "shapes").rglob("*.jsonl"))
    monkeypatch.delenv("MARS_JUDGE_KEY", raising=False)
    capsys.readouterr()
    assert mars(f"eval judge latest --db {url}") == 2
    assert (
        capsys.readouterr().err
        == "MARS_JUDGE_KEY is not set; it must be the key of the judge's endpoint.\n"
    )
    assert mars(f"eval run --plan {tmp_path}/report/{PLAN} --plan-only --db {url} {HERE}") == 0
    with RunStore(url) as store:
        again, first = (store.study(study.id).plan for study in store.studies())
    assert read_plan(again) == read_plan(first)
    for changed, sentence in (
        ({"execute_code": True}, "allow it with --execute-code"),
        ({"lanes": []}, "lanes is 0; it must be 2 to 256"),
        ({"colour": "red"}, "'colour' does not fit"),
    ):
        (tmp_path / "other.json").write_text(json.dumps(first | changed), "utf-8")
        capsys.readouterr()
        assert mars(f"eval run --plan {tmp_path}/other.json --db {url} {HERE}") == 2
        assert sentence in capsys.readouterr().err


def test_a_number_out_of_range_is_one_line(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "a-key")
    judge = "judge latest --url http://localhost:1 --model m --limit 0"
    assert mars(f"eval {judge} --db {url}") == 2
    assert capsys.readouterr().err.startswith("--limit is 0; it must be")


def test_other_models_than_those_planned_are_refused(
    options: str, url: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mars(f"eval run {options} --plan-only") == 0
    weights = folder / "draft" / "model.safetensors"
    content = weights.read_bytes()
    try:
        weights.write_bytes(content[:-4] + b"\0\0\0\0")
        assert mars(f"eval resume latest {HERE} --db {url}") == 2
    finally:
        weights.write_bytes(content)
    assert "The study was planned with" in capsys.readouterr().err


def test_the_documented_script_recomputes_a_report_from_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a study of the bundled pair, every number that it prints, to the last digits."""
    text = (Path(__file__).parents[4] / "docs" / "evaluation.md").read_text("utf-8")
    (script,) = re.findall(r"^```python\n(import sys\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "recompute.py").write_text(script, encoding="utf-8")
    study = "--pair bundled --suite demo_arithmetic --limit 3 --seeds 2 --temperature 0,1 "
    study += "--batch 16 --placebo-seeds 2 --max-new-tokens 64"
    store = f"--db sqlite:///{tmp_path / 'runs.db'}"
    assert mars(f"eval run {study} --rules strict,mars --theta 0.8 {store} {HERE} --quiet") == 0
    assert mars(f"eval report latest --folder {tmp_path / 'report'} {store}") == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["recompute.py", str(tmp_path / "report" / "results.csv")])
    runpy.run_path(str(tmp_path / "recompute.py"))
    printed = csv.DictReader(io.StringIO(capsys.readouterr().out))
    with (tmp_path / "report" / "measured.csv").open(encoding="utf-8", newline="") as file:
        measured = {
            (row["temperature"], row["name"]): row for row in reversed([*csv.DictReader(file)])
        }
    rows = {(row["temperature"], row["name"]): row for row in printed}
    assert rows.keys() < measured.keys() and len(rows) == 6
    for key, row in rows.items():
        for name, value in row.items():
            if name not in ("group", "name") and value:
                assert float(value) == pytest.approx(float(measured[key][name]), rel=1e-9), name
    relaxed = [row for row in rows.values() if row["placebo_ratio"]]
    assert len(relaxed) == 2 and {row["name"] for row in relaxed} == {"mars(theta=0.8)"}
