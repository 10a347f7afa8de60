"""A lane that is a server: its run is an event stream like any other, claims what the server said
and nothing else, and ends when it is stopped."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

import mars_playground as mars
from evaluation.served.lane import LONGEST, checked_servers, with_servers
from evaluation.served.server import KEY, Server, with_key
from mars_core.jobs import Began, Job, JobEvent, RecordedRun, Wrote, follow
from mars_core.models import BUNDLED_PAIR
from mars_core.settings import Settings
from mars_core.settings.recorded import documents
from mars_core.telemetry import counted_note, first_divergence
from mars_core.types import UNKNOWN, Cause, Outcome, RunConfig, Status, StopReason, Trace
from mars_playground.__main__ import main
from storage import RunStore
from tests.served_server import Serving
from tests.streaming_server import chunk, position, stream_events

PROMPT = "Tell me a story about Mia and a lantern."


def asked(
    url: str, stopped: Callable[[], bool] = lambda: False, key: str = "", **settings: object
) -> Iterator[JobEvent]:
    config = config_of(url, **settings)
    job = Job(BUNDLED_PAIR, (config,), (0,), interval_s=0)
    return with_servers(job, {url: key}, pytest.fail, stopped)


def config_of(url: str, **settings: object) -> RunConfig:
    asked = Settings(prompt=PROMPT, server=(url,), **settings)  # type: ignore[arg-type]
    return asked.served(asked.rules[0])


def run_of(events: Iterator[JobEvent]) -> Trace:
    records: dict[int, RecordedRun] = {}
    for event in events:
        follow(records, event)
    return records[0].trace()


def test_a_server_beside_strict_is_one_comparison(serving: Serving, tmp_path: object) -> None:
    """Of the same model: the same text, also saved, and with the steps that the server reports."""
    compared = mars.compare(
        PROMPT, rules=["none"], pair="bundled", server=serving.url, max_new_tokens=24
    )
    strict, _, served = compared.traces
    assert served.text == strict.text and first_divergence(strict, served) is None
    assert served.status is Status.COMPLETED and compared.order[-1] == 2
    assert served.summary.steps > 1 and served.summary.tau > 1
    assert served.summary.relaxed == UNKNOWN and math.isnan(served.summary.tv_sum)
    assert 0 < served.summary.ttft_s <= served.summary.wall_s
    assert list(compared.to_pandas()["rule"]) == ["strict", "none", "server"]
    with RunStore(f"sqlite:///{tmp_path}/runs.db") as store:
        saved = store.load(compared._save(store)).runs[2].trace
    assert (saved.config, saved.text) == (served.config, served.text)
    assert str(saved.summary) == str(served.summary)  # which has numbers that are none
    assert [each.gap for each in saved.tokens] == pytest.approx(
        [each.gap for each in served.tokens], nan_ok=True
    )
    assert "Served model" in compared.to_html(figures=False)
    configs = [trace.config for trace in compared.traces]
    again = Settings(**documents(configs)[0])  # these settings repeat it
    assert [lane.text for lane in again.rules] == ["strict", "none", "server"]
    assert (again.rules[2].server, again.rules[2].server_model) == (serving.url, "bundled")


def test_every_server_is_a_lane_of_its_own_and_is_given_its_own_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--pair=bundled", "--max-new-tokens=4", f"--prompt={PROMPT}", "--server-model=m"]
    with (
        stream_events(*ANSWER) as one,
        stream_events(*ANSWER) as other,
        stream_events(*ANSWER) as third,
    ):
        monkeypatch.setenv(KEY, f"{one.url}=sk-one {other.url}=sk=other==")
        servers = [one.url.removesuffix("/v1"), other.url]
        compared = mars.compare(PROMPT, rules="none", pair="bundled", server=servers)
        *_, first, second = compared.traces
        assert (first.text, second.text) == ("Mia sat", "Mia sat") and len(compared.texts) == 4
        assert [f"Served model only, {url}" for url in servers] == [*compared.texts][2:]
        assert main(["compare", *few, f"--server={other.url}", f"--server={third.url}"]) == 0
        out, _ = capsys.readouterr()
        assert f"── server m {other.url} ──\nMia sat\n" in out and third.url in out
        assert {each[1] for each in one.requests} == {"Bearer sk-one"}
        assert {each[1] for each in other.requests} == {"Bearer sk=other=="}
        assert {each[1] for each in third.requests} == {""}
        asked = len(third.requests)
        monkeypatch.setenv(KEY, "sk-one")  # whose it is nobody says
        assert main(["compare", *few, f"--server={one.url}", f"--server={third.url}"]) == 2
        assert "write URL=KEY of each" in capsys.readouterr().err
        assert len(third.requests) == asked


@pytest.mark.parametrize(
    ("environment", "url", "key"),
    [
        ("", "http://a", ""),
        ("sk-1", "http://a", "sk-1"),
        ("http://a/=sk-1", "http://a/v1", "sk-1"),
        ("http://a=sk-1 http://a:8000=sk-2", "http://a:8000", "sk-2"),
        ("http://a=sk-1", "http://a.example", ""),
        ("http://a=sk-1", "https://a", ""),
        ("http://a=sk-1 sk-2", "http://b", ""),
    ],
)
def test_a_key_of_the_environment_is_for_its_address(environment: str, url: str, key: str) -> None:
    assert with_key({KEY: environment}, Server(url)).key == key


ANSWER = (
    chunk("Mia", position("Mia", -0.25, The=-2.0)),
    chunk(" sat", position(" sat", -0.0005, ran=-7.6)),
    chunk("", finish="stop"),
    {"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens": 5}},
)


def test_what_a_stream_tells_is_shown_as_it_comes_and_what_it_does_not_is_missing() -> None:
    with stream_events(*ANSWER) as server:
        began, *events = asked(server.url)
    assert isinstance(began, Began) and began.config.target.name == "only"
    written = [step for event in events if isinstance(event, Wrote) for step in event.steps]
    live = [token for step in written for token in step.tokens]
    assert [(each.piece, each.start, each.end) for each in live] == [("Mia", 0, 3), (" sat", 3, 7)]
    trace = run_of(iter([began, *events]))
    first, second, end = trace.tokens  # llama.cpp counts the end and sends nothing of it
    assert trace.text == "Mia sat" and (end.piece, end.logprob == end.logprob) == ("", False)
    assert first.gap == pytest.approx(1.75) and first.rank == 1
    assert [each.piece for each in first.top] == ["Mia", "The"]
    assert math.isnan(first.entropy)  # the two have 0.78 + 0.14 of p, not nearly all
    assert second.entropy == pytest.approx(0.0043, abs=2e-4)
    assert {each.outcome for each in trace.tokens} == {Outcome.BONUS}
    summary = trace.summary
    assert (summary.new_tokens, summary.steps, summary.drafted) == (3, UNKNOWN, UNKNOWN)
    assert math.isnan(summary.tau) and math.isnan(summary.acceptance_rate)


def test_what_the_server_counted_meanwhile_is_of_the_answer_where_it_wrote_nothing_else(
    serving: Serving,
) -> None:
    told = run_of(asked(serving.reset().url, max_new_tokens=24))
    counted = run_of(asked(serving.reset(steps=False).url, max_new_tokens=24))
    summary, drafts = counted.summary, serving.drafts
    assert (summary.new_tokens, summary.drafted) == (24, serving.drafted)
    assert summary.rejected == serving.drafted - serving.accepted
    assert summary.acceptance_by_position == pytest.approx(
        [serving.accepted_at[at] / drafts for at in range(5)]
    )
    assert summary.tau == 24 / max(drafts, 24 - 1 - serving.accepted)
    assert "as a whole" in counted.config.environment["counts"]
    assert "are by /metrics of the server as a whole" in counted_note(counted)
    assert counted_note(told) == "" and "counts" not in told.config.environment

    def busy(trace: Trace) -> Trace:
        serving.generated += 1  # of another client
        return trace

    unknown = run_of(asked(serving.reset(steps=False, change=busy).url, max_new_tokens=24))
    assert unknown.summary.steps == UNKNOWN and math.isnan(unknown.summary.tau)
    assert unknown.text == counted.text and "counts" not in unknown.config.environment


LLAMA = "llamacpp:spec_decode_num_drafts_total 0\n"


@pytest.mark.parametrize(("metrics", "steps"), [(LLAMA, 2), ("", UNKNOWN)])
def test_an_answer_of_llama_cpp_without_drafts_took_a_pass_a_token_where_drafts_are_counted(
    metrics: str, steps: int, url: str
) -> None:
    """It leaves its counts out of such an answer, as versions do that count none."""
    end = {**chunk("", finish="length"), "timings": {"predicted_n": 3}}
    usage = {"choices": [], "usage": {"completion_tokens": 3}}
    with stream_events(*map(chunk, "abc"), end, usage, metrics=metrics) as server:
        summary = run_of(asked(server.url, server_model="m")).summary
        assert summary.steps == steps and math.isnan(summary.tau) is (steps == UNKNOWN)
        study = f"--server {server.url} --baseline {server.url} --prompt a --max-new-tokens 3"
        assert main(f"eval run {study} --db {url} --quiet".split()) == 0
    with RunStore(url) as store:
        results = store.results(store.studies()[0].id)
    assert [one.data["steps"] for one in results] == [steps if steps > 0 else "nan"] * 2


def test_a_text_of_other_tokens_differs_where_its_characters_do() -> None:
    (strict, _) = mars.compare(PROMPT, rules=["none"], pair="bundled", max_new_tokens=24).traces
    middle = strict.tokens[9].start
    text = strict.text[:middle] + "\N{SNOWMAN}"
    with stream_events(*map(chunk, text), chunk("", finish="length")) as server:
        other = run_of(asked(server.url, max_new_tokens=24))
    difference = first_divergence(strict, other)
    assert difference and (difference.position, difference.cause) == (9, Cause.UNKNOWN)
    whole = replace(other, text=strict.text)
    assert first_divergence(strict, whole) is None


def test_a_run_that_is_stopped_or_abandoned_ends_its_request() -> None:
    for closed in (True, False):
        stop: list[bool] = []
        with stream_events(chunk("Mia", position("Mia", -0.25)), holds=True) as server:
            with closing(asked(server.url, lambda stop=stop: bool(stop))) as events:  # type: ignore[misc]
                seen = [next(events), next(events)]
                stop.append(True)
                seen += () if closed else events
            assert server.left.wait(60)
    trace = run_of(iter(seen))
    assert (trace.status, trace.stop_reason) == (Status.CANCELLED, StopReason.CANCELLED)
    assert trace.text == "Mia" and trace.summary.new_tokens == 1
    assert trace.summary.steps == UNKNOWN and math.isnan(trace.summary.tau)
    with stream_events(holds=True) as server:  # and one whose job has no time left
        job = Job(BUNDLED_PAIR, (config_of(server.url),), (0,), seconds=0.0)
        trace = run_of(with_servers(job, {}, pytest.fail, lambda: False))
    assert (trace.status, trace.stop_reason) == (Status.CANCELLED, StopReason.DEADLINE)


def test_no_server_sends_its_clients_elsewhere() -> None:
    with stream_events(*ANSWER) as other, stream_events(moved=f"{other.url}/x") as server:
        trace = run_of(asked(server.url, server_model="m", key="sk-canary"))
    assert trace.status is Status.FAILED and "answered 307" in trace.error and not other.requests


HOSTILE = {
    "values that are none": chunk("a", position("a", 1e300, b=-1e300, c=5.0)),
    "a lone surrogate and a NUL": chunk("\ud800\x00", position("\ud800\x00", -1.0)),
    "a display that is not the text": chunk("a", position("b" * 10_000, -1.0)),
    "infinite": chunk("a", position("a", -math.inf, b=math.inf, c=math.nan)),
}


@pytest.mark.parametrize("event", HOSTILE.values(), ids=HOSTILE)
def test_what_a_hostile_server_says_can_be_saved_and_shown(
    event: dict[str, object], tmp_path: object
) -> None:
    with stream_events(event, chunk("", finish="stop")) as server:
        trace = run_of(asked(server.url, server_model="m"))
    assert trace.status is Status.COMPLETED
    compared = mars.Comparison((trace,), (0,), Settings())
    with RunStore(f"sqlite:///{tmp_path}/runs.db") as store:
        assert store.load(compared._save(store)).runs[0].trace.status is Status.COMPLETED
    assert "Served model" in compared.to_html(figures=False)


def test_a_server_that_writes_more_than_was_asked_for_is_cut_off() -> None:
    long = chunk("x" * LONGEST)
    with stream_events(*[long] * 9, holds=True) as server:
        trace = run_of(asked(server.url, server_model="m", max_new_tokens=8))
        assert server.left.wait(60)
    assert trace.error == "The server wrote more than the 8 tokens of max_new_tokens."


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"server": "ftp://host"}, "The server's URL is 'ftp://host'; it must begin with http://"),
        ({"server": "http://me:sk-1@host"}, "The server's URL contains a password or a query"),
        ({"typical_p": 0.9}, "typical_p is set, which a server cannot be asked for"),
        ({"prefix": [1, 2]}, "prefix has token ids, which a server cannot be given"),
        ({"chat": False, "thinking": True}, "thinking is set, but no chat template is used"),
        ({"server": "", "rules": ["strict", "server"]}, "server is empty; a lane that is a server"),
    ],
)
def test_what_no_server_can_be_asked_is_refused_before_anything_runs(
    settings: dict[str, object], sentence: str
) -> None:
    values: dict[str, object] = {"prompt": PROMPT, "server": "http://host", **settings}
    with pytest.raises(ValueError, match=re.escape(sentence)) as raised:
        checked_servers(Settings(**values), {})  # type: ignore[arg-type]
    assert "sk-1" not in str(raised.value)


def test_a_request_has_the_settings_of_the_run() -> None:
    same = {"temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "seed": 3, "stop": ["x"]}
    same["presence_penalty"] = 0.2
    other = {"server_model": "m", "system": "Be brief.", "max_new_tokens": 7}
    with stream_events(*ANSWER) as server:
        run_of(asked(server.url, **same, **other))
    *_, (_, _, body) = server.requests
    said = [(each["role"], each["content"]) for each in body["messages"]]
    assert said == [("system", "Be brief."), ("user", PROMPT)]
    assert (same | {"model": "m", "max_tokens": 7, "top_logprobs": 20}).items() <= body.items()
