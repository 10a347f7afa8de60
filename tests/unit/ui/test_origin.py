"""Requests of other origins' pages carry no cookies, with Sec-Fetch-Site and without; forwarding headers count behind a proxy only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ui.public.origin import OwnPages, own_origin

PROXY = {"x-forwarded-proto": "https", "x-forwarded-host": "mars.example"}


def seen(method: str = "GET", base: str = "http://lab.example:7881", proxy: bool = False, **said: str | None) -> Any:
    """Cookies, session and forwarding headers as the page gets them."""

    def answer(request: Request) -> PlainTextResponse:
        forwarded = [name for name in request.headers if "forwarded" in name]
        return PlainTextResponse(json.dumps([request.cookies, request.scope["session"], forwarded]))

    async def signed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["session"] = {"oauth_info": 1}
        await inner(scope, receive, send)

    inner = OwnPages(Starlette(routes=[Route("/", answer, methods=["GET", "POST"])]), trust_proxy=proxy)
    headers = {name.replace("_", "-"): value for name, value in said.items() if value is not None}
    return TestClient(signed, base_url=base).request(method, "/", headers=headers | {"cookie": "a=b"}).json()


def known(*given: Any, **said: Any) -> bool:
    cookies, session, _ = seen(*given, **said)
    assert bool(cookies) == bool(session)
    return bool(cookies)


@pytest.mark.parametrize(
    ("method", "site", "mode", "expected"),
    [
        ("GET", None, None, True), ("POST", "same-origin", "cors", True), ("GET", "none", "navigate", True),
        ("GET", "cross-site", "navigate", True), ("GET", "cross-site", "cors", False), ("GET", "cross-site", "no-cors", False),
        ("POST", "cross-site", "cors", False), ("POST", "cross-site", "navigate", False), ("POST", "same-site", "cors", False),
        ("GET", "hostile", "cors", False),
    ],
)  # fmt: skip
def test_the_browser_says_whose_page_asks(method: str, site: str | None, mode: str | None, expected: bool) -> None:
    assert known(method, sec_fetch_site=site, sec_fetch_mode=mode) is expected


@pytest.mark.parametrize(
    ("base", "origin", "expected"),
    [
        ("http://lab.example:7881", "http://lab.example:7881", True),
        ("http://lab.example:7881", "http://LAB.example:7881", True), ("http://lab.example", "http://lab.example:80", True),
        ("https://lab.example", "https://lab.example", True), ("http://[::1]:7881", "http://[::1]:7881", True),
        ("http://lab.example:7881", "http://lab.example:9124", False), ("http://lab.example:7881", "http://lab.example", False),
        ("http://lab.example:7881", "https://lab.example:7881", False),
        ("http://lab.example:7881", "http://wiki.lab.example:7881", False),
        ("http://lab.example:7881", "http://lab.example:7881.evil.example", False),
        ("http://lab.example:7881", "http://lab.example:x", False), ("http://lab.example:7881", "null", False),
        ("http://lab.example:7881", "", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_where_it_does_not_the_origin_must_be_the_pages_own(
    method: str, base: str, origin: str, expected: bool
) -> None:
    assert known(method, base, origin=origin) is expected


def test_forwarding_headers_count_behind_a_declared_proxy_only() -> None:
    inside = "http://127.0.0.1:7860"
    assert known("POST", inside, proxy=True, origin="https://mars.example", **PROXY)
    assert not known("POST", inside, proxy=True, origin=inside, **PROXY)
    assert not known("POST", inside, origin="https://mars.example", **PROXY)
    assert known("POST", inside, origin=inside, **PROXY)
    assert seen(base=inside, forwarded="host=x", **PROXY)[2] == []
    assert len(seen(base=inside, proxy=True, **PROXY)[2]) == 2


def test_the_origin_of_a_request() -> None:
    scope = {"type": "http", "scheme": "http", "headers": [(b"host", b"lab.example:81")]}
    assert own_origin(scope) == ("http", "lab.example", 81)
    assert own_origin(scope | {"type": "websocket", "scheme": "wss"}) == ("https", "lab.example", 81)
    assert own_origin(scope | {"headers": []}) is None
