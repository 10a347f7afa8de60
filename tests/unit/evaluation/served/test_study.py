"""A study on servers gives what the study of the same models in this process gives, whatever
happens on the way."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import evaluation.served.client as client
from evaluation.plan.models import Served
from evaluation.plan.plan import Plan, read_plan
from evaluation.report.measure import measure
from evaluation.report.measured import Measured
from evaluation.study.result import read_relative, read_result
from mars_core.types import RuleConfig, Status
from storage import RunStore
from tests.served_server import MODEL, Fault, Serving
from tests.unit.children import Child
from tests.unit.evaluation.calls import expect, mars

LONG = "--suite demo_arithmetic --limit 4 --max-new-tokens 48"
ITEMS = "--suite demo_arithmetic --limit 4 --max-new-tokens 16"
RULES = "--rules strict,mars --theta 0.6"
SAME = ("status", "ended", "prompt_tokens", "new_tokens", "characters", "scores")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0.0)


def run(url: str, options: str) -> tuple[Plan, list[Any]]:
    """The plan of a study and its results by task and lane."""
    assert mars(f"eval run {options} --db {url} --quiet") == 0
    with RunStore(url) as store:
        study = store.studies()[0]
        results = sorted(store.results(study.id), key=lambda one: (one.task, one.lane))
        return read_plan(store.study(study.id).plan), results


def report(url: str) -> tuple[Measured, ...]:
    with RunStore(url) as store:
        return measure(store, store.studies()[0].id).measured


def texts(url: str, results: list[Any]) -> list[list[str]]:
    with RunStore(url) as store:
        return [[record.text for record in store.records(one.run_ids)] for one in results]


def outcomes(results: list[Any]) -> list[Any]:
    return [{name: getattr(read_result(one.data), name) for name in SAME} for one in results]


def test_a_study_on_a_server_is_the_study_in_this_process(serving: Serving, tmp_path: Path) -> None:
    """At temperature 0: the same texts, scores, differences and verdicts."""
    here, there = (f"sqlite:///{tmp_path / name}.db" for name in ("here", "there"))
    machine = "--no-placebos --pair bundled --device cpu --dtype float32 --threads 1"
    _, wanted = run(here, f"{LONG} {RULES} {machine}")
    plan, actual = run(there, f"{LONG} {RULES} --server {serving.url}")
    assert plan.served == Served(serving.url, MODEL)
    assert texts(there, actual) == texts(here, wanted)
    assert outcomes(actual) == outcomes(wanted)
    for one, other in zip(actual, wanted, strict=True):
        ours, theirs = read_relative(one.relative), read_relative(other.relative)
        expect(ours, same=theirs.same, divergence=theirs.divergence)
        assert ours.bleu == pytest.approx(theirs.bleu, nan_ok=True)
        assert read_result(other.data).steps - read_result(one.data).steps in (
            0,
            1,
        )  # the first may have kept nothing
    for ours, theirs in zip(report(there), report(here), strict=True):
        assert ours.main_score is not None and theirs.main_score is not None
        assert ours.main_score.verdict == theirs.main_score.verdict
        assert ours.main_score.recovery == theirs.main_score.recovery
        assert ours.length_ratio == theirs.length_ratio
    assert any(not read_relative(one.relative).same for one in actual)  # else nothing was compared
    assert {body.get("vllm_xargs", {}).get("mars_rule") for body in serving.requests} == {
        "strict",
        "mars",
    }


def test_several_requests_at_once_give_the_same_results(serving: Serving, tmp_path: Path) -> None:
    one, four = (f"sqlite:///{tmp_path / name}.db" for name in ("one", "four"))
    options = f"{ITEMS} {RULES} --temperature 0,1 --server {serving.url}"
    _, wanted = run(one, options)
    serving.alone = (
        len(serving.requests) + 4
    )  # the requests before the study: two lanes at two temperatures
    _, actual = run(four, f"{options} --concurrency 4")
    assert texts(four, actual) == texts(one, wanted)
    assert outcomes(actual) == outcomes(wanted)


def test_a_scope_is_asked_of_the_plugin_by_its_name(serving: Serving, url: str) -> None:
    _, results = run(url, f"{ITEMS} --limit 1 {RULES} --scope position>=4 --server {serving.url}")
    assert {one.data["status"] for one in results} == {"completed"}
    asked = [body["vllm_xargs"] for body in serving.requests]
    scopes = {each["mars_rule"]: each.get("mars_scope") for each in asked}
    assert scopes == {"strict": None, "mars": "position>=4"}
    assert not any("mars_where" in each for each in asked)


def test_nonsense_is_a_failed_lane_that_can_be_run_again_and_the_key_is_stored_nowhere(
    serving: Serving,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "sk-0123456789-secret"
    monkeypatch.setenv("MARS_SERVER_KEY", key)
    serving.reset(key=key, faults=[Fault.NONE, Fault.NONE, Fault.NONSENSE])
    plan, results = run(url, f"{ITEMS} {RULES} --server {serving.url}")
    failed = [
        result for one in results if (result := read_result(one.data)).status is Status.FAILED
    ]
    assert [result.error for result in failed] == [
        f"The server {serving.url} gave an answer that is not one of the OpenAI interface."
    ]
    assert mars(f"eval report latest --db {url} --folder {tmp_path}/report") == 0
    assert mars(f"eval resume latest --failed --db {url} --quiet") == 0
    printed = capsys.readouterr()
    assert "1 tasks are open again" in printed.err
    assert key not in json.dumps(plan.as_dict()) + printed.out + printed.err
    assert not any(
        key.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    )
    with RunStore(url) as store:
        assert {one.data["status"] for one in store.results(store.studies()[0].id)} == {"completed"}


def test_a_server_that_is_gone_stops_the_study_which_goes_on_later(
    serving: Serving, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    serving.faults = [Fault.NONE] * 6 + [Fault.BUSY] * 1000
    assert mars(f"eval run {ITEMS} {RULES} --server {serving.url} --db {url} --quiet") == 1
    assert "answered 503: busy." in capsys.readouterr().err
    with RunStore(url) as store:
        study = store.studies()[0]
        assert 0 < store.study_progress(study.id).done < study.tasks
    serving.faults = []
    assert mars(f"eval resume latest --failed --db {url} --quiet") == 0
    with RunStore(url) as store:
        results = store.results(study.id)
        assert len(results) == 2 * study.tasks and {one.data["status"] for one in results} == {
            "completed"
        }


def test_a_study_that_is_killed_loses_and_repeats_nothing(serving: Serving, url: str) -> None:
    RunStore(url).close()
    options = f"{ITEMS} {RULES} --server {serving.url} --concurrency 2"
    child = Child(lambda _pipe, line: mars(line), f"eval run {options} --quiet --db {url}")
    with RunStore(url) as store:
        while not store.studies() or store.study_progress(store.studies()[0].id).results < 3:
            assert child.process.is_alive()
            time.sleep(0.02)
        child.kill()
        study = store.studies()[0].id
        before = {(one.task, one.lane): one.run_ids for one in store.results(study)}
        assert mars(f"eval resume {study} --db {url} --quiet") == 0
        results = store.results(study)
        after = {(one.task, one.lane): one.run_ids for one in results}
        assert len(results) == len(after) == 8 and before.items() <= after.items()
        assert (
            sum(len(store.load(id_).runs) for one in results for id_ in one.comparison_ids[:1]) >= 8
        )


def test_two_servers_are_compared_without_the_plugin(
    serving: Serving, other_serving: Serving, url: str
) -> None:
    """A server whose rule nobody knows, against one that is strict."""
    strict, other = serving.reset(plugin=False), other_serving.reset(plugin=False)
    other.rule = RuleConfig("mars", {"theta": 0.6})
    plan, results = run(url, f"{LONG} --server {other.url} --baseline {strict.url}")
    assert [lane.name for lane in plan.lanes] == ["strict", "server"]
    assert plan.served == Served(other.url, MODEL, strict.url, MODEL)
    assert not any("vllm_xargs" in body for body in (*strict.requests, *other.requests))
    assert len(strict.requests) == len(other.requests) == 1 + plan.items
    assert any(not read_relative(one.relative).same for one in results if one.lane == 1)


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        (
            {"plugin": False},
            "",
            "does not have the plugin mars-vllm (its /metrics has no vllm:mars_enabled)",
        ),
        ({"plugin": False}, "--rules strict,server", "The rule is strict, but the server"),
        ({}, "--rules none,strict", "The rule none cannot be requested from a server"),
        ({}, "--drafter ngram", "--drafter cannot be used with --server"),
        ({}, "--ban a", "--logit-bias cannot be used with --server"),
        ({}, "--protect none", "--protect cannot be used with --server"),
        ({}, "--ray", "use --concurrency"),
        ({}, "--concurrency 0", "concurrency is 0; it must be a whole number from 1 to 1024"),
        ({}, "--concurrency 1,2", "The number of seeds is 1; it must be a multiple of 2"),
        ({}, "--server-model other", "answered 404: .*The model 'other' does not exist"),
        ({"key": "sk-secret"}, "", "answered 401: .*bad key"),
        ({"refuses": ("seed",)}, "", "answered 400: .*seed"),
    ],
)
def test_what_a_server_cannot_do_is_one_sentence_before_the_study(
    serving: Serving,
    url: str,
    changed: dict[str, Any],
    options: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MARS_SERVER_KEY", "sk-wrong")
    serving.reset(**changed)
    assert mars(f"eval run {ITEMS} --server {serving.url} {options} --db {url}") in (1, 2)
    sentence = capsys.readouterr().err
    assert re.search(words.replace("(", r"\(").replace(")", r"\)"), sentence), sentence
    assert sentence.count("\n") == 1 and "sk-wrong" not in sentence
    with RunStore(url) as store:
        assert not store.studies()
