"""Who asks: accounts, browsers, programs and hostile cookies; which requests reach the page, and
with which cookies."""

from __future__ import annotations

import json
import re
import socket
import time
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Mount
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket

from tests.unit.ui.helpers import rows_of
from ui.app import page_layers
from ui.public import access
from ui.public.access import NOT_JSON, OTHERS, TOO_LONG, TOO_MANY
from ui.public.origin import BEHIND_A_PROXY
from ui.public.visitors import ANYBODY, COOKIE, HEADER, browser_owner, session_key, visitor_of

SECRET, OTHER = "a" * 22, "b" * 43


def request(
    headers: dict[str, str] | None = None, session: dict[str, Any] | None = None
) -> Request:
    raw = [
        (name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "headers": raw,
        "query_string": b"",
        "path": "/",
        "method": "GET",
    }
    return Request(scope if session is None else scope | {"session": session})


def owner(
    headers: dict[str, str] | None = None, session: dict[str, Any] | None = None, **more: Any
) -> str:
    visitor_ = visitor_of(
        gr.Request(request(headers, session), session_hash="page1"), public=True, **more
    ).owner
    assert visitor_ is not None and len(visitor_) <= 64
    return visitor_


def signed_in(sub: Any = "123", **more: Any) -> dict[str, Any]:
    user = {"sub": sub, "preferred_username": "mia"}
    return {"oauth_info": {"userinfo": user, "expires_at": time.time() + 60, **more}}


def test_in_private_mode_everybody_sees_everything_and_a_page_is_held_by_its_browser() -> None:
    assert (
        session_key({COOKIE: SECRET}, {}) == browser_owner(SECRET) != session_key({}, {}) == "page"
    )
    assert session_key({COOKIE: SECRET}, {"x-gradio-user": "mcp"}) == "mcp"
    assert visitor_of(None, public=False) == ANYBODY
    one = visitor_of(gr.Request(request({HEADER: SECRET}), session_hash="page1"), public=False)
    assert (one.owner, one.session, one.lasting) == (None, "page1", True)


def test_what_comes_first_says_who_it_is() -> None:
    both = {"Cookie": f"{COOKIE}={SECRET}", HEADER: OTHER}
    account = owner(both, signed_in(), sign_in=True)
    assert account.startswith("account:") and account == owner({}, signed_in(), sign_in=True)
    assert owner(both) == browser_owner(SECRET) == owner({HEADER: SECRET})
    assert owner({HEADER: OTHER}) == browser_owner(OTHER)
    assert owner().startswith("page:") and owner() == owner({"Cookie": "other=1"})
    assert len({account, owner(both), owner({HEADER: OTHER}), owner()}) == 4
    assert not any(
        secret in each
        for each in (account, owner(both), owner())
        for secret in (SECRET, OTHER, "page1", "123")
    )


def test_the_shared_session_of_mcp_is_no_identity() -> None:
    first, second = owner({"x-gradio-user": "mcp"}), owner({"x-gradio-user": "mcp"})
    assert first != second
    assert owner({"x-gradio-user": "mcp", HEADER: SECRET}) == browser_owner(SECRET)


def test_a_session_that_says_nothing_certain_is_not_believed_nor_is_any_where_nobody_can_sign_in() -> (
    None
):
    nameless: list[dict[str, Any]] = [{}, {"oauth_info": None}, {"oauth_info": {"userinfo": "mia"}}]
    unsure = [
        *(signed_in(sub=sub) for sub in (None, "", {"a": 1})),
        signed_in(expires_at=time.time() - 1),
    ]
    assert (
        {owner({}, session, sign_in=True) for session in (*nameless, *unsure)}
        == {owner()}
        == {owner({}, signed_in())}
    )


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "short",
        "x" * 129,
        "<script>" * 4,
        "a" * 21 + ";",
        "%00" * 10,
        "é" * 30,
        "a" * 22 + "\x7f",
        '"' + "a" * 30,
    ],
)
def test_a_secret_that_cannot_be_one_is_passed_over(sent: str) -> None:
    assert owner({"Cookie": f"{COOKIE}={sent}"}) == owner()
    assert owner({HEADER: sent}) == owner()
    assert owner({"Cookie": f"{COOKIE}={sent}", HEADER: SECRET}) == browser_owner(SECRET)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """The page: cookies, session and body as it gets them."""
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).accept()
        return
    got = Request(scope, receive)
    body = (await got.body()).decode("latin-1")
    await JSONResponse([got.cookies, got.scope["session"], body])(scope, receive, send)


