"""The address of a result and of settings, what they open, the picture of a result, and what a link
shows where it is posted."""

from __future__ import annotations

import json
import re
from typing import Any

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from display.sources import to_json
from mars_core.models import CATALOG
from mars_core.settings import read_lane
from mars_core.settings.recorded import OTHER_SAMPLER
from mars_core.types import Outcome, TreeShape
from storage import RunStore, Shared
from tests.panels import assert_inert, read_panel
from tests.traces import make_trace
from tests.unit.ui.helpers import HOSTILE, client_of, keep, services_of
from ui.app import page_layers
from ui.jobs.services import Services
from ui.kit.address import address_component
from ui.public.preview import PICTURE
from ui.report.downloads import picture_json
from ui.result.result import ended_result
from ui.settings.values import parse, read_link, read_settings
from ui.tabs.compare.arrange import request_json
from ui.tabs.compare.opening import FILLED, Opening
from ui.tabs.compare.tab import CompareTab


def opening_of(services: Services) -> Opening:
    return Opening(**vars(CompareTab(services, address_component())))


def opened(opening: Opening, displayed: Any = None, **words: Any) -> dict[Any, Any]:
    return opening.open(gr.EventData(None, words), displayed, None)  # type: ignore[arg-type]


def sentence(opening: Opening, updates: dict[Any, Any]) -> str:
    return read_panel(updates[opening.view.strip]).one(".mars-strip").text.strip()


def test_an_example_prompt_shows_its_stored_result_where_there_is_one(
    store: RunStore,
    page: gr.Blocks,  # noqa: ARG001
) -> None:
    services = services_of(store, catalog=CATALOG)
    tab = opening_of(services)

    def chosen(pair: str, index: object) -> dict[Any, Any]:
        values = to_json({"values": {"pair": pair}})
        return tab.show_example(values, gr.EventData(None, {"index": index}))

    for index, prompt in enumerate(CATALOG[0].prompts):
        updates = chosen(CATALOG[0].key, index)
        assert json.loads(updates[tab.note])["prompt"] == prompt
        lane = json.loads(updates[tab.view.lanes[0]])
        assert updates[tab.displayed] is None and lane["rows"] and not lane["continues"]
        strip = read_panel(updates[tab.view.strip]).one(".mars-strip")
        assert strip.attributes["data-state"] == "example" and "press Compare" in strip.text
    for pair, index in ((CATALOG[-1].key, 0), (CATALOG[0].key, 99), (CATALOG[0].key, "0")):
        assert set(chosen(pair, index)) == {tab.displayed}


@pytest.fixture
def opening(store: RunStore, page: gr.Blocks) -> Opening:  # noqa: ARG001
    return opening_of(services_of(store))


def test_an_address_opens_the_comparison_with_its_settings_and_follows_it(
    store: RunStore, opening: Opening
) -> None:
    comparison = keep(store, "a lantern", seed=7)
    updates = opened(opening, comparison=comparison)
    panel = opening.prompt_panel
    assert updates[panel.prompt] == "a lantern"
    values = parse(updates[panel.panel.component])
    assert (values["seed"], [lane["rule"] for lane in values["lanes"]]) == (7, ["strict", "mars"])
    displayed = updates[opening.displayed]
    assert (displayed.comparison, displayed.lanes) == (comparison, (0, 1))
    views = [json.loads(updates[lane]) for lane in opening.view.lanes]
    assert [view["state"] for view in views] == ["completed"] * 2 + ["empty"] * 2
    assert OTHER_SAMPLER in updates[opening.view.strip]
    followed = opening.follow(displayed, None)  # type: ignore[arg-type]
    patch = json.loads(followed[opening.address])
    assert patch["of"] == "compare" and patch["comparison"] == comparison
    assert not any(patch[name] for name in ("prompt", "rule", "share", "seed"))
    assert opened(opening, displayed, comparison=comparison) == {opening.displayed: gr.skip()}
    missing = opened(opening, comparison="0" * 32)
    assert "There is no comparison" in sentence(opening, missing) and panel.prompt not in missing


