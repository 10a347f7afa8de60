"""A server as a lane of Compare: it streams beside the lanes of this page, fails alone, is asked
only where the page may ask, and its key is in nothing that is stored, shown or logged."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
import pytest

from display.format import plural
from display.sources import to_json
from evaluation.served.answer import Answer
from evaluation.served.trace import answer_trace
from mars_core.settings import Settings, read_lane
from mars_core.settings.links import address_words
from mars_core.types import ANSWER, SERVER, UNKNOWN, ModelRef, Outcome, Status
from tests.panels import read_panel
from tests.streaming_server import Streaming, chunk, position, stream_events
from tests.unit.evaluation.records.examples import SPECULATIVE
from tests.unit.evaluation.served.test_client import CONFIG
from tests.unit.ui.helpers import FORM, latest, run_comparison, strip_text
from ui.jobs.admission import JobError, with_answers
from ui.jobs.services import Services
from ui.kit.labels import lane_labels
from ui.result.result import Strip, headlines
from ui.settings.values import (
    read_beside,
    read_link,
    read_settings,
    settings_values,
    stored_settings,
)
from ui.tabs.compare.continuation import ContinuationRequest, continuation_config
from ui.tabs.compare.frames import DisplayedComparison
from ui.tabs.compare.handlers import measure_time, run_follow_up
from ui.tabs.compare.prompt_panel import PromptPanel
from ui.tabs.compare.tab import CompareTab
from ui.token_view.tiles import stat_tiles
from ui.token_view.view import FIELDS

KEY = "sk-canary-2718"
WORDS = ("Once", " there", " was", " a", " fox")
GAPS = (3.0, 0.5, 2.0, 0.1, 4.0)


@pytest.fixture
def server() -> Iterator[Streaming]:
    tokens = [
        chunk(word, position(word, -0.2, other=-0.2 - gap))
        for word, gap in zip(WORDS, GAPS, strict=True)
    ]
    usage = {"choices": [], "usage": {"completion_tokens": len(WORDS), "prompt_tokens": 4}}
    with stream_events(*tokens, chunk("", finish="length"), usage) as serving:
        yield serving


def form(*servers: str, model: str = "", **changed: Any) -> Settings:
    lanes = [{"rule": SERVER, "server": url, "server_model": model} for url in servers]
    return replace(FORM, rules=(*FORM.rules, *map(read_lane, lanes)), **changed)


def views_of(services: Services, settings: Settings) -> list[Any]:
    return list(run_comparison(services, settings))


def test_a_server_streams_beside_the_lanes_of_this_page_and_is_saved_with_them(
    services: Services, server: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions of its text that mars-gap would relax are counted and marked."""
    monkeypatch.setattr("ui.jobs.driver.INTERVAL_S", 0.0)
    frames = views_of(services, form(server.url))
    assert strip_text(frames[-1])[0] == "done"
    live = [each.lanes[2] for each in frames if each.lanes[2:] and each.lanes[2]]
    running = [view for view in live if view.state == "running"]
    assert "".join(row.text for row in running[0].rows) == WORDS[0]
    assert running[0].tiles[0][0] == "Speed" and running[0].chip == "1 of 24 tokens"
    ended = frames[-1].lanes[2]
    assert "".join(row.text for row in ended.rows) == "".join(WORDS)
    stored = latest(services.store)
    assert [(run.order, run.trace.config.served) for run in stored.runs] == [
        *[(1, False), (0, False), (2, True)]
    ]
    assert stored.runs[2].trace.config.target.name == "only"
    table = frames[-1].details.table
    tau = next(row for row in table.rows if row[0].text.startswith("τ"))
    assert [cell.text for cell in tau][-2:] == ["–", ""]
    assert ended.near == (1, 3) and frames[-1].lanes[0].near == ()
    assert ended.drafts == () and len(frames[-1].lanes[0].drafts) > 1  # a server reports no steps
    step = [name for name, _ in FIELDS].index("step")
    assert {row.numbers.split(",")[step] for row in ended.rows} == {"-1"}
    assert ended.note == (
        "MARS, gap (g = 0.7) would keep a drafted runner-up at 2 of 5 positions of this text."
    )


