"""The full page, without a browser: how it starts, closed doors, texts and help that agree
with the code, downloads, its address."""

from __future__ import annotations

import gc
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import gradio as gr
import pytest
from fastapi.routing import APIRoute
from gradio.routes import App
from starlette.testclient import TestClient

import app
from hosting.settings import ServerSettings, read_settings
from mars_core.models import BUNDLED_PAIR, CATALOG, PairSpec
from mars_core.types import ModelRef
from storage import Choice, RunStore, Shared
from tests.serving import until
from tests.unit.storage.exports import parsed
from tests.unit.ui.helpers import PanicException, client_of, failing, keep, services_of
from ui.app import launch_options
from ui.jobs.preload import preload
from ui.kit import responses
from ui.kit.address import (
    Address,
    address_component,
    history_parameters,
    read_address,
    wire_tabs,
)
from ui.kit.components import OTHER_FILES, RUN_FILES
from ui.kit.glossary import help_html
from ui.kit.theme import page_css, page_theme
from ui.public.access import GRADIO_NAMES
from ui.report.downloads import ALL_FILES, OF_ONE
from ui.settings.values import LINK_NAMES as NAMES
from ui.tabs.about import about_text


def test_the_page_needs_no_other_host(page: gr.Blocks, store: RunStore) -> None:
    sheet = page_css() + "".join(page_theme()._font_css)
    assert "http" not in sheet and not any(page_theme()._stylesheets)
    options = launch_options(page, services_of(store))
    assert options["show_error"] is False and "http" not in options["head"]