def page(
    base: str = "http://localhost:7860",
    *hosts: str,
    public: bool = True,
    proxy: bool = False,
    inner: Any = answer,
) -> TestClient:
    """Within all layers of the page, and one around them that says who signed in."""
    services: Any = SimpleNamespace(public=public)
    layers = page_layers(services, trust_proxy=proxy, hosts=hosts)
    app = Starlette(routes=[Mount("/", inner)], middleware=layers)

    async def signed(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "session": {"oauth_info": 1}}, receive, send)

    return TestClient(signed, base_url=base)


def test_the_page_sets_the_cookie_once() -> None:
    visitor = page()
    assert "set-cookie" not in visitor.get("/other").headers
    answer = visitor.get("/")
    header = answer.headers["set-cookie"]
    assert re.fullmatch(
        rf"{COOKIE}=[\w-]{{43}}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax", header
    )
    assert answer.headers["cache-control"] == "private, no-store"
    assert "set-cookie" not in visitor.get("/").headers
    assert page().get("/").headers["set-cookie"] != header
    assert "set-cookie" in visitor.get("/", headers={"Cookie": f"{COOKIE}=<x>"}).headers
    # pages of other origins get none instead of the visitor's own
    assert "set-cookie" not in page().get("/", headers={"Origin": "http://localhost:81"}).headers
    assert "set-cookie" in page().get("/", headers={"Origin": "http://localhost:7860"}).headers


@pytest.mark.parametrize(
    ("forwarded", "secure"),
    rows_of("""
{"scheme": "https", "proxy": false, "forwarded": ""} -> Secure
{"scheme": "http", "proxy": false, "forwarded": "https"} ->
{"scheme": "http", "proxy": true, "forwarded": "https"} -> Secure
{"scheme": "http", "proxy": true, "forwarded": "HTTPS, http"} -> Secure
{"scheme": "http", "proxy": true, "forwarded": "http"} ->
"""),
)
def test_over_https_the_cookie_is_partitioned(forwarded: dict[str, Any], secure: str) -> None:
    http = page(f"{forwarded['scheme']}://testserver", proxy=forwarded["proxy"])
    answer = http.get("/", headers={"x-forwarded-proto": forwarded["forwarded"]})
    end = "SameSite=None; Secure; Partitioned" if secure else "SameSite=Lax"
    assert answer.headers["set-cookie"].endswith(end)


JOIN = "/gradio_api/queue/join"


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [NaN]}',
        b'{"data": [-Infinity]}',
        b'{"data": [1e999]}',
        b'{"data": ["\xff"]}',
        b"{",
        b'{"a": 1} x',
        b'{"fn_index": ' + b"9" * 5000 + b"}",
        b"[" * 5000 + b"]" * 5000,
        b'{"data": ' + b"[" * 70 + b"]" * 70 + b"}",
    ],
)
def test_a_body_that_is_not_finite_json_is_refused_in_one_sentence(
    public: bool, body: bytes
) -> None:
    paths = (
        JOIN,
        "/gradio_api/call/compare",
        "/gradio_api/run/predict",
        "/gradio_api/cancel",
        "/gradio_api/mcp",
        "/gradio_api/mcp/",
    )
    for path in paths:
        answer = page(public=public).post(path, content=body)
        assert (answer.status_code, answer.json()) == (400, {"detail": NOT_JSON})


def test_a_body_is_of_bounded_size_in_public_mode_wherever_it_goes() -> None:
    long = json.dumps({"data": "x" * access.LONGEST_BODY}).encode()
    for path in (JOIN, "/gradio_api/call/compare", "/gradio_api/mcp/", "/", "/downloads/runs.csv"):
        for content in (long, iter([long])):  # of a stated length, and in chunks
            answer = page().post(path, content=content)
            assert (answer.status_code, answer.json()) == (413, {"detail": TOO_LONG})
        assert page(public=False).post(path, content=long).status_code == 200


def test_a_request_names_few_sessions_and_so_flushes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_SESSIONS", 100)
    owner = page()
    owner.cookies[COOKIE] = "a" * 43
    attacker = TestClient(owner.app, owner.base_url, cookies={COOKIE: "b" * 43})
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


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def outcomes(client: TestClient, **headers_: str) -> set[int]:
    """Statuses of all methods, and of a websocket."""
    headers = {name.replace("_", "-"): value for name, value in headers_.items()}
    statuses = {client.request(method, "/x", headers=headers).status_code for method in METHODS}
    try:
        with client.websocket_connect("ws://localhost:7860/x", headers=headers):
            return statuses | {200}
    except WebSocketDenialResponse as refused:
        return statuses | {refused.status_code}


NAMED = [
    *("localhost:7860", "LOCALHOST", "127.0.0.1:9000", "[::1]:7860", "192.168.7.9:7860"),
    *(f"{socket.gethostname()}:7860", "lab.example", "a.hf.space"),
]
NOT_NAMED = [
    *("evil.example:7860", "localhost.evil.example:7860", "127.0.0.1.nip.io", "hf.space"),
    *("lab.example.evil.example", "x:7860:1", "[::1"),
]


