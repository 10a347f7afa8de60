"""Who asks: accounts, browsers, programs and bare pages are told apart, hostile cookies are nobody's, and a browser gets one secret."""

from __future__ import annotations

import re
import time
from typing import Any

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ui.public.origin import OwnPages, VisitorCookie, new_cookie, root_path
from ui.public.visitors import ANYBODY, COOKIE, HEADER, browser_owner, session_key, visitor_of

SECRET, OTHER = "a" * 22, "b" * 43


def request(headers: dict[str, str] | None = None, session: dict[str, Any] | None = None) -> Request:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    scope: dict[str, Any] = {"type": "http", "headers": raw, "query_string": b"", "path": "/", "method": "GET"}
    return Request(scope if session is None else scope | {"session": session})


def owner(headers: dict[str, str] | None = None, session: dict[str, Any] | None = None, **more: Any) -> str:
    found = visitor_of(gr.Request(request(headers, session), session_hash="page1"), public=True, **more).owner
    assert found is not None and len(found) <= 64
    return found


def signed_in(sub: Any = "123", **more: Any) -> dict[str, Any]:
    user = {"sub": sub, "preferred_username": "mia"}
    return {"oauth_info": {"userinfo": user, "expires_at": time.time() + 60, **more}}


def test_in_private_mode_everybody_sees_everything_and_a_page_is_held_by_its_browser() -> None:
    assert session_key({COOKIE: SECRET}, {}) == browser_owner(SECRET) != session_key({}, {}) == "page"
    assert session_key({COOKIE: SECRET}, {"x-gradio-user": "mcp"}) == "mcp"
    assert visitor_of(None, public=False) == ANYBODY
    found = visitor_of(gr.Request(request({HEADER: SECRET}), session_hash="page1"), public=False)
    assert (found.owner, found.session, found.lasting) == (None, "page1", True)


def test_what_comes_first_says_who_it_is() -> None:
    both = {"Cookie": f"{COOKIE}={SECRET}", HEADER: OTHER}
    account = owner(both, signed_in(), sign_in=True)
    assert account.startswith("account:") and account == owner({}, signed_in(), sign_in=True)
    assert owner(both) == browser_owner(SECRET) == owner({HEADER: SECRET})
    assert owner({HEADER: OTHER}) == browser_owner(OTHER)
    assert owner().startswith("page:") and owner() == owner({"Cookie": "other=1"})
    assert len({account, owner(both), owner({HEADER: OTHER}), owner()}) == 4
    assert not any(
        secret in each for each in (account, owner(both), owner()) for secret in (SECRET, OTHER, "page1", "123")
    )


def test_a_request_that_names_nothing_is_nobody_twice_and_a_bare_page_does_not_last() -> None:
    for headers, lasting in (({HEADER: SECRET}, True), ({}, False)):
        assert visitor_of(gr.Request(request(headers), session_hash="p"), public=True).lasting is lasting
    first, second = (visitor_of(request(), public=True).owner for _ in range(2))
    assert first and second and first != second
    assert visitor_of(None, public=True).owner not in (None, "", first, second)


def test_the_shared_session_of_mcp_is_no_identity() -> None:
    first, second = owner({"x-gradio-user": "mcp"}), owner({"x-gradio-user": "mcp"})
    assert first != second
    assert owner({"x-gradio-user": "mcp", HEADER: SECRET}) == browser_owner(SECRET)


def test_a_session_that_says_nothing_certain_is_not_believed_nor_is_any_where_nobody_can_sign_in() -> None:
    nameless: list[dict[str, Any]] = [{}, {"oauth_info": None}, {"oauth_info": {"userinfo": "mia"}}]
    unsure = [*(signed_in(sub=sub) for sub in (None, "", {"a": 1})), signed_in(expires_at=time.time() - 1)]
    assert (
        {owner({}, session, sign_in=True) for session in (*nameless, *unsure)} == {owner()} == {owner({}, signed_in())}
    )


@pytest.mark.parametrize(
    "said",
    ["", "short", "x" * 129, "<script>" * 4, "a" * 21 + ";", "%00" * 10, "é" * 30, "a" * 22 + "\x7f", '"' + "a" * 30],
)
def test_a_secret_that_cannot_be_one_is_passed_over(said: str) -> None:
    assert owner({"Cookie": f"{COOKIE}={said}"}) == owner()
    assert owner({HEADER: said}) == owner()
    assert owner({"Cookie": f"{COOKIE}={said}", HEADER: SECRET}) == browser_owner(SECRET)


def client(base: str = "http://testserver", **options: Any) -> TestClient:
    def say(_: Request) -> PlainTextResponse:
        return PlainTextResponse("page")

    routes = [Route("/", say), Route("/other", say)]
    return TestClient(
        Starlette(routes=routes, middleware=[Middleware(OwnPages, **options), Middleware(VisitorCookie)]), base_url=base
    )


def test_the_page_sets_the_cookie_once() -> None:
    visitor = client()
    assert "set-cookie" not in visitor.get("/other").headers
    answer = visitor.get("/")
    said = answer.headers["set-cookie"]
    assert re.fullmatch(rf"{COOKIE}=[\w-]{{43}}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax", said)
    assert answer.headers["cache-control"] == "private, no-store"
    assert "set-cookie" not in visitor.get("/").headers
    assert client().get("/").headers["set-cookie"] != said
    assert "set-cookie" in visitor.get("/", headers={"Cookie": f"{COOKIE}=<x>"}).headers
    # pages of other origins get none in place of the visitor's own
    assert "set-cookie" not in client().get("/", headers={"Origin": "http://testserver:81"}).headers
    assert "set-cookie" in client().get("/", headers={"Origin": "http://testserver"}).headers


@pytest.mark.parametrize(
    ("scheme", "proxy", "forwarded", "secure"),
    [
        ("https", False, "", True), ("http", False, "https", False), ("http", True, "https", True),
        ("http", True, "HTTPS, http", True), ("http", True, "http", False),
    ],
)  # fmt: skip
def test_over_https_the_cookie_is_partitioned(scheme: str, proxy: bool, forwarded: str, secure: bool) -> None:
    asking = client(f"{scheme}://testserver", trust_proxy=proxy)
    said = asking.get("/", headers={"x-forwarded-proto": forwarded}).headers["set-cookie"]
    assert said.endswith("SameSite=None; Secure; Partitioned" if secure else "SameSite=Lax")


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("", "/"), ("/mars", "/mars"), ("/mars/", "/mars"), ("https://x.org/mars", "/mars"), ("/a;b\r\nx: y", "/"), (None, "/"),
    ],
)  # fmt: skip
def test_the_cookie_is_for_the_page_alone(root: str | None, path: str) -> None:
    assert root_path({"type": "http", "root_path": root}) == path
    assert f"; Path={path};" in new_cookie(path, secure=True)
