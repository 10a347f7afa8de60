"""Bad days of the page's runs, each brought about: what was written is saved, and the next run
works. And runs in a process of ZeroGPU."""

from __future__ import annotations

import asyncio
import pickle
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import gradio as gr
import pytest

from mars_core.accelerators import ZeroGpu
from mars_core.jobs import Job
from mars_core.models import ModelPool, PairSpec
from mars_core.panics import contained
from mars_core.settings import Settings
from mars_core.types import Status, StopReason
from tests.unit.ui.helpers import (
    FORM,
    LONG,
    SWEEP,
    PanicException,
    changed,
    end_of,
    failing,
    run_comparison,
    run_one_more,
    running,
    strip_text,
    traces_of,
    write_answers,
)
from tests.zero import ForkingGpu
from ui.api.endpoints import Api
from ui.jobs.admission import errors_as_frames
from ui.jobs.services import Services
from ui.public.latest import Latest
from ui.public.limits import Limits
from ui.public.visitors import Visitor
from ui.settings.values import settings_label, settings_values
from ui.tabs.compare.continuation import ContinuationRequest
from ui.tabs.compare.frames import DisplayedComparison
from ui.tabs.study.form import StudyForm
from ui.tabs.study.running import StudyFrame, started
from ui.tabs.votes.round import Rounds

SHORT = replace(FORM, max_new_tokens=8)
PUBLIC = Limits(
    prompt_characters=200,
    prompt_tokens=60,
    new_tokens=64,
    k=8,
    lanes=3,
    study_runs=8,
    seconds=60,
    waiting=2,
    runs_an_hour=500,
)


def swept(services: Services, form: StudyForm) -> Iterator[StudyFrame]:
    """A study of the page, as its tab shows it."""
    return errors_as_frames(started(services, form), StudyFrame, "study")


@pytest.fixture
def public(ordered_services: Services) -> Services:
    """As two visitors' pages share it."""
    made = Services(
        ordered_services.pool,
        ordered_services.store,
        ordered_services.catalog,
        order=ordered_services.order,
        public=True,
        limits=PUBLIC,
        engine=ordered_services.engine,
    )
    return replace(made, visitor=Visitor("browser:a", "page a"))


def last(ordered_services: Services, form: Settings = SHORT) -> tuple[str, str]:
    return end_of(run_comparison(ordered_services, form))


def works(ordered_services: Services) -> bool:
    return last(ordered_services)[0] == "done" and (
        ordered_services.queue.running,
        ordered_services.queue.waiting,
    ) == (0, 0)


LOADING = ("transformers.AutoTokenizer.from_pretrained", "mars_core.models.loading.end_ids")


@pytest.mark.parametrize(
    ("target", "error"),
    [
        *zip(LOADING, (PanicException, MemoryError), strict=True),
        ("transformers.PreTrainedTokenizerBase.__call__", PanicException),
        ("mars_core.session.build", MemoryError),
        ("mars_core.engine.assembly.Assembler.step", MemoryError),
        ("mars_core.engine.assembly.Assembler.step", PanicException),
        ("ui.tabs.compare.frames.token_rows", PanicException),
    ],
)
def test_what_a_library_raises_is_one_sentence_and_the_next_run_works(
    ordered_services: Services,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    error: type[BaseException],
) -> None:
    """Also what is no Exception: from a tokenizer's regular expression, say. For the page, and for
    programs."""
    pair = ordered_services.pool.get(ordered_services.catalog[0])
    if target not in LOADING:
        monkeypatch.setattr(ModelPool, "_load", lambda *_: pair)
    reloaded = replace(
        ordered_services, pool=ModelPool(device="cpu", dtype="float32"), accelerator=None
    )
    request_ = {"prompt": "Once", "rules": ["strict"], "max_new_tokens": 4}
    with monkeypatch.context() as patch:
        patch.setattr(target, failing("odd\nbytes", error))
        state, words = last(reloaded)
        assert state == "failed" and words and "Traceback" not in words
        if "frames" not in target:
            try:
                (run,) = list(Api(reloaded).compare(**request_))[-1]["runs"]
                sentences = str(run["error"])
            except gr.Error as refused:
                sentences = str(refused)
            assert re.search(r"odd bytes\.|[Mm]emory", sentences) and "\n" not in sentences
    assert (
        works(reloaded)
        and list(Api(reloaded).compare(**request_))[-1]["runs"][0]["status"] == "completed"
    )