@pytest.mark.parametrize("host", [*NAMED, *NOT_NAMED])
def test_a_private_page_answers_under_its_names_alone(host: str) -> None:
    """A name that somebody else leads to this address makes the page that is open there one of the
    same origin."""
    expected, hosts = {200 if host in NAMED else 403}, ("lab.example", "*.hf.space")
    own = page("http://localhost:7860", *hosts, public=False)
    assert outcomes(own, host=host) == outcomes(own, host=host, origin=f"http://{host}") == expected
    if host in NOT_NAMED:
        assert "MARS_HOSTS" in own.get("/", headers={"host": host}).json()["detail"]
    forwarded = {"host": "127.0.0.1:7860", "x_forwarded_host": host}
    behind = page("http://localhost", *hosts, public=False, proxy=True)
    assert outcomes(behind, **forwarded) == expected
    assert outcomes(page("http://localhost", public=False), **forwarded) == {200}  # without a proxy
    assert outcomes(page("http://localhost"), host=host) - {404, 413} == {200}


@pytest.mark.parametrize(
    ("sent", "status"),
    rows_of("""
{} -> 200
{"origin": "http://localhost:7860"} -> 200
{"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"} -> 200
{"origin": "http://localhost:3000"} -> 403
{"origin": "https://evil.example"} -> 403
{"origin": "null"} -> 403
{"origin": "http://127.0.0.1:7860"} -> 403
{"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"} -> 403
{"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"} -> 403
{"sec_fetch_site": "cross-site", "sec_fetch_mode": "websocket"} -> 403
"""),
)
def test_a_private_page_answers_programs_its_page_and_links_and_refuses_others(
    sent: dict[str, str], status: str
) -> None:
    own = page(public=False)
    assert outcomes(own, **sent) == {int(status)}
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert own.get("/", headers=link).status_code == 200
    assert own.post("/", headers=link).status_code == 403


def known(method: str, base: str, origin: str) -> bool:
    """Whether the page gets cookies and session of such a request."""
    headers = {"origin": origin, "cookie": "a=b"}
    cookies, session, _ = page(base).request(method, "/", headers=headers).json()
    assert bool(cookies) == bool(session)
    return bool(cookies)


@pytest.mark.parametrize(
    ("base", "accepted", "refused"),
    [
        (
            "http://lab.example:7881",
            ["http://lab.example:7881", "http://LAB.example:7881"],
            [
                *("http://lab.example:9124", "http://lab.example", "https://lab.example:7881"),
                *("http://wiki.lab.example:7881", "http://lab.example:7881.evil.example"),
                *("http://lab.example:x", "null", ""),
            ],
        ),
        ("http://lab.example", ["http://lab.example:80"], []),
        ("https://lab.example", ["https://lab.example"], []),
        ("http://[::1]:7881", ["http://[::1]:7881"], []),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_where_it_does_not_the_origin_must_be_that_of_the_page(
    method: str, base: str, accepted: list[str], refused: list[str]
) -> None:
    assert all(known(method, base, origin=origin) for origin in accepted)
    assert not any(known(method, base, origin=origin) for origin in refused)


@pytest.mark.parametrize("proxy", [True, False])
@pytest.mark.parametrize("public", [True, False])
def test_behind_a_proxy_of_another_scheme_and_port_the_page_works_or_names_the_setting(
    caplog: pytest.LogCaptureFixture, public: bool, proxy: bool
) -> None:
    """Links, previews, origin checks and the cookie."""

    async def html(*asked: Any) -> None:
        await HTMLResponse('<meta charset="utf-8">')(*asked)

    shown = page("http://127.0.0.1:7860", "mars.example", public=public, proxy=proxy, inner=html)
    host = "mars.example:8443"
    forwarded = {"host": host, "x-forwarded-proto": "https", "x-forwarded-host": host}
    first, second = (shown.get("/", headers=forwarded) for _ in range(2))
    assert (f'rel="canonical" href="https://{host}/"' in second.text) is proxy
    assert ("Secure" in first.headers.get("set-cookie", "")) is (proxy and public)
    posted = shown.post("/", headers=forwarded | {"origin": f"https://{host}"})
    assert (posted.status_code == 200) is (proxy or public)
    assert (BEHIND_A_PROXY in posted.text) is not (proxy or public)
    warned = [each.getMessage() for each in caplog.records if each.name == "mars.origin"]
    assert warned == ([] if proxy else [f"Forwarding headers are removed. {BEHIND_A_PROXY}"])