@pytest.mark.parametrize("name", RUN_FILES)
def test_downloads_are_complete_files_and_leave_nothing_behind(
    store: RunStore, client: TestClient, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    comparison = keep(store)
    before = set(tmp_path.iterdir())
    answer = client.get(f"/downloads/{name}", params={"comparison": comparison})
    assert answer.status_code == 200 and len(answer.content) > 100
    assert f'filename="{name}"' in answer.headers["content-disposition"]
    assert set(tmp_path.iterdir()) == before
    assert client.get("/downloads/x").status_code == 404
    assert client.get(f"/downloads/{name}?comparison=../x").status_code == 400


@pytest.fixture
def client(store: RunStore) -> TestClient:
    return client_of(services_of(store))


def rows(client: TestClient, query: str, name: str = "runs.csv") -> list[dict[str, str]]:
    answer = client.get(f"/downloads/{name}{query}")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def test_a_frame_in_another_page_has_the_result_alone(store: RunStore) -> None:
    owner = store.of("anna")
    comparison = keep(owner, "<b>Tell me.</b>")
    token = owner.share(Shared.COMPARISON, comparison)
    client = client_of(services_of(store, public=True))
    link = {"comparison": comparison, "share": token}
    answer = client.get("/", params={**link, "embed": ""})
    assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
    assert "Open this comparison" in answer.text and "How to repeat it" not in answer.text
    assert "<b>Tell me" not in answer.text and "set-cookie" not in answer.headers
    assert client.get("/", params=link).status_code == 404  # the page itself, which Gradio answers
    assert client.get("/", params={"comparison": comparison, "embed": ""}).status_code == 404
    assert client.get("/?embed").status_code == 400


def test_a_search_downloads_what_it_finds(store: RunStore, client: TestClient) -> None:
    one, two = keep(store, "a lantern"), keep(store, "a ladder")
    assert {row["comparison_id"] for row in rows(client, "")} == {one, two}
    assert {row["comparison_id"] for row in rows(client, "?text=LANT")} == {one}
    assert rows(client, "?text=nothing") == []
    # some runs come in the order asked
    first, second = (store.load(keep(store, prompt)).runs for prompt in ("a", "b"))
    wanted = [second[1].id, first[0].id]
    assert [row["run_id"] for row in rows(client, f"?runs={','.join(wanted)}")] == wanted


def test_votes_are_downloaded_too(store: RunStore, client: TestClient) -> None:
    store.add_vote(keep(store, "a"), left_lane=0, right_lane=1, choice=Choice.LEFT)
    assert len(rows(client, "", "votes.csv")) == 1
    assert {*RUN_FILES, *OTHER_FILES, *OF_ONE} == set(ALL_FILES)  # what the page offers is there


def test_about_lists_the_documents_and_each_is_a_page_with_links(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where they are not installed nothing leads to them."""
    catalog = (BUNDLED_PAIR,)
    links = re.findall(r"\(docs/([^)]+)\)", about_text(catalog))
    assert links == sorted(path.name for path in responses.FOLDER.glob("*.md"))
    assert 'href="docs/glossary.md"' in help_html("tau")
    page = client.get("/docs/page.md")
    assert '<a href="evaluation.md">studies</a>' in page.text and "&lt;" not in page.text[:400]
    for link in [*links, "reference/statistics.md"]:
        assert client.get(f"/docs/{link}").status_code == 200
    for name in ("nothing.md", "figures/draw.py", "../README.md", "..%2FREADME.md"):
        assert client.get(f"/docs/{name}").status_code == 404
    monkeypatch.setattr(responses, "FOLDER", tmp_path)
    assert "docs/" not in about_text(catalog) and client.get("/docs/page.md").status_code == 404


ID = "0123456789abcdef" * 2
FULL = Address(
    tab="history",
    comparison=ID,
    runs=(ID, ID[::-1]),
    text='a "b" & <c>',
    rule="mars(theta=0.9)",
    target="demo/target",
    status="failed",
    source="study",
    tag="größer",
    since="2026-01-02",
    until="2026-03-04",
    sort="speed",
    list_page=3,
    share="t" * 43,
)


def test_no_name_of_an_address_is_one_of_gradios(page: gr.Blocks) -> None:
    named = {
        name
        for route in App.create_app(page).routes
        if isinstance(route, APIRoute)
        for name in inspect.signature(route.endpoint).parameters
    }
    ours = {each.name for each in fields(Address)} | set(NAMES)
    assert {"page", "session_hash", *GRADIO_NAMES} <= named and not ours & named


def test_an_address_comes_back_as_it_was_written() -> None:
    assert read_address(history_parameters(FULL)) == replace(FULL, tab="")
    assert read_address({}) == Address()


@pytest.mark.parametrize(
    "address",
    [
        {
            "tab": "../x",
            "comparison": "x" * 32,
            "runs": "1,2,<b>",
            "study": "../x",
        },
        {"status": "great", "source": "x"},
        {
            "since": "2026-13-40",
            "until": "tomorrow",
            "sort": "; drop",
            "list_page": "-4",
            "zone": "none",
        },
        {"list_page": "9" * 400, "tab": None, "runs": None},
    ],
)
def test_what_cannot_be_a_value_is_left_out_and_fields_have_bounds(
    address: dict[str, object],
) -> None:
    assert read_address(address) == Address()
    assert read_address({"runs": f"{ID},{ID}"}).runs == (ID,)
    read = read_address(
        {"text": "x" * 10_000, "runs": ",".join(f"{n:032x}" for n in range(500)), "zone": 10**5}
    )
    assert len(read.text) == 200 and len(read.runs) == 50 and read.zone == 900


def test_what_is_named_opens_its_tab() -> None:
    """The browser takes the first name that it has."""
    opens = address_component(("prompt", "rule")).props["opens"]
    assert opens[:3] == [("study", "quality"), ("share", "history"), ("comparison", "compare")]
    assert [tab for name, tab in opens if name in ("prompt", "rule")] == ["compare"] * 2
    assert {tab for name, tab in opens if name in ("runs", "text", "tag", "page")} == {"history"}


@pytest.mark.parametrize(("named", "chosen"), [("votes", "votes"), ("nowhere", "compare")])
def test_an_address_chooses_a_tab_of_the_page_or_the_first(
    page: gr.Blocks, named: str, chosen: str
) -> None:
    with page:
        address = address_component()
        with gr.Tabs() as tabs:
            wire_tabs(address, tabs, {name: gr.Tab(name, id=name) for name in ("compare", "votes")})
    (choose,) = [event.fn for event in page.fns.values() if event.name == "choose"]
    assert choose is not None
    assert choose(gr.EventData(address, {"tab": named}))["selected"] == chosen


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_the_default_pair_is_there_or_missed_and_the_collector_on(
    spec: PairSpec, store: RunStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert gc.isenabled()  # importing the app left it on
    lost = replace(spec, title="Lost", target=ModelRef(str(tmp_path / "nowhere")))
    for pair, loaded in ((spec, (spec,)), (lost, ())):
        pool = (services := services_of(store, catalog=(pair,))).pool
        gc.disable()
        preload(services)
        assert pool.loaded() == loaded and pool.ran == set(loaded)  # its first run was a rehearsal
        assert gc.isenabled() and gc.get_freeze_count() > 0
    assert "The pair 'Lost' is not available" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, PanicException])
def test_whatever_ends_the_first_loading_is_known(
    spec: PairSpec, store: RunStore, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setattr("mars_core.models.loading.plan", failing("odd", error))
    failed: list[bool] = []
    preload(services_of(store, catalog=(spec,)), lambda: failed.append(True))
    assert failed == [True]


def test_mcp_without_its_package_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"extra mcp \(make mcp\)"):
        read_settings({"MARS_MCP": "on"})


def test_without_the_default_model_the_page_begins_with_the_bundled_pair_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for pairs, notice in (
        ((), "SmolLM2 135M could not be fetched, so"),
        (("bundled", CATALOG[0].key), ""),
    ):
        chosen = ServerSettings(
            database=f"sqlite:///{tmp_path / 'runs.db'}", device="cpu", pairs=pairs
        )
        application = app.Application.open(chosen, CATALOG)
        try:
            services = application.services
            assert services.catalog[0] == BUNDLED_PAIR and services.notice.startswith(notice)
            assert ("`.venv/bin/mars fetch`" in services.notice) is bool(notice)
            assert sorted(each.key for each in services.catalog) == sorted(
                pairs or (each.key for each in CATALOG)
            )
        finally:
            application.close()


def test_the_page_is_built_without_what_only_models_need_and_its_endpoints_are_mcp_tools(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, app, storage; page = app.build_app(app.Services(app.ModelPool(), storage.RunStore(sys.argv[1])));"
        "print(*[name for name in ('torch', 'transformers', 'mars_core.decoder', 'alembic') if name in sys.modules]);"
        "import gradio; print(gradio.Textbox.change.__doc__ == '');"
        "from gradio.mcp import GradioMCPServer; print(*sorted(GradioMCPServer(page).tool_to_endpoint))"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'runs.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, loaded, without_documentation, tools = done.stdout.splitlines()
    assert (
        loaded == ""
        and without_documentation == "True"
        and tools == "compare comparison comparisons pairs rules tokens"
    )


def test_the_pair_waits_for_the_first_visitor(
    spec: PairSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "LOAD_AFTER_S", 3600.0)
    application = app.Application.open(
        ServerSettings(database=f"sqlite:///{tmp_path / 'runs.db'}", device="cpu"), (spec,)
    )
    try:
        application.start()
        assert not application.services.pool.loaded()
        application.opened.set()
        until(application.services.pool.loaded)
    finally:
        application.close()
