"""The log: complete lines, the id of a fault in them, and nothing that a visitor typed."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn.config
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from hosting.logs import WITHHELD, set_up
from hosting.middleware import Guard
from ui.kit.errors import fault
from ui.public.access import Access
from ui.public.origin import OriginGuard

SECRET = "zebra\npassphrase"  # what a visitor typed
Begin = Callable[..., io.StringIO]


@contextmanager
def restored() -> Iterator[None]:
    """What ``set_up`` changes in this process is afterwards as it was."""
    root, mars_logger, streams = (
        logging.getLogger(),
        logging.getLogger("mars"),
        (sys.stdout, sys.stderr),
    )
    factory, held = logging.getLogRecordFactory(), (root.handlers[:], root.level, mars_logger.level)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (logging, "raiseExceptions"),
            (sys, "stdout"),
            (sys, "stderr"),
            (sys, "excepthook"),
            (sys, "unraisablehook"),
            (threading, "excepthook"),
            (traceback, "print_exception"),
        ):
            patch.setattr(owner, name, getattr(owner, name))
        patch.setitem(
            uvicorn.config.LOGGING_CONFIG, "loggers", uvicorn.config.LOGGING_CONFIG["loggers"]
        )
        yield
        now = (sys.stdout, sys.stderr)
    for logger in list(logging.root.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            stream = getattr(handler, "stream", None)
            if stream in now and stream not in streams:
                handler.setStream(streams[now.index(stream)])
    logging.setLogRecordFactory(factory)
    root.handlers[:], level, mars_level = held
    root.setLevel(level)
    mars_logger.setLevel(mars_level)


@pytest.fixture
def begin() -> Iterator[Begin]:
    def start(*, json: bool = True, public: bool = True) -> io.StringIO:
        stream = io.StringIO()
        set_up(json=json, public=public, stream=stream)
        return stream

    with restored():
        yield start


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def broken() -> BaseException:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(f"no value: {SECRET}") from error
    except ValueError as error:
        return error


def test_the_id_in_a_message_to_a_visitor_finds_the_line_of_the_log(begin: Begin) -> None:
    stream = begin()
    message = fault(broken(), "compare")
    (line,) = lines(stream)
    assert line["fault"] in message
    assert line["where"] == "compare"
    assert [link["type"] for link in line["error"]] == ["ValueError", "KeyError"]
    raised = broken.__code__.co_firstlineno + 5
    assert line["error"][0]["frames"] == [f"tests/unit/hosting/test_logs.py:{raised} broken"]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_public_log_holds_nothing_that_was_typed(begin: Begin, as_json: bool) -> None:
    """By whatever way it comes: our own faults, printed tracebacks, threads, warnings, other
    libraries and their handlers."""
    stream, theirs = begin(json=as_json), io.StringIO()
    library = logging.getLogger("some.library")
    handler = logging.StreamHandler(theirs)
    library.addHandler(handler)
    try:
        fault(broken(), "compare")
        library.error("cannot read %s", SECRET)
        library.warning(f"cannot read {SECRET}", exc_info=broken(), stack_info=True)
        logging.getLogger("mars").info("begun", extra={"prompt": SECRET, "where": "start"})
        print_it()
        throw_in_a_thread()
        logging.captureWarnings(True)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(SECRET, stacklevel=1)
    finally:
        logging.captureWarnings(False)
        library.removeHandler(handler)
    for written in (stream.getvalue(), theirs.getvalue()):
        assert written and "zebra" not in written and "passphrase" not in written
    assert stream.getvalue().count(WITHHELD) == 3
    assert stream.getvalue().count("KeyError") == 4


def print_it() -> None:
    try:
        raise broken()
    except ValueError:
        traceback.print_exc()


def throw_in_a_thread() -> None:
    def throw() -> None:
        raise broken()

    thread = threading.Thread(target=throw)
    thread.start()
    thread.join()


def test_a_private_log_tells_the_first_line_of_messages(begin: Begin) -> None:
    """As plain lines do."""
    stream = begin(public=False)
    fault(broken(), "compare")
    logging.getLogger("some.library").error("cannot read %s", "that")
    first, second = lines(stream)
    assert first["error"][0]["message"] == "no value: zebra"
    assert second["message"] == "cannot read that"
    assert second["at"].startswith("test_logs:")
    with restored():
        plain = begin(json=False, public=False)
        fault(broken(), "compare")
    head, *rest = plain.getvalue().splitlines()
    assert " ERROR mars.faults: fault fault=" in head and head.endswith(" where=compare")
    assert rest[0] == "    ValueError: no value: zebra"
    assert rest[1].startswith("        tests/unit/hosting/test_logs.py:")


def test_a_record_that_cannot_be_written_is_dropped(
    begin: Begin, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python would print its values."""
    stream = begin()
    logging.getLogger("mars").error("%d", SECRET)
    assert stream.getvalue() == ""
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_record_is_one_line_whatever_it_says(begin: Begin, as_json: bool) -> None:
    stream = begin(json=as_json, public=False)

    @given(st.text(max_size=60))
    def written(text: str) -> None:
        before = stream.tell()
        logging.getLogger("mars").info("said %s", text, extra={"where": text})
        line = stream.getvalue()[before:]
        assert line.endswith("\n") and len(line.splitlines()) == 1
        assert line.rstrip("\n").isprintable()

    written()


@pytest.mark.parametrize("public", [True, False])
def test_in_json_every_line_that_a_library_prints_is_a_record(begin: Begin, public: bool) -> None:
    number = sys.stderr.fileno()
    stream = begin(public=public)
    sys.stdout.write(SECRET)
    sys.stderr.write(" and more\n")
    sys.stdout.write("\r 50 %\r100 %\n")
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    records = lines(stream)
    assert {line["logger"] for line in records} == {"printed"}
    assert public or "KeyboardInterrupt" in records[-1]["message"]
    texts = [line["message"] for line in records[:5]]
    assert (
        texts == [WITHHELD] * 5
        if public
        else texts == ["zebra", " and more", "passphrase", " 50 %", "100 %"]
    )
    assert sys.stderr.fileno() == number


def test_a_request_is_logged_by_the_pattern_of_its_route_and_without_its_visitor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mars.requests")

    def fails(_: Request) -> Response:
        return PlainTextResponse("no", 500)

    routes = [Route("/fine/{secret}", fails, methods=["GET", "ZEBRA"])]
    layers = [
        Middleware(Guard),
        Middleware(OriginGuard, trust_proxy=False, hosts=None),
        Middleware(Access, public=False),
    ]
    page = TestClient(Starlette(routes=routes, middleware=layers))
    page.get("/fine/zebra?share=zebra", headers={"Cookie": "a=zebra", "User-Agent": "zebra"})
    page.request("ZEBRA", "/fine/zebra")
    told = [vars(record) for record in caplog.records]
    assert [(each["method"], each["route"], each["status"]) for each in told] == [
        ("GET", "/fine/{secret}", 500),
        ("other", "/fine/{secret}", 500),
    ]
    assert "zebra" not in repr(told).lower()