def test_passes_without_tokens_have_no_tau_and_no_speed() -> None:
    """A server may count the passes of an answer of which nobody says how many tokens it has."""
    counted = {"metrics": {"speculative_decoding": SPECULATIVE}}
    answer = Answer("abc", "stop", extra=counted, wall_s=0.2)
    trace = answer_trace(CONFIG, answer)
    summary = trace.summary
    assert (summary.new_tokens, summary.steps) == (UNKNOWN, 3) and math.isnan(summary.tau)
    assert stat_tiles(summary)[0][1] == "–"
    words = read_panel(Strip((), "done", numbers=headlines(("a",), {0: trace})).html()).text
    assert "tokens per target pass–" in words and "−" not in words
    assert plural(UNKNOWN, "token") == "– tokens"


def test_a_follow_up_sends_the_server_the_messages_of_its_own_answers(
    services: Services, server: Streaming
) -> None:
    first = views_of(services, form(server.url, system="Be kind."))[-1]
    shown = DisplayedComparison(latest(services.store).id, FORM.spec(), (0, 1, 2))
    *_, end = run_follow_up(services, shown, "And then?", "own")
    assert strip_text(first)[0] == strip_text(end)[0] == "done"
    assert [(each["role"], each["content"]) for each in server.requests[-1][2]["messages"]] == [
        ("system", "Be kind."),
        ("user", FORM.prompt),
        ("assistant", "".join(WORDS)),
        ("user", "And then?"),
    ]
    last = latest(services.store).runs[2].trace
    assert last.config.served and len(last.config.prompt.history) == 1


def test_what_is_read_again_is_what_was_shown(services: Services, server: Streaming) -> None:
    """Also on a public page that may ask this server; only a lane of the page itself goes on."""
    public = replace(services, public=True, servers=(server.url,))
    views_of(public, form(server.url))
    traces = [run.trace for run in latest(services.store).runs]
    assert [trace.status for trace in traces] == [Status.COMPLETED] * 3
    with pytest.raises(ValueError, match="A server wrote this lane"):
        continuation_config(traces, ContinuationRequest(2, 0, 1))
    assert continuation_config(traces, ContinuationRequest(theta=0.5)).rule.name == "mars"
    again = stored_settings(latest(services.store), services.catalog)
    assert [lane.text for lane in again.rules] == ["strict", "mars(theta=0.2)", "server"]
    assert (again.rules[2].server, again.rules[2].server_model) == (server.url, "only")
    values = settings_values(again)
    assert read_settings(values, again.prompt) == again
    words = address_words(again)
    assert server.url not in str(words) and "server" not in str(words)
    assert read_link({"server": server.url, "rules": ["server"]})[0].get("server") is None


def test_two_servers_stream_are_named_and_stored_with_their_addresses_and_given_their_keys(
    services: Services, server: Streaming
) -> None:
    """Also asked a follow-up; a key of an address that is not asked goes nowhere."""
    with stream_events(chunk("A"), chunk(" hen"), chunk("", finish="stop")) as other:
        keys = {server.url: KEY, other.url: "sk-other", "http://127.0.0.1:9": "sk-nobody"}
        keyed = replace(services, server_keys=keys)
        end = views_of(keyed, form(server.url, other.url))[-1]
        texts = ["".join(row.text for row in lane.rows) for lane in end.lanes[2:]]
        assert texts == ["".join(WORDS), "A hen"]
        names = [f"Served model only, {each.url}" for each in (server, other)]
        assert [lane.title for lane in end.lanes[2:]] == names
        assert end.details and [head.text for head in end.details.table.heads][4::2] == names
        stored = latest(services.store)
        configs = [run.trace.config for run in stored.runs[2:]]
        assert [each.environment[SERVER] for each in configs] == [server.url, other.url]
        again = stored_settings(stored, services.catalog)
        assert [lane.server for lane in again.rules] == ["", "", server.url, other.url]
        assert read_settings(settings_values(again), again.prompt) == again
        shown = DisplayedComparison(stored.id, FORM.spec(), (0, 1, 2, 3))
        list(run_follow_up(keyed, shown, "And then?", "own"))
        assert {each[1] for each in server.requests} == {f"Bearer {KEY}"}
        assert {each[1] for each in other.requests} == {"Bearer sk-other"}
        del keys[other.url]  # its address is on the page no longer
        asked = len(other.requests)
        list(measure_time(replace(keyed, server_keys=keys), shown))
        assert {each[1] for each in other.requests[asked:]} == {""}
    named = replace(configs[0], target=ModelRef("/models/owner/name"))
    assert lane_labels([stored.runs[0].trace.config, named])[1] == "Served model owner/name"


