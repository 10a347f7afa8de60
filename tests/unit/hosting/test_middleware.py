"""The guard: headers on every answer, and a log that knows routes but no addresses."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from hosting.middleware import Guard
from ui.kit.errors import ErrorPages


async def fine(_request: Request) -> Response:
    return PlainTextResponse("fine", headers={"Referrer-Policy": "no-referrer"})


async def breaks(_request: Request) -> Response:
    raise ValueError("zebra")


async def refuses(_request: Request) -> Response:
    raise HTTPException(404, "There is none.")


async def unready(_request: Request) -> Response:
    return PlainTextResponse("Not yet.", 503)


def client(**options: Any) -> TestClient:
    plain = [Route(f"/{handler.__name__}", handler) for handler in (breaks, refuses, unready)]
    routes = [Route("/fine/{secret}", fine), *plain]
    app = Starlette(
        routes=routes, middleware=[Middleware(Guard, **options), Middleware(ErrorPages)]
    )
    return TestClient(app, raise_server_exceptions=False)


def test_the_log_has_the_pattern_of_the_route_and_nothing_of_the_visitor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mars.requests")
    page = client(requests=True)
    page.get("/fine/zebra?share=zebra", headers={"Cookie": "a=zebra", "User-Agent": "zebra"})
    page.request("ZEBRA", "/nowhere/zebra")
    first, second = caplog.records
    assert {name: vars(first)[name] for name in ("method", "route", "status")} == {
        "method": "GET",
        "route": "/fine/{secret}",
        "status": 200,
    }
    assert (vars(second)["method"], vars(second)["route"], vars(second)["status"]) == (
        "other",
        "",
        404,
    )
    assert "zebra" not in repr([vars(record) for record in caplog.records]).lower()
