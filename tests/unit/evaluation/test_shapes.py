"""A stored study as files of lm-eval and Spec-Bench: what their readers make of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from lm_eval.utils import (
    get_file_datetime,
    get_file_task_name,
    get_results_filenames,
    get_sample_results_filenames,
    make_table,
)

from evaluation.item import Item, Suite
from evaluation.report.shapes import write_answers, write_lm_eval
from evaluation.study.plan import Lane, Models, Plan, Task
from mars_core.types import (
    DraftMode,
    Exchange,
    ModelRef,
    PromptConfig,
    RuleConfig,
    Status,
    StopReason,
    Trace,
)
from storage import RunStore
from tests.traces import make_trace
from tests.unit.evaluation import saved

EXACT, FLEXIBLE = "exact_match,strict-match", "exact_match,flexible-extract"
LANES = (*saved.LANES, Lane(RuleConfig("strict"), replace(saved.MODEL, mode=DraftMode.SAMPLED)))
SUMS = tuple(Item(f"{81 + at}", (f"{at} + 1?",), (f"{at + 1}",)) for at in range(3))
TALK = (
    Item("a/1", ("Hi", "And?"), category="writing"),
    Item("a/2", ("Grüße </script>",), category="roleplay"),
)
SUITES = (Suite("gsm8k", SUMS, metrics=(EXACT, FLEXIBLE)), Suite("talk", TALK))
MODELS = Models("bundled", ModelRef("some/where/target"), saved.MODEL.model)
PLAN = Plan("a study", MODELS, SUITES, LANES, (0.0, 1.0), 2)


def right(task: Task, lane: int) -> float:
    """Some answers are right in one seed only."""
    return float((task.item + task.repeat + lane) % 3 > 0)


def traces_of(number: int, lane: int) -> list[Trace]:
    """All turns of a task: prompts and lengths of their own; every first turn ends by a stop
    string."""
    task, rule = PLAN.task(number), "none" if lane == 0 else LANES[lane].rule.name
    history: tuple[Exchange, ...] = ()
    traces = []
    for turn, text in enumerate(PLAN.item(task).turns):
        prompt = PromptConfig(text, stop=("##",), history=history)
        tokens = 11 + 3 * turn + task.item
        trace = make_trace(
            rule=rule, new_tokens=tokens, seed=number, temperature=task.temperature, prompt=prompt
        )
        if not turn:
            trace = replace(trace, text=f"{trace.text}##", stop_reason=StopReason.STOP_STRING)
        if (number, lane) == (0, 2):
            trace = replace(trace, status=Status.FAILED, error="Out of memory.")
        traces.append(trace)
        history = (*history, Exchange(text, trace.text))
    return traces


def scores_of(number: int, lane: int) -> dict[str, float]:
    task = PLAN.task(number)
    return {EXACT: right(task, lane), FLEXIBLE: 1.0} if task.suite == 0 else {}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunStore, str]]:
    with RunStore(f"sqlite:///{tmp_path_factory.mktemp('shapes')}/runs.db") as store:
        yield store, saved.save_study(store, PLAN, traces_of, scores_of)


def of(paths: tuple[Path, ...], *words: str) -> Path:
    (path,) = (path for path in paths if all(word in str(path) for word in words))
    return path


def read(path: Path | str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def lm_eval_files(
    study: tuple[RunStore, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ...]:
    return write_lm_eval(*study, tmp_path_factory.mktemp("lm_eval"))


@pytest.fixture(scope="module")
def answer_files(
    study: tuple[RunStore, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ...]:
    return write_answers(*study, tmp_path_factory.mktemp("answers"))


MARS = ("mars_theta=0.9", "temperature-1/")


def test_readers_of_lm_eval_find_and_show_the_files(lm_eval_files: tuple[Path, ...]) -> None:
    names = [str(path) for path in lm_eval_files]
    assert len(get_results_filenames(names)) == len(LANES) * len(PLAN.temperatures)
    samples = get_sample_results_filenames(names)
    assert len(samples) == 2 * len(get_results_filenames(names))
    assert {get_file_task_name(Path(name).name) for name in samples} == {"gsm8k", "talk"}
    results = of(lm_eval_files, "results_", *MARS)
    beside = of(lm_eval_files, "samples_gsm8k", *MARS)
    assert get_file_datetime(results.name).removesuffix(".json") == get_file_datetime(beside.name)
    table = make_table(read(results))
    assert (
        "|gsm8k|" in table.replace(" ", "")
        and "strict-match" in table
        and "flexible-extract" in table
    )


def test_scores_are_means_over_documents_of_means_over_seeds(
    lm_eval_files: tuple[Path, ...],
) -> None:
    file = read(of(lm_eval_files, "results_", *MARS))
    of_documents = [
        fmean(right(Task(0, item, repeat, 1.0), 2) for repeat in (0, 1)) for item in range(3)
    ]
    task = file["results"]["gsm8k"]
    assert task[EXACT] == pytest.approx(fmean(of_documents))
    assert task["exact_match_stderr,strict-match"] == pytest.approx(
        stdev(of_documents) / math.sqrt(3)
    )
    assert task[FLEXIBLE] == 1.0 and file["n-samples"]["gsm8k"] == {"original": 3, "effective": 3}
    mars = file["config"]["mars"]
    assert mars["tau"] == pytest.approx(mars["new_tokens"] / mars["steps"]) and mars["failed"] == 0
    assert file["config"]["model_args"] == {
        "target": "some/where/target",
        "rule": "mars",
        "theta": 0.9,
        "protect": "none",
        "drafter": "demo/draft",
        "k": 5,
        "draft_mode": "coupled",
    }


def test_model_args_are_those_that_the_model_mars_takes(lm_eval_files: tuple[Path, ...]) -> None:
    from evaluation.harness.options import read_options

    for path in get_results_filenames([str(path) for path in lm_eval_files]):
        config = read(path)["config"]
        options = read_options(config["model_args"])
        name = (config["mars"]["lane"], config["mars"]["drafts"])
        wanted = next(lane for lane in LANES if (lane.name, lane.drafts) == name)
        assert options.rule == ("none" if wanted.drafter.kind == "none" else wanted.rule.name)
        assert dict(options.rule_config.parameters) == dict(wanted.rule.parameters)
        assert wanted.drafter.kind == "none" or options.draft_mode == wanted.drafter.mode


def test_samples_have_lm_evals_fields_and_every_turn_and_seed(
    lm_eval_files: tuple[Path, ...],
) -> None:
    sums, talk = (
        lines(of(lm_eval_files, f"samples_{suite}", *MARS)) for suite in ("gsm8k", "talk")
    )
    assert [(sample["doc_id"], sample["filter"]) for sample in sums] == [
        (number, name) for number in range(3) for name in ("strict-match", "flexible-extract")
    ]
    for sample in sums:
        assert sample["metrics"] == ["exact_match"] and 0 <= sample["exact_match"] <= 1
        assert len(sample["resps"]) == 1 and len(sample["resps"][0]) == PLAN.repeats
        assert not any(text.endswith("##") for text in sample["resps"][0])
    first = talk[0]
    assert (first["filter"], first["metrics"]) == ("none", [])
    assert [len(turn) for turn in first["resps"]] == [2, 2]
    assert [first["arguments"][f"gen_args_{turn}"]["arg_0"] for turn in (0, 1)] == ["Hi", "And?"]
    generation = first["arguments"]["gen_args_0"]["arg_1"]
    assert generation["do_sample"] and generation["temperature"] == 1.0
    assert {"doc", "target", "filtered_resps", "doc_hash", "prompt_hash", "target_hash"} <= set(
        first
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_samples_load_as_a_dataset(lm_eval_files: tuple[Path, ...], tmp_path: Path) -> None:
    """As the Hub shows them, and lm-eval's tracker reads them."""
    from datasets import Dataset

    for suite, rows in (("gsm8k", 6), ("talk", 2)):
        path = str(of(lm_eval_files, f"samples_{suite}", *MARS))
        assert Dataset.from_json(path, cache_dir=str(tmp_path)).num_rows == rows