@pytest.mark.parametrize(
    "end", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]
)
def test_what_ends_the_program_or_a_task_is_no_panic(end: type[BaseException]) -> None:
    with pytest.raises(end), contained():
        raise end


def test_a_closed_tab_frees_the_slot_while_running_and_while_waiting(
    ordered_services: Services,
) -> None:
    first = run_comparison(ordered_services, LONG)
    running(first)
    waiting = run_comparison(ordered_services, LONG)
    assert (
        strip_text(next(waiting)) == ("running", ordered_services.queue._waiting[0].message())
        and ordered_services.queue.waiting == 1
    )
    waiting.close()  # type: ignore[attr-defined]
    assert ordered_services.queue.waiting == 0
    first.close()  # type: ignore[attr-defined]
    (trace,) = traces_of(ordered_services.store)
    assert (
        trace.status is Status.CANCELLED
        and ordered_services.queue.running == 0
        and works(ordered_services)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": "x" * 201}, "The prompt's length in characters is 201"),
        ({"system": "x" * 190}, "The prompt's length in characters is 206"),
        ({"prompt": "a b c d e f " * 15}, "The prompt's length in tokens is"),
        ({"max_new_tokens": 65}, "max_new_tokens is 65"),
        ({"k": 9}, "K is 9; on this public page it must be 1 to 8."),
        ({"rules": ["strict", "none", "mars", "typical"]}, "The number of lanes is 4"),
        ({"max_new_tokens": 10**6}, "max_new_tokens is 1000000; on this public page it must be 1"),
        ({"prefix": [5] * 60, "max_new_tokens": 8}, "on this public page they must be at most 64"),
        ({"target": "/etc"}, "This page runs the model pairs of its list"),
        ({"drafter": "eagle3:/etc"}, "This page runs the model pairs of its list"),
        ({"classifier": "/etc"}, "This page runs the model pairs of its list"),
        ({"parameters": "theta = 0.1 0.3 0.5 0.9"}, "The number of runs is 10"),
        ({"k": "9"}, "K is 9; on this public page it must be 1 to 8."),
    ],
)
def test_what_is_too_much_for_a_public_page_is_refused_in_one_sentence(
    public: Services, change: dict[str, Any], words: str
) -> None:
    """A comparison, of the page and of a program, and a study: whichever has the field."""
    sentences = []
    if change.keys() <= {each.name for each in fields(Settings)}:
        if "prefix" not in change:
            sentences.append(last(public, replace(FORM, **change)))
        with pytest.raises(gr.Error) as refused:
            list(Api(public).compare(**{"prompt": FORM.prompt, "max_new_tokens": 8} | change))
        sentences.append(("failed", str(refused.value.message)))
    if not change.keys() & {"prompt", "system", "k", "rules", "target", "drafter", "prefix"}:
        sentences.append(end_of(swept(public, changed(SWEEP, **change))))
    for state, sentence in sentences:
        assert state == "failed" and words in sentence and sentence.endswith(".")
    assert sentences and public.store.count() == 0
    assert public.queue.running == 0 and not public.queue.begun


