"""Which requests reach the page: malformed ones never, in public mode only those of bounded size for one's own session."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ui.public import access
from ui.public.access import CLOSED, NOT_JSON, OTHERS, TOO_MANY, Access
from ui.public.latest import Latest
from ui.public.visitors import COOKIE

JOIN = "/gradio_api/queue/join"


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(await request.body())


def client(public: bool = True) -> TestClient:
    routes = [Route("/{path:path}", echo, methods=["GET", "POST"])]
    app = Starlette(routes=routes, middleware=[Middleware(Access, public=public)])
    return TestClient(app, cookies={COOKIE: "a" * 43})


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [NaN]}', b'{"data": [-Infinity]}', b'{"data": [1e999]}', b'{"data": ["\xff"]}', b"{", b'{"a": 1} x',
        b'{"fn_index": ' + b"9" * 5000 + b"}", b"[" * 5000 + b"]" * 5000, b'{"data": ' + b"[" * 70 + b"]" * 70 + b"}",
    ],
)  # fmt: skip
def test_a_body_that_is_not_finite_json_is_refused_in_one_sentence(public: bool, body: bytes) -> None:
    for path in (JOIN, "/gradio_api/call/compare", "/gradio_api/run/predict", "/gradio_api/cancel"):
        answer = client(public).post(path, content=body)
        assert (answer.status_code, answer.json()) == (400, {"detail": NOT_JSON})


@pytest.mark.parametrize("public", [True, False])
def test_a_good_body_arrives_as_it_was_sent(public: bool) -> None:
    deep = b"[" * 60 + b"]" * 60
    for body in (b'{"data": ["[[[{{", 1e300, null], "session_hash": "own"}', b'{"data": ' + deep + b"}"):
        assert client(public).post(JOIN, content=body).content == body


def test_only_the_form_is_checked_in_private_mode() -> None:
    private = client(public=False)
    assert private.get("/monitoring").status_code == 200
    assert private.post("/gradio_api/upload", content=b"\xff").content == b"\xff"
    assert client().get("/monitoring").json() == {"detail": CLOSED}


def test_a_request_names_few_sessions_and_so_flushes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_SESSIONS", 100)
    owner = client()
    attacker = TestClient(owner.app, cookies={COOKIE: "b" * 43})
    assert owner.get("/gradio_api/heartbeat/mine").status_code == 200
    for first in range(0, 2_000, 200):
        names = "&".join(f"session_hash={name}" for name in range(first, first + 200))
        answer = attacker.get(f"/gradio_api/queue/data?{names}")
        assert (answer.status_code, answer.json()) == (400, {"detail": TOO_MANY})
    answer = attacker.get("/gradio_api/heartbeat/mine")
    assert (answer.status_code, answer.json()) == (403, {"detail": OTHERS})
    assert owner.get("/gradio_api/heartbeat/mine").status_code == 200
    answer = owner.post(JOIN, json={"session_hash": "x" * 1000})
    assert (answer.status_code, answer.json()) == (400, {"detail": TOO_MANY})


def test_what_was_unused_for_longest_is_forgotten() -> None:
    """Of whatever the page keeps for visitors: their sessions, stops, rounds, traces, reports."""
    kept = Latest[str](2)
    assert {kept.first(name, "first") for name in "abac"} == {"first"}
    assert [kept.first(name, "another") for name in "ac"] == ["first"] * 2 and kept.get("b") is None
    kept.put("b", "new")
    assert kept.get("a") is None and (kept.get("c"), kept.get("b")) == ("first", "new")
    assert kept.take("c", lambda value: value == "new") is None and kept.take("c") == "first" and kept.take("c") is None