@pytest.mark.parametrize(("auto", "size"), [(False, "4"), (True, "auto")])
def test_the_size_of_the_batch_is_named(tmp_path: Path, auto: bool, size: str) -> None:
    plan = replace(PLAN, batch=4, auto=auto)
    with RunStore(f"sqlite:///{tmp_path}/runs.db") as store:
        stored = saved.save_study(store, plan, traces_of, scores_of)
        written = write_lm_eval(store, stored, tmp_path)
    assert read(of(written, "results_", *MARS))["config"]["batch_size"] == size


def test_a_failed_answer_is_counted_and_left_out(lm_eval_files: tuple[Path, ...]) -> None:
    greedy = (MARS[0], "temperature-0/")
    results = read(of(lm_eval_files, "results_", *greedy))
    assert results["config"]["mars"]["failed"] == 1
    assert (
        len(lines(of(lm_eval_files, "samples_gsm8k", *greedy))[0]["resps"][0]) == PLAN.repeats - 1
    )


def test_spec_bench_reads_speed_and_lengths(answer_files: tuple[Path, ...]) -> None:
    """What its speed.py takes from a row, held against the traces."""
    path = of(answer_files, "gsm8k/", "mars_theta", "-1.")
    assert path.parent.name == "model_answer" and path.suffix == ".jsonl"
    rows = lines(path)
    assert [row["question_id"] for row in rows] == [81, 82, 83]
    for item, row in enumerate(rows):
        assert row["category"] == "gsm8k" and row["model_id"] == path.stem and row["tstamp"] > 0
        for repeat, choice in enumerate(row["choices"]):
            number = next(
                n for n in range(PLAN.tasks) if PLAN.task(n) == Task(0, item, repeat, 1.0)
            )
            (trace,) = traces_of(number, 2)
            assert choice["index"] == repeat and choice["turns"] == [trace.text.removesuffix("##")]
            assert choice["accept_lengths"] == [len(step.emitted) for step in trace.steps]
            assert (
                sum(choice["new_tokens"])
                == sum(choice["accept_lengths"])
                == trace.summary.new_tokens
            )
            assert choice["wall_time"] == [trace.summary.wall_s]
            assert choice["decoding_steps"] == [len(trace.steps)] == [choice["idxs"][0] + 1]


def test_every_turn_of_a_conversation_is_in_its_row(answer_files: tuple[Path, ...]) -> None:
    path = of(answer_files, "talk/", "none", "-0.")
    rows = lines(path)
    assert [(row["question_id"], row["category"]) for row in rows] == [
        ("a/1", "writing"),
        ("a/2", "roleplay"),
    ]
    choice = rows[0]["choices"][0]
    assert len(choice["turns"]) == len(choice["new_tokens"]) == len(choice["wall_time"]) == 2
    assert choice["accept_lengths"] == [1] * sum(choice["new_tokens"])  # decoded token by token


def test_answers_whose_runs_were_deleted_are_counted_as_gone(
    study: tuple[RunStore, str], tmp_path: Path
) -> None:
    store, study_id = study
    gone = store.records([store.task_results(study_id, 3)[1].run_ids[0]])[0].comparison_id
    store.delete(gone)
    try:
        paths = write_lm_eval(store, study_id, tmp_path)
    finally:
        store.restore(gone)
    counts = [
        read(path)["config"]["mars"]["gone"]
        for path in get_results_filenames([str(path) for path in paths])
    ]
    assert sorted(counts) == [0] * 4 + [1] * 4  # all lanes of the task share its comparison