def test_what_another_visitor_has_with_the_same_session_or_another_pair_is_out_of_reach(
    public: Services, spec: PairSpec
) -> None:
    other, ended, rounds = (
        replace(public, visitor=Visitor("browser:b", "page a")),
        Latest[str](3),
        Rounds(9),
    )
    other.stop.request()
    replace(public, scope="votes").stop.request()  # of another tab
    assert other.key != public.key and not public.stop.requested()
    ended.put(public.key, "details")
    assert ended.take(other.key) is None and ended.take(public.key) == "details"
    (*_, frame) = write_answers(public, rounds, replace(FORM, max_new_tokens=48))
    assert rounds.take(other.key) is None
    waiting = rounds.take(public.key)
    assert waiting and frame.state == "asking"
    own = DisplayedComparison(waiting.comparison, replace(spec, key="custom", title="Own"), (0, 1))
    *_, end = run_one_more(public, own, ContinuationRequest(0, 3, 7))
    assert "of its list only" in strip_text(end)[1]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may need longer for two runs than is requested at least."""
    monkeypatch.setattr(ZeroGpu, "MIN_S", 100)


@pytest.fixture
def gpu() -> Iterator[ForkingGpu]:
    gpu = ForkingGpu()
    yield gpu
    gpu.close()


@pytest.fixture
def zero(services: Services, gpu: ForkingGpu) -> Services:
    return replace(services, accelerator=ZeroGpu(services.pool, services.catalog, gpu))


def written(
    zero: Services, form: Settings = FORM
) -> list[tuple[str, tuple[int, ...], dict[str, str]]]:
    frames = list(run_comparison(zero, form))
    assert strip_text(frames[-1])[0] == "done", strip_text(frames[-1])
    return [
        (trace.text, trace.token_ids, dict(trace.config.environment))
        for trace in traces_of(zero.store)
    ]


def test_a_comparison_is_one_call_and_writes_what_a_thread_writes(
    services: Services, zero: Services, gpu: ForkingGpu
) -> None:
    assert written(zero) == written(services)
    for trace in traces_of(zero.store):  # what goes through a pipe, eight times a second
        assert len(pickle.dumps(trace.steps)) / len(trace.steps) < 20_000
    assert written(zero, replace(FORM, seed=4)) == written(services, replace(FORM, seed=4))
    assert (
        len(gpu.durations) == 2 and len(gpu.processes) == 1
    )  # the process stays for the next call


def test_a_process_that_is_killed_fails_its_run_which_is_stored_and_the_next_one_works(
    zero: Services, gpu: ForkingGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
    frames = run_comparison(zero, LONG)
    running(frames, 1)
    next(frames)
    gpu.kill()
    state, words = end_of(frames)
    assert state == "failed" and "was taken away: ZeroGPU worker error: GPU task aborted." in words
    (trace,) = traces_of(zero.store)
    assert (trace.status, trace.stop_reason) == (Status.FAILED, StopReason.ERROR) and len(
        trace.steps
    ) >= 2
    assert trace.text and "aborted" in trace.error and zero.queue.running == 0
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.125)
    assert written(zero) and len(gpu.processes) == 2


@pytest.mark.parametrize("closes", [False, True])
def test_a_stop_and_a_closed_tab_free_the_slot_and_the_process(
    zero: Services, gpu: ForkingGpu, closes: bool
) -> None:
    frames = run_comparison(zero, LONG)
    running(frames, 1)
    if closes:
        frames.close()  # type: ignore[attr-defined]
    else:
        zero.stop.request()
        assert end_of(frames)[0] == "cancelled"
        zero.stop.begin()
    assert zero.queue.running == 0
    (trace,) = traces_of(zero.store)
    assert trace.status is Status.CANCELLED and 0 < len(trace.tokens) < 3900
    assert written(zero) and len(gpu.processes) == 1


def test_continuing_voting_and_studying_are_calls_too(zero: Services, gpu: ForkingGpu) -> None:
    *_, displayed = [frame.displayed for frame in run_comparison(zero, FORM) if frame.displayed]
    ended = list(run_one_more(zero, displayed, ContinuationRequest(0, 3, 7)))[-1]
    assert strip_text(ended)[0] == "done" and len(gpu.durations) == 2
    rounds = list(write_answers(zero, Rounds(9), FORM))
    assert rounds[-1].strip.state == "done" and len(gpu.durations) == 3
    assert list(swept(zero, SWEEP))[-1].status is Status.COMPLETED
    assert len(gpu.durations) == 3 + 2 * 3  # one a run


def test_the_requested_time_follows_from_the_job_and_the_pace(
    zero: Services, gpu: ForkingGpu
) -> None:
    granted = zero.accelerator.granted
    written(zero)
    runs, tokens = 2, 24 + ZeroGpu.WARM_UP
    assert gpu.durations == [
        max(ZeroGpu.MIN_S, round(1.5 * runs * tokens * ZeroGpu.PACE_S + 0.4)) + ZeroGpu.SET_UP_S
    ]
    (spec,) = zero.catalog
    config = traces_of(zero.store)[0].config
    told = settings_label(settings_values(LONG), zero.catalog, zero.accelerator)
    asked = granted(Job(spec, (replace(config, max_new_tokens=3900),), (0, 0))).seconds
    assert told.endswith(f"asks for {asked + ZeroGpu.SET_UP_S} s of your GPU quota")
    longest = Job(spec, (replace(config, max_new_tokens=10**6),), (0,))
    assert (
        granted(longest).seconds == ZeroGpu.MAX_S
        and granted(replace(longest, seconds=33)).seconds == 33
    )
    assert (
        granted(Job(spec, (config,), (0,))).seconds == ZeroGpu.MIN_S
    )  # two small models are faster than a guess
