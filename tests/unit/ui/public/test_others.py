"""What one visitor keeps, another neither reads nor changes; errors end in an id that finds the log
line, whatever is sent."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from mars_core.types import Status
from storage import RunStore, Shared
from tests.unit.ui.helpers import rows_of
from tests.unit.ui.public.conftest import MARK, A, B, OwnedIds, Served, Stranger, defaults
from ui.kit.assets import SOURCE
from ui.kit.errors import error_message
from ui.public.preview import PICTURE
from ui.public.visitors import HEADER, browser_owner
from ui.report.downloads import ALL_FILES
from ui.tabs.study.reports import FILES as STUDY_FILES

OURS = {
    *["/downloads/{name}", "/mine/export.zip", "/votes/vote_results.csv"],
    *["/health", "/ready", "/metrics"],
    f"/{SOURCE}",
    f"/{PICTURE}",
    "/docs/{name:path}",
    *(f"/downloads/{name}" for name in STUDY_FILES),
}
API = "/gradio_api/"
# gradio's own, each looked at: either the doors are shut, or it gives nothing of any visitor, or it
# is bound to the session.
BY_EVENT = {  # by the name of an event, 128 random bits that only its sender gets
    f"{API}call/{version}{name}"
    for version in ("", "v2/")
    for name in ("{api_name}", "{api_name}/", "{api_name}/{event_id}")
}
MCP = {"/gradio_api/mcp"}  # calls the endpoints for its caller
HARMLESS = {
    *[
        "/",
        "/config",
        "/config/",
        "/assets/{path:path}",
        "/static/{path:path}",
        "/svelte/{path:path}",
        "/favicon.ico",
        "/theme.css",
        "/robots.txt",
        "/pwa_icon",
        "/pwa_icon/{size}",
        "/manifest.json",
        "/login",
        "/login/",
        "/logout",
    ],
    *(
        API + name
        for name in [
            "info",
            "info/",
            "app_id",
            "app_id/",
            "user",
            "user/",
            "login_check",
            "login_check/",
            "startup-events",
            "theme.css",
            "reset",
            "reset/",
            "queue/status",
        ]
    ),
}
BY_SESSION = {
    API + name
    for name in [
        "queue/join",
        "queue/data",
        "heartbeat/{session_hash}",
        "cancel",
        "run/{api_name}",
        "run/{api_name}/",
    ]
}
SHUT = re.compile(
    r"/monitoring|/gradio_api/(deep_link|token|dev|runs|openapi|custom_component|proxy|file|stream|api|component_server|upload|"
    r"process_recording|vibe|undo-vibe)"
)


def config(served: Served) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{served.url}/config", timeout=60).json()
    return document


def everything(store: RunStore, owned: OwnedIds) -> list[Any]:
    """All that A has, to be compared."""
    mine = store.of(browser_owner(A))
    stored = [
        mine.load(owned.comparison),
        mine.load(owned.round),
        mine.study(owned.study),
    ]
    records = [mine.votes(), mine.counts(), mine.shares(), mine.studies()]
    return [*map(repr, (*stored, *records))]


def component_values(owned: OwnedIds) -> Iterator[dict[str, Any]]:
    """What a hostile page may report, naming all that A has."""
    common = {
        "comparison": owned.comparison,
        "runs": ",".join(owned.runs),
        "study": owned.study,
    }
    common |= {"index": 0, "token": 1, "row": 0, "theta": 0.5, "choice": "left", "page": 1}
    common |= {"text": "asks for", "source": "all"}
    for action, id_, run in (
        ("open", owned.comparison, 0),
        ("choose", owned.study, 1),
        ("undo", owned.study, 0),
    ):
        yield common | {"action": action, "comparison": id_, "runs": owned.runs[run]}


def event_name(event: dict[str, Any]) -> str:
    """Of its function: gradio numbers those of the same name."""
    return re.sub(r"_\d+$", "", event["api_name"])


@pytest.mark.parametrize("path", ["/", "/config"])
def test_links_with_names_of_gradio_open(stranger: Stranger, path: str) -> None:
    """Gradio fails where the value of its name is not one that it knows."""
    for query in ("tab=history&page=2", "page=x", "p%61ge=2", "deep_link=2", "list_page=2"):
        assert stranger.http.get(f"{path}?{query}").status_code == 200, query


def test_every_route_is_known(served: Served) -> None:
    paths = json.loads((served.folder / "routes.json").read_text())
    known = OURS | HARMLESS | BY_SESSION | BY_EVENT | MCP
    assert [path for path in paths if path not in known and not SHUT.match(path)] == []
    assert known <= set(paths)


@pytest.mark.parametrize("turn", range(3))
def test_no_event_gives_or_changes_what_another_visitor_keeps(
    served: Served, stranger: Stranger, owned: OwnedIds, turn: int
) -> None:
    page, before = config(served), everything(served.store, owned)
    event_data = list(component_values(owned))[turn]
    events, values = (
        [event for event in page["dependencies"] if event["backend_fn"]],
        defaults(page),
    )
    if turn == 0:  # an id of A's where an empty text is expected
        values = {
            id_: [owned.vote if value == "" else value for value in arguments]
            for id_, arguments in values.items()
        }
    events_ = [
        (e["id"], values[e["id"]], event_data)
        for e in events
        if turn == 0 or e["collects_event_data"]
    ]
    ended = stranger.send(*events_)
    assert (
        len(ended) == len(events_)
        and sum(message["success"] for message in ended) > len(events_) // 2
    )
    received = json.dumps(ended)
    assert MARK not in received and "Traceback" not in received
    for event in events if turn == 2 else ():
        if not event["queue"] and (
            event["collects_event_data"] or event_name(event) in ("show", "enter")
        ):
            assert MARK not in stranger.direct(event["id"], values[event["id"]], event_data).text
    assert everything(served.store, owned) == before


def test_endpoints_for_programs_give_only_what_the_caller_owns(
    served: Served, owned: OwnedIds
) -> None:
    mine, others = (
        Client(served.url, verbose=False, headers={HEADER: secret}) for secret in (A, B)
    )
    bare = Client(served.url, verbose=False)
    try:
        assert owned.comparison in {row["id"] for row in mine.predict(api_name="/comparisons")}
        assert mine.predict(owned.comparison, api_name="/comparison")["prompt"].startswith(MARK)
        for stranger in (others, bare):
            assert owned.comparison not in {
                row["id"] for row in stranger.predict(api_name="/comparisons")
            }
            for name, more in (("comparison", ()), ("tokens", (0,))):
                with pytest.raises(
                    AppError, match=r"There is no comparison .*, or it is not yours"
                ):
                    stranger.predict(owned.comparison, *more, api_name=f"/{name}")
        made = others.predict("Once", ["strict"], max_new_tokens=4, api_name="/compare")
        assert others.predict(made["id"], api_name="/comparison") == made
        assert (
            served.store.of(browser_owner(B)).load(made["id"]).runs[0].trace.status
            is Status.COMPLETED
        )
        for stranger in (mine, bare):
            with pytest.raises(AppError, match="or it is not yours"):
                stranger.predict(made["id"], api_name="/comparison")
    finally:
        for each in (mine, others, bare):
            each.close()


def routes(owned: OwnedIds) -> Iterator[tuple[str, dict[str, str]]]:
    """Every download, requested in every way that could name what A has."""
    named = (
        {},
        {"comparison": owned.comparison},
        {"runs": ",".join(owned.runs)},
        {"text": MARK, "source": "all"},
    )
    for name in ALL_FILES:
        yield from ((f"/downloads/{name}", query) for query in named)
    for name in STUDY_FILES:
        yield f"/downloads/{name}", {"study": owned.study}
    yield "/votes/vote_results.csv", {}


def test_no_download_gives_what_another_visitor_keeps(
    served: Served, stranger: Stranger, owned: OwnedIds
) -> None:
    mine, nobody = Stranger(served.url, A, "of-a"), httpx.Client(base_url=served.url, timeout=60)
    hits = 0
    for path, query in routes(owned):
        allowed = mine.get(path, **query)
        hits += MARK in allowed.text
        for answer in (stranger.get(path, **query), nobody.get(path, params=query)):
            assert answer.status_code in (200, 400, 404) and MARK not in answer.text
            assert answer.headers["cache-control"] == "private, no-store"
            if answer.status_code == 404:
                assert re.search(r"or it is not yours|There is no run", answer.text), answer.text
    assert hits > 12  # else A would not get it either, and this shows nothing
    mine.http.close()
    nobody.close()


def test_studies_are_shared_by_links_too(
    served: Served, stranger: Stranger, owned: OwnedIds
) -> None:
    """A link shows one thing until it ends."""
    store = served.store.of(browser_owner(A))
    for kind, id_, name in (
        (Shared.COMPARISON, owned.comparison, "report.html"),
        (Shared.STUDY, owned.study, "study-results.csv"),
    ):
        of = {str(kind): id_, "share": store.share(kind, id_)}
        assert stranger.get(f"/downloads/{name}", **of).status_code == 200
        everything = stranger.get("/downloads/runs.csv", share=of["share"]).text
        assert owned.round not in everything
        other = stranger.get("/downloads/report.html", comparison=owned.round, share=of["share"])
        assert other.status_code == 404
        store.unshare(kind, id_)
        ended = stranger.get(f"/downloads/{name}", **of)
        assert (ended.status_code, MARK in ended.text) == (404, False)
        assert "not valid any more" in ended.text


def test_the_address_of_a_link_opens_it_to_read_only(
    served: Served, stranger: Stranger, owned: OwnedIds
) -> None:
    store, page = served.store.of(browser_owner(A)), config(served)
    token = store.share(Shared.COMPARISON, owned.comparison)
    address = {"tab": "history", "comparison": owned.comparison, "share": token}
    ids = {
        event["api_name"]: event["id"] for event in reversed(page["dependencies"])
    }  # of several the first
    go, act = ids["go"], ids["act"]
    received = json.dumps(stranger.send((go, [None], address)))
    assert (
        MARK in received
        and "Shared with you: read only." in received
        and f"share={token}" in received
    )
    before = everything(served.store, owned)
    calls = ((act, [None], {"action": action, "name": "mine"}) for action in ("save", "delete"))
    refusals = json.dumps(stranger.send(*calls))
    assert (
        refusals.count("Shared with you: read only.") == 2
        and everything(served.store, owned) == before
    )
    store.unshare(Shared.COMPARISON, owned.comparison)
    received = json.dumps(stranger.send((go, [None], address)))
    assert MARK not in received and "not valid any more" in received


def test_the_open_page_of_another_browser_is_out_of_reach(
    served: Served, owned: OwnedIds, stranger: Stranger
) -> None:
    session = {"session_hash": "session-of-a"}
    mine = Stranger(served.url, A, "session-of-a")
    assert mine.send((3, [20, 0, False], None))[0]["success"]
    assert MARK in json.dumps(mine.send((4, [owned.comparison], None)))

    def post(path: str, **body: Any) -> httpx.Response:
        return stranger.http.post(f"/gradio_api/{path}", json=body)

    refused = [
        stranger.join(4, [owned.comparison], session="session-of-a"),
        post("queue/join?session_hash=own-of-b", fn_index=4, **session),
        stranger.get("/gradio_api/queue/data", **session),
        stranger.get("/gradio_api/heartbeat/session-of-a"),
        post("run/predict", fn_index=8, data=[None], **session),
        post("cancel", fn_index=4, event_id="x", **session),
    ]
    assert [answer.status_code for answer in refused] == [403] * 6
    assert "opened by another browser" in refused[0].text
    shut = [
        stranger.get("/gradio_api/deep_link", **session),
        post("run/comparison"),
        post("run/predict", session_hash="own-of-b", fn_index=4, data=[owned.comparison]),
    ]
    assert [answer.status_code for answer in shut] == [
        404,
        404,
        404,
    ]  # the last: an event that queues
    mine.http.close()


def test_the_page_itself_holds_nothing_of_any_visitor(
    served: Served, stranger: Stranger, owned: OwnedIds
) -> None:
    for path in (
        "/",
        "/config",
        "/gradio_api/info",
        f"/?tab=history&comparison={owned.comparison}",
    ):
        answer = stranger.http.get(path)
        assert (
            answer.status_code == 200
            and MARK not in answer.text
            and str(served.folder) not in answer.text
        )


ID = re.compile(r"\(error ([0-9a-f]{8})\)")
TRACES = ("Traceback", 'File "', "/site-packages/", "/ui/", "RuntimeError")


def lines(served: Served) -> list[dict[str, Any]]:
    """Whatever is no JSON is no line of the log, and fails."""
    return [json.loads(line) for line in served.log.splitlines()]


def in_log(served: Served, text: str) -> str:
    """The id in ``text`` names a line of the log, and nothing else of the error was said; returns
    where that line is from."""
    match = ID.search(text)
    assert match, text
    (line,) = (each for each in lines(served) if each.get("fault") == match[1])
    assert line["error"][0]["type"] == "RuntimeError"
    assert not any(trace in text for trace in (*TRACES, "a reason that holds")), text
    return str(line["where"])


def test_endpoints_events_and_routes_that_break_tell_an_id_and_after_it_all_is_as_before(
    served: Served, stranger: Stranger
) -> None:
    """The log has the id and the request, and nothing of the visitor."""
    flag, broken = served.folder / "broken", "/votes/vote_results.csv"
    flag.touch()
    (end,) = stranger.send((1, [], None))
    assert end["success"] is False
    in_log(served, end["output"]["error"])
    page = stranger.get("/config").json()
    table = next(
        each["id"] for each in page["components"] if each["props"].get("elem_id") == "votes-tally"
    )
    tally = next(
        each["id"]
        for each in page["dependencies"]
        if each["outputs"] == [table] and not each["inputs"]
    )
    (end,) = stranger.send((tally, defaults(page)[tally], None))
    in_log(served, json.dumps(end["output"]))
    answer = stranger.http.get(broken, params={"share": "zebra"}, headers={"user-agent": "zebra"})
    assert (answer.status_code, in_log(served, answer.text)) == (500, "request /votes")
    flag.unlink()
    assert stranger.send((1, [], None))[0]["success"] and stranger.get(broken).status_code == 200
    (answered,) = (each for each in lines(served) if each.get("status") == 500)
    assert answered["method"] == "GET" and answered["logger"] == "mars.requests"
    with socket.create_connection(("127.0.0.1", urlsplit(served.url).port or 0)) as strange:
        strange.sendall(b"zebra \x00 127.0.0.1\r\n\r\n")
        assert b"400" in strange.recv(100)
    stranger.http.post(f"{API}queue/join", content=b"{zebra")
    stranger.get("/zebra")
    assert not re.search("zebra|127.0.0.1|a reason", served.log.replace(served.url, ""))


def test_routes_of_the_host_stand_beside_the_page_and_every_answer_has_the_headers(
    served: Served,
) -> None:
    for path in ("/", "/config", "/health", "/ready", "/metrics"):
        answer = httpx.get(f"{served.url}{path}", timeout=60)
        assert answer.status_code == 200 or path == "/ready"  # while the pair is loaded
        assert answer.headers["referrer-policy"] == "same-origin"
        policy = "frame-ancestors 'self' https://huggingface.co"
        assert answer.headers["content-security-policy"].startswith(policy)


def test_a_call_by_names_says_which_parameter_is_wrong(served: Served, stranger: Stranger) -> None:
    before = served.log
    for values, sentence in (
        ({"nope\n": 1, "id": "a"}, "There is no parameter 'nope\\n'; "),
        ({}, "The call lacks the parameter 'id'; "),
    ):
        answer = stranger.http.post("/gradio_api/call/v2/tokens", json=values)
        assert (answer.status_code, answer.text) == (
            400,
            f"{sentence}/gradio_api/info lists those of each endpoint.\n",
        )
    assert served.log == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    rows_of("""
{"limit": "x"} -> limit is 'x'; it must be a whole number from 1 to 200.
{"batches": 1} -> batches is 1; it must be true or false (on or off).
{"nope": 1} -> There is no parameter 'nope'; /gradio_api/info lists those of each endpoint.
{"limit": 200} -> [
"""),
)
def test_a_tool_says_which_argument_is_wrong(
    stranger: Stranger, arguments: dict[str, Any], sentence: str
) -> None:
    call = {"name": "comparisons", "arguments": arguments}
    answer = stranger.http.post(
        "/gradio_api/mcp/",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={"accept": "application/json, text/event-stream"},
    )
    result = json.loads(answer.text.partition("data: ")[2])["result"]
    (text,) = [each["text"] for each in result["content"]]
    assert text[: len(text) if result["isError"] else 1] == sentence
    assert MARK not in text  # which A's comparisons have


def test_messages_to_strangers_have_no_path() -> None:
    absent = "There is no comparison with the id 'ab'"
    for message, public in (
        (f"{absent}.", f"{absent}, or it is not yours; its owner can share it."),
        ("The disk is full (/root/data/runs.db). Free some.", "The disk is full (…). Free some."),
        (r"It is in C:\Users\mia\x or ~/models/a/b.", "It is in … or …"),
        ("It is sqlite:////root/runs.db here", "It is … here"),
        (
            "K is 3/4; see https://huggingface.co/a/b and 1/2.",
            "K is 3/4; see https://huggingface.co/a/b and 1/2.",
        ),
    ):
        assert error_message(ValueError(message), public=True).rstrip(".") == public.rstrip(".")
        assert error_message(ValueError(message), public=False) == message
