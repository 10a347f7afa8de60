"""Errors of the program end in an id that finds the log line, whatever is sent; and whatever is sent, the page lives on."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.unit.ui.public.conftest import Served, Stranger, defaults
from ui.kit.errors import ErrorPages, error_message

ID = re.compile(r"\(error ([0-9a-f]{8})\)")
TRACES = ("Traceback", 'File "', "/site-packages/", "/ui/", "RuntimeError")
JSON = {"Content-Type": "application/json"}
NAMES = (
    "compare", "rules", "pairs", "comparisons", "comparison", "divergences", "tokens", "no_such_name", "choose_3", "../x",
)  # fmt: skip
TAKEN = {
    "compare": ("rules", "prompt", "stop", "k"), "rules": (), "pairs": (), "comparisons": ("limit", "offset"),
    "comparison": ("id",), "divergences": ("baseline", "id"), "tokens": ("lane", "id"),
}  # fmt: skip
ALONE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(("0" * 32, "strict"))
)
WILD = st.recursive(
    ALONE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def in_log(served: Served, said: str) -> None:
    """The id in ``said`` names a line of the log with the error, and nothing else of it was said."""
    found = ID.search(said)
    assert found, said
    assert f"fault {found[1]} " in served.log and not any(trace in said for trace in TRACES)
    assert "a reason that holds what a visitor wrote" not in said


def test_endpoints_events_and_routes_that_break_tell_an_id_and_after_it_all_is_as_before(
    served: Served, stranger: Stranger
) -> None:
    flag = served.folder / "broken"
    flag.touch()
    (end,) = stranger.ask((1, [], None))
    assert end["success"] is False
    in_log(served, end["output"]["error"])
    page = stranger.get("/config").json()
    table = next(each["id"] for each in page["components"] if each["props"].get("elem_id") == "votes-tally")
    tally = next(each["id"] for each in page["dependencies"] if each["outputs"] == [table] and not each["inputs"])
    (end,) = stranger.ask((tally, defaults(page)[tally], None))
    in_log(served, json.dumps(end["output"]))
    answer = stranger.get("/votes/vote_results.csv")
    assert answer.status_code == 500
    in_log(served, answer.text)
    flag.unlink()
    assert stranger.ask((1, [], None))[0]["success"] and stranger.get("/votes/vote_results.csv").status_code == 200


def test_100_calls_of_anything(served: Served, stranger: Stranger) -> None:
    """Where 3 of 100 calls break something, one of these does so with a probability of 95 %."""
    calls: list[int] = []

    @settings(
        max_examples=100,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(NAMES), st.sampled_from(("v1", "v2", "join", "route")), st.lists(WILD, max_size=4), WILD)
    def call(name: str, way: str, values: list[Any], more: Any) -> None:
        answer = _send(stranger, name, way, values, more)
        calls.append(answer.status_code)
        said = answer.text
        if answer.status_code == 200 and way != "route":
            said += _heard(stranger, name, way, answer.json()["event_id"])
        assert not any(trace in said for trace in TRACES), said

    call()
    assert len(calls) >= 100 and set(calls) <= {200, 400, 404, 422}  # and no error of the program
    assert calls.count(200) > 40
    assert stranger.ask((1, [], None))[0]["success"]
    assert httpx.get(served.url, timeout=60).status_code == 200


def _send(stranger: Stranger, name: str, way: str, values: list[Any], more: Any) -> httpx.Response:
    if way == "route":
        return stranger.get(f"/downloads/{name}.csv", comparison=str(more), runs=str(values), share=str(more)[:80])
    named = {key: more if at % 2 else values for at, key in enumerate(TAKEN.get(name, ("id",)))}
    content = json.dumps({"data": values} if way == "v1" else named)
    if way == "join":
        asked = {"fn_index": len(name), "data": values, "event_data": more, "session_hash": stranger.session}
        content = json.dumps(asked)
        return stranger.http.post("/gradio_api/queue/join", content=content, headers=JSON)
    version = "v2/" if way == "v2" else ""
    return stranger.http.post(f"/gradio_api/call/{version}{name}", content=content, headers=JSON)


def _heard(stranger: Stranger, name: str, way: str, event: str) -> str:
    if way == "join":
        return json.dumps(stranger.heard())
    return stranger.http.get(f"/gradio_api/call/{name}/{event}").text


@pytest.mark.parametrize(
    ("way", "body"),
    [
        ("queue/join", {"fn_index": -1}), ("queue/join", {"fn_index": 10**9}), ("run/predict", {"fn_index": -1}),
        ("run/predict", {"fn_index": 10**9}), ("run/predict", {}), ("call/no_such_name", {}),
        ("queue/join", {"fn_index": 1, "trigger_id": -5}),
    ],
)  # fmt: skip
def test_what_names_no_event_is_no_fault(served: Served, stranger: Stranger, way: str, body: dict[str, Any]) -> None:
    before = served.written
    answer = stranger.http.post(f"/gradio_api/{way}", json={"data": [], "session_hash": stranger.session, **body})
    assert answer.status_code in (200, 400) and answer.text.count("\n") <= 1
    if "trigger_id" not in body:
        assert answer.status_code == 400 and "There is no endpoint of this name or fn_index" in answer.text
    assert served.written == before


def test_a_session_that_is_unknown_is_told_so_and_leaves_no_log(served: Served, stranger: Stranger) -> None:
    before = served.written
    for path in ("queue/data?session_hash=unknown", "call/compare/unknown"):
        answer = stranger.http.get(f"/gradio_api/{path}")
        assert answer.text.count("data: ") == 1 and "404" in answer.text
    (message,) = stranger.heard("unknown")
    assert message["msg"] == "unexpected_error" and message["session_not_found"]
    assert served.written == before


def test_events_that_report_anything_are_no_faults(served: Served, stranger: Stranger) -> None:
    page = stranger.get("/config").json()
    values, before = defaults(page), served.written
    reporting = [event for event in page["dependencies"] if event["collects_event_data"]]
    queued = {event["id"]: event["queue"] is not False for event in reporting}
    assert len(queued) > 30
    stranger.ask(*((event, values[event], 5) for event, queues in queued.items() if queues))
    for event in (event for event, queues in queued.items() if not queues):
        stranger.direct(event, values[event], 5)
    assert "fault" not in served.written.removeprefix(before)


def test_a_long_body_is_refused_before_it_is_read(stranger: Stranger) -> None:
    def parts() -> Iterator[bytes]:
        yield from [b" " * 100_000] * 20

    for content in (b" " * 2_000_000, parts()):
        answer = stranger.http.post("/gradio_api/queue/join", content=content)
        assert answer.status_code == 413 and "at most 1,048,576 bytes" in answer.text


@pytest.mark.parametrize("begun", [False, True])
def test_a_route_that_raises_is_logged_by_its_place_alone(caplog: pytest.LogCaptureFixture, begun: bool) -> None:
    """And broken off, where the answer had begun."""

    def parts() -> Iterator[bytes]:
        yield b"begun"
        raise RuntimeError("what a visitor wrote")

    def send(_: Request) -> Response:
        return StreamingResponse(parts() if begun else iter([next(parts()), *parts()]))

    app = Starlette(routes=[Route("/x/{rest}", send)], middleware=[Middleware(ErrorPages)])
    with caplog.at_level(logging.ERROR):
        answer = TestClient(app, raise_server_exceptions=False).get("/x/private?query=private")
    (record,) = (record for record in caplog.records if record.name == "mars.faults")
    assert vars(record)["where"] == "request /x"
    if not begun:
        assert answer.status_code == 500 and ID.search(answer.text) and "wrote" not in answer.text
        assert vars(record)["fault"] in answer.text


def test_strangers_are_told_no_path() -> None:
    absent = "There is no comparison with the id 'ab'"
    for said, public in (
        (f"{absent}.", f"{absent}, or it is not yours; its owner can share it."),
        ("The disk is full (/root/data/runs.db). Free some.", "The disk is full (…). Free some."),
        (r"It is in C:\Users\mia\x or ~/models/a/b.", "It is in … or …"),
        ("It is sqlite:////root/runs.db here", "It is … here"),
        ("K is 3/4; see https://huggingface.co/a/b and 1/2.", "K is 3/4; see https://huggingface.co/a/b and 1/2."),
    ):
        assert error_message(ValueError(said), public=True).rstrip(".") == public.rstrip(".")
        assert error_message(ValueError(said), public=False) == said