def test_one_server_is_asked_while_another_lane_is_a_saved_answer(
    services: Services, server: Streaming
) -> None:
    settings = form("", server.url)
    answering = with_answers(services, settings, {2: to_json(ANSWERED), 3: ""})
    assert strip_text(views_of(answering, settings)[-1])[0] == "done"
    configs = [run.trace.config for run in latest(services.store).runs[2:]]
    assert [each.environment.get(ANSWER) for each in configs] == ["pasted", None]
    assert {path for path, *_ in server.requests} == {
        "/v1/models",
        "/v1/chat/completions",
        "/metrics",
    }


@pytest.mark.parametrize(
    "sent",
    [None, "", "[", "{}", "7", "[7]", '["ab"]', "[[1, 2]]", "[" * 100_000, "[[[], {}, null]]"],
)
def test_what_a_browser_sends_beside_the_values_is_read_or_nothing(sent: str | None) -> None:
    keys, answers = read_beside(sent)
    assert len(keys) == len(answers) <= 1
    assert read_beside(to_json([["", "", "x"], ["http://a", KEY, ""]])) == (
        *({"": "", "http://a": KEY}, {0: "x", 1: ""}),
    )


def test_a_server_that_fails_leaves_the_other_lanes(services: Services) -> None:
    frames = views_of(services, form("http://127.0.0.1:9", model="m"))
    statuses = [run.trace.status for run in latest(services.store).runs]
    assert statuses == [Status.COMPLETED, Status.COMPLETED, Status.FAILED]
    assert "did not answer (ConnectError)" in frames[-1].lanes[2].note
    assert [view.state for view in frames[-1].lanes] == ["completed", "completed", "failed"]


def test_stop_ends_the_request(services: Services) -> None:
    with stream_events(chunk("Once"), holds=True) as server:
        frames = run_comparison(services, form(server.url))
        for frame in frames:
            if frame.lanes[2:] and frame.lanes[2] and frame.lanes[2].rows:
                services.stop.request()
        assert server.left.wait(60)
    last = latest(services.store).runs[2].trace
    assert (last.status, last.text) == (Status.CANCELLED, "Once")
    assert {token.outcome for token in last.tokens} == {Outcome.BONUS}


@pytest.mark.parametrize(
    ("allowed", "asks", "sentence"),
    [
        ((), "http://127.0.0.1:9", "this page asks none"),
        (("https://llm.example/v1",), "http://169.254.169.254", "asks https://llm.example/v1"),
        (("https://llm.example/v1",), "https://llm.example/v1/../x", "asks https://llm.example/v1"),
        (("https://llm.example/v1",), "https://llm.example.evil/v1", "asks https://llm.example/v1"),
        (("https://llm.example/v1",), "https://x@llm.example/v1", "contains a password or a query"),
    ],
)
def test_a_public_page_asks_only_whom_it_may(
    services: Services, allowed: tuple[str, ...], asks: str, sentence: str
) -> None:
    public = replace(services, public=True, servers=allowed)
    state, said = strip_text(views_of(public, form(asks))[-1])
    assert state == "failed" and sentence in said
    state, said = strip_text(views_of(public, form(*allowed, asks))[-1])  # beside one that it may
    assert state == "failed" and sentence in said
    assert public.asks_servers is bool(allowed)


ANSWERED = {
    "model": "far",
    "choices": [
        {
            "text": "".join(WORDS),
            "finish_reason": "length",
            "logprobs": {
                "tokens": list(WORDS),
                "token_logprobs": [-0.2] * len(WORDS),
                "top_logprobs": [
                    {word: -0.2, "other": -0.2 - gap} for word, gap in zip(WORDS, GAPS, strict=True)
                ],
            },
        }
    ],
    "usage": {"completion_tokens": len(WORDS), "prompt_tokens": 4},
}