def test_runs_of_an_address_open_their_turn_from_which_nothing_goes_on(
    store: RunStore, opening: Opening
) -> None:
    comparison = keep(store, "a lantern")
    first = store.load(comparison)
    for run in first.runs:
        prompt = run.trace.config.prompt.then(run.trace.text, "And?")
        trace = make_trace(rule=run.trace.config.rule.name, prompt=prompt)
        store.save_run(comparison, trace, lane=run.lane, order=2 + run.lane)
    last = store.load(comparison)
    for stored, later in ((first, True), (last, False)):
        ids = ",".join(run.id for run in stored.runs)
        updates = opened(opening, comparison=comparison, runs=ids)
        lanes = [json.loads(updates[lane]) for lane in opening.view.lanes[:2]]
        turn = ended_result(last.at(1 if later else 2))
        assert [lane["run"] for lane in lanes] == [lane.run for lane in turn.lanes]
        assert {lane["continues"] for lane in lanes} == {not later}
        assert (updates[opening.displayed] is None) is later
        assert ("runs go on from the last one" in updates[opening.view.turns]) is later


def test_what_was_entered_comes_back_with_the_page(store: RunStore, opening: Opening) -> None:
    """As a page that is loaded again while it runs finds it."""
    comparison = keep(store, "a lantern")
    entered = parse(opening.prompt_panel.panel.value({"seed": 9, "lanes": [{}, {}, {}]}))
    words = {"comparison": comparison, "entered": {"panel": json.dumps({"values": entered})}}
    updates = opened(opening, **words | {"entered": words["entered"] | {"prompt": "a ladder"}})
    assert updates[opening.prompt_panel.prompt] == "a ladder"
    values = parse(updates[opening.prompt_panel.panel.component])
    assert values["seed"] == 9 and len(values["lanes"]) == 3
    for nonsense in ({}, {"values": 5}, {"values": "[]", "prompt": {}}, [], "x"):
        assert (
            updates[opening.displayed]
            == opened(opening, comparison=comparison, entered=nonsense)[opening.displayed]
        )


def test_an_address_of_an_earlier_version_opens_the_same_settings() -> None:
    words = {"mode": "greedy", "shape": "tree", "tree_tokens": "9", "tree_depth": "4"}
    words |= {"tree_top_k": "2", "drafter": "eagle3", "own_target": "a/b", "own_draft": "c/d"}
    rules = ["strict", "mars(theta=0.9,drafter=eagle3,shape=chain,k=4,mode=greedy)"]
    values, wrong = read_link({**words, "chat": "False", "rules": rules})
    settings = read_settings(values, "x")
    assert wrong == "" and settings.chat is False
    assert (settings.target, settings.draft, settings.tree) == ("a/b", "c/d", TreeShape(9, 4, 2))
    assert settings.rules[1] == read_lane(
        "mars(theta=0.9,drafter=eagle3,tree=chain,k=4,draft_mode=greedy)"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"k": "abc"}, "k is 'abc'; it must be a whole number from 1 to 64."),
        ({"chat": "maybe"}, "chat is 'maybe'; it must be true or false"),
        ({"rules": ["strict", "<b>"]}, "A rule is '<b>'; write it like"),
        ({"rules": ["mars(theta=7)"]}, "theta is 7"),
        ({"pair": HOSTILE}, "which these models or this page do not offer."),
        ({"drafter": "magic"}, "drafter is 'magic', which these models or this page"),
        ({"rules": "strict", "temperature": 5}, FILLED),
    ],
)
def test_a_bad_value_is_one_sentence_and_the_rest_fills_the_form(
    opening: Opening, words: dict[str, Any], expected: str
) -> None:
    updates = opened(opening, **{"prompt": HOSTILE, "max_new_tokens": "40"} | words)
    assert expected in sentence(opening, updates)
    assert_inert(updates[opening.view.strip])
    assert updates[opening.prompt_panel.prompt] == HOSTILE
    assert parse(updates[opening.prompt_panel.panel.component])["max_new_tokens"] == 40


