"""Studies that are stopped by a signal go on later, with the same sampler."""

from __future__ import annotations

import os
import signal

import pytest

from evaluation.judge.study import KEY
from evaluation.study.launch import INTERRUPTED
from storage import RunStore
from tests.unit.evaluation.calls import mars
from tests.unit.evaluation.study.working import HERE, planned, planned_and_run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_study_that_goes_on_later_with_the_same_sampler(
    options: str,
    url: str,
    number: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:  # the signal comes after the first lane
        patch.setattr("tqdm.tqdm.update", lambda *_: os.kill(os.getpid(), number))
        assert mars(f"eval run {options} --temperature 1") == INTERRUPTED
    study, _ = planned(url)
    assert f"Continue with: mars eval resume {study}" in capsys.readouterr().err
    with RunStore(url) as store:
        assert len(store.task_results(study, 0)) == 1
        assert not store.study_progress(study).working
    with monkeypatch.context() as patch:
        patch.setattr("mars_core.types.configuration.SAMPLER", "another")
        assert mars(f"eval resume latest {HERE} --db {url}") == 2
    assert (
        "with another sampler, whose texts above temperature 0 are others; resume it with that version"
        in capsys.readouterr().err
    )
    assert mars(f"eval resume {study} {HERE} --db {url} --quiet") == 0
    planned_and_run(url)


def test_a_second_ctrl_c_says_how_to_go_on(
    options: str, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(*_: object) -> None:
        for _number in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tqdm.tqdm.update", twice)
    assert mars(f"eval run {options}") == INTERRUPTED
    study, _ = planned(url)
    assert capsys.readouterr().err.endswith(f"Continue with: mars eval resume {study}\n")


@pytest.mark.parametrize("command", ["judge", "follow", "resume", "report", "delete"])
def test_ctrl_c_where_nothing_runs_is_one_line(
    command: str, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "a-key")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    options = "--url http://localhost:1 --model m" if command == "judge" else ""
    monkeypatch.setattr(
        "storage.RunStore.studies", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
    )
    assert mars(f"eval {command} latest {options} --db {url}") == INTERRUPTED
    assert capsys.readouterr().err == "Interrupted.\n"
