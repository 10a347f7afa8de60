"""``lm_eval --model mars``: the command, its files, what it refuses."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evaluation.harness import TASKS
from evaluation.harness.command import main
from storage import RunStore


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """lm-eval's command changes ``sys.argv`` and logging, and looks through 10,000 files of tasks,
    of which none is ours."""
    import lm_eval.tasks

    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(
        lm_eval.tasks, "TaskManager", partial(lm_eval.tasks.TaskManager, include_defaults=False)
    )
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(folder: Path, name: str) -> list[Any]:
    (path,) = folder.rglob(name)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_results_samples_telemetry_and_runs_belong_together(tmp_path: Path, url: str) -> None:
    arguments = f"pair=bundled,rule=mars,theta=0.9,db={url}"
    command = (
        f"--model mars --model_args {arguments} --tasks demo_arithmetic --limit 2 --seed 7".split()
    )
    assert (
        main([*command, "--apply_chat_template", "--log_samples", "--output_path", str(tmp_path)])
        == 0
    )

    (path,) = tmp_path.rglob("results_*.json")
    results = json.loads(path.read_text(encoding="utf-8"))
    samples = {
        sample["doc_id"]: sample for sample in lines(tmp_path, "samples_demo_arithmetic_*.jsonl")
    }
    rows = lines(tmp_path, "telemetry_*.jsonl")
    assert path.parent.name == "bundled_mars"
    assert {"exact_match,strict-match", "exact_match,flexible-extract"} <= set(
        results["results"]["demo_arithmetic"]
    )
    assert results["config"]["device"] == "cpu"
    pooled = results["config"]["mars"]
    assert pooled["tau"] == pytest.approx(
        sum(row["new_tokens"] for row in rows) / sum(row["steps"] for row in rows)
    )
    assert [row["doc_id"] for row in rows] == sorted(samples) == [0, 1]
    with RunStore(url) as store:
        records = store.records([row["run_id"] for row in rows])
    for row, record in zip(rows, records, strict=True):
        sample = samples[row["doc_id"]]
        assert row["prompt_hash"] == sample["prompt_hash"]
        assert record.text == sample["resps"][0][0]
        assert record.config.prompt.text == sample["arguments"]["gen_args_0"]["arg_0"]
        assert row["tau"] == record.summary.tau and row[
            "theta" if "theta" in row else "parameters"
        ] == {"theta": 0.9}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "pair=bundled,k=5 --gen_kwargs num_beams=3",
            "The task sets num_beams=3; the model mars takes until",
        ),
        ("rule=strict,theta=0.9", "theta is not an argument of the model mars with rule strict"),
        ("pair=bundled --limit 0", "limit is 0.0; it must be a number, more than 0."),
        ("pair=bundled --num_fewshot -1", "num_fewshot is -1; it must be a number, 0 or more."),
    ],
)
def test_what_cannot_run_is_one_sentence(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"--model mars --tasks demo_arithmetic --limit 1 --model_args {arguments}"
    assert main(command.split()) == 2
    assert sentence in capsys.readouterr().err


def test_a_number_of_a_file_is_checked_as_one_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("model: mars\ntasks: demo_arithmetic\nnum_fewshot: few\n")
    assert main(["--config", str(file)]) == 2
    assert "num_fewshot is few; it must be a number, 0 or more." in capsys.readouterr().err


def test_lm_evals_models_stay_beside_ours() -> None:
    """It registers them only where there is no model yet, so in a separate process."""
    code = (
        "import evaluation.harness\nevaluation.harness.register()\n"
        "from lm_eval.api.registry import model_registry\nprint({*model_registry} >= {'hf', 'mars'})"
    )
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=120, cwd=TASKS.parents[1], check=True
    )
    assert done.stdout.strip() == "True"


def test_without_lm_eval_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval.api.registry", None)
    assert main(["--model", "mars"]) == 2
    assert "make eval in a checkout" in capsys.readouterr().err


def test_the_tasks_folder_stands_beside_the_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        (TASKS / "demo_arithmetic.yaml")
        .read_text(encoding="utf-8")
        .replace("task: demo", "task: my")
    )
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert main(["ls", "tasks", "--include_path", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "my_arithmetic" in printed and "demo_arithmetic" in printed