def test_a_pasted_answer_is_a_lane_and_asks_nobody(services: Services) -> None:
    settings = form("")
    answering = with_answers(services, settings, {2: to_json(ANSWERED)})
    frames = views_of(answering, settings)
    assert strip_text(frames[-1])[0] == "done"
    lane = frames[-1].lanes[2]
    assert "".join(row.text for row in lane.rows) == "".join(WORDS) and lane.near == (1, 3)
    stored = latest(services.store)
    assert [run.order for run in stored.runs] == [1, 0, 2] and not [
        run for run in stored.repeats if run.lane == 2
    ]
    config = stored.runs[2].trace.config
    assert (config.target.name, config.prompt) == ("far", settings.prompt_config)
    assert config.environment[ANSWER] == "pasted"
    shown = DisplayedComparison(stored.id, FORM.spec(), (0, 1, 2))
    assert strip_text([*measure_time(services, shown)][-1])[0] == "done"
    assert [*{run.lane for run in latest(services.store).repeats}] == [0, 1]
    with pytest.raises(JobError, match="a saved answer, which is not asked for again"):
        list(run_follow_up(services, shown, "And then?", "own"))


@pytest.mark.parametrize(
    ("pasted", "words"),
    [
        ("x" * (4 * 2**20 + 1), "has 4,194,305 characters; it must have at most 4,194,304."),
        ("<script>", "The pasted answer, line 1, cannot be read: Expecting value"),
        ("[" * 100_000, "The pasted answer cannot be read"),
        ("{}", "The pasted answer, entry 1, cannot be read: it is not a record of"),
        ('{"choices": 3}', "The pasted answer, entry 1, cannot be read: a field has another type."),
        ("[]", "The pasted answer cannot be read: it has no record."),
        (f"[{to_json(ANSWERED)}, {to_json(ANSWERED)}]", "has 2 records; a lane takes one."),
        ("# TYPE a counter\na 1", "cannot be read"),
    ],
)
def test_what_is_no_answer_is_one_sentence(services: Services, pasted: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        with_answers(services, form(""), {2: pasted})
    assert len(str(raised.value)) < 300
    assert not with_answers(services, FORM, {1: pasted}).answers  # no lane is a server
    public = replace(services, public=True)
    with pytest.raises(ValueError, match="This page takes no answers of servers"):
        with_answers(public, form(""), {2: to_json(ANSWERED)})


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.usefixtures("page")
def test_a_lane_offers_a_server_where_one_may_be_asked(services: Services, public: bool) -> None:
    panel = PromptPanel(replace(services, public=public)).panel
    drawn = json.loads(panel.value({"lanes": [{"rule": SERVER}]}))
    assert ("Served model" in drawn["html"]) is not public
    assert drawn["values"]["lanes"][0]["rule"] == ("strict" if public else SERVER)


def test_the_key_is_in_nothing_that_is_stored_shown_or_logged(
    services: Services,
    server: Streaming,
    page: gr.Blocks,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not where it worked, nor where the server repeats it in its error."""
    caplog.set_level(logging.DEBUG)
    tab = CompareTab(services, gr.HTML())
    tab.wire()
    compare = next(
        each.fn
        for each in page.fns.values()
        if {tab.prompt_panel.panel.beside, tab.prompt_panel.prompt} <= {*each.inputs}
    )
    request = cast(gr.Request, SimpleNamespace(session_hash="s", headers={}, cookies={}))
    seen = []
    for url in (server.url, "http://127.0.0.1:9"):
        value = to_json({"values": settings_values(form(url))})
        assert compare is not None
        seen += list(compare(request, FORM.prompt, value, to_json([["", "", ""], [url, KEY, ""]])))
    assert {each[1] for each in server.requests} == {f"Bearer {KEY}"}
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert latest(services.store).runs[2].trace.config.served and b"Once" in files
    shown = repr(seen) + caplog.text + "".join(capfd.readouterr()) + repr(services)
    assert KEY not in shown and KEY.encode() not in files