def test_the_picture_has_the_texts_with_their_relaxed_tokens_and_all_is_text(
    store: RunStore,
) -> None:
    comparison = keep(store, HOSTILE)
    text = picture_json(store.load(comparison))
    assert text.isascii() and "<" not in text
    values, stored = json.loads(text), store.load(comparison)
    assert "\u202e" not in values["prompt"] and "<img src=x" in values["prompt"]
    for lane, run in zip(values["lanes"], stored.runs, strict=True):
        assert "".join(piece for piece, _ in lane["pieces"]) == run.trace.text
        relaxed = [token.outcome is Outcome.RELAXED for token in run.trace.tokens]
        assert sum(kind == "relaxed" for _, kind in lane["pieces"]) <= sum(relaxed)
        assert "target passes" in lane["numbers"] and "nan" not in lane["numbers"]
    assert stored.runs[0].trace.config.target.name in values["models"] and values["sentence"]
    client = client_of(services_of(store))
    assert client.get(f"/downloads/picture.json?comparison={comparison}").json() == values
    assert client.get("/downloads/picture.json").status_code == 400


STOCK = (
    '<!doctype html><html><head><meta charset="utf-8" />\n<meta property="og:title" content="Gradio" />'
    '<meta property="og:url" content="{url}" /><meta\n property="og:image" content="https://x.example/y.jpg"\n/>'
    '<meta name="twitter:description" content="Click to try out the app!" /></head><body>ours</body></html>'
)


def previewed(services: Services, address: str) -> dict[str, str]:
    """Contents of the tags, by name."""

    async def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(STOCK)

    layers = page_layers(services, hosts=["mars.example"])
    client = TestClient(
        Starlette(routes=[Route("/", answer)], middleware=layers), base_url="http://mars.example"
    )
    page = client.get(address)
    assert int(page.headers["content-length"]) == len(page.content) or page.headers.get(
        "content-encoding"
    )
    for stock in ("<img", "Gradio", "{url}", "Click to try", "x.example"):
        assert stock not in page.text
    assert page.text.endswith("<body>ours</body></html>")
    tags = re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)" />', page.text)
    (canonical,) = re.findall(r'<link rel="canonical" href="([^"]*)" />', page.text)
    return dict(tags) | {"canonical": canonical}


def test_a_preview_says_what_a_comparison_was_only_where_it_is_shared(store: RunStore) -> None:
    owner = store.of("anna")
    comparison = keep(owner, f"Tell me. {HOSTILE}")
    token = owner.share(Shared.COMPARISON, comparison)
    services = services_of(store, public=True)
    home = previewed(services, "/")
    assert home["og:title"] == "MARS Playground" and home["og:url"] == "http://mars.example/"
    assert home["og:image"] == f"http://mars.example/{PICTURE}"
    assert client_of(services).get(f"/{PICTURE}").headers["content-type"] == "image/png"
    assert "og:image" not in previewed(services_of(store), "/")
    for query in (f"?comparison={comparison}", f"?comparison={comparison}&share={'x' * 43}"):
        assert previewed(services, f"/{query}") == home
    shared = previewed(services, f"/?comparison={comparison}&share={token}&tab=about")
    assert shared["og:title"].startswith("Tell me. &lt;img src=x")
    assert "MARS" in shared["og:description"] and "og:image" not in shared
    link = f"http://mars.example/?comparison={comparison}&amp;share={token}"
    assert shared["canonical"] == shared["og:url"] == link
    owner.unshare(Shared.COMPARISON, comparison)
    assert previewed(services, f"/?comparison={comparison}&share={token}") == home


def test_a_result_is_of_other_settings_only_by_what_its_drafters_take() -> None:
    """The rest comes from a stored run with other defaults than the pair's."""
    entered = {"drafter": "model", "k": 3, "tree": "12/6/2", "seed": 1}
    lanes = [
        {"rule": "mars", "drafter": "above", "k": 9},
        {"rule": "mars", "drafter": "eagle3", "tree": "9/4/2", "k": 9},
    ]
    values = json.loads(request_json("Hello", entered | {"lanes": lanes}))["values"]
    assert values == {
        **{"drafter": "model", "k": 3, "seed": 1},
        "lanes": [
            {"rule": "mars", "drafter": "above"},
            {"rule": "mars", "drafter": "eagle3", "tree": "9/4/2"},
        ],
    }
