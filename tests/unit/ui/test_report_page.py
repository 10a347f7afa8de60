"""The report is one file that asks for nothing, shows hostile text as text, and runs no script but its own."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

from mars_core.types import PromptConfig, Status
from storage import RunStore, StoredComparison
from tests.panels import Element, read_panel
from tests.unit.ui.places import keep
from ui.report.page import report_html

HOSTILE = "<img src=x onerror=alert(1)></script><script>window.ran=1</script>{{7*7}}\u202e\x1b[31m\ud800"


def kept(store: RunStore, prompt: str = "Tell me.", **more: object) -> StoredComparison:
    comparison = keep(store, prompt, new_tokens=16, **more)  # type: ignore[arg-type]
    store.annotate(comparison, name=prompt[:40], comment=prompt, tags=["<b>"])
    return store.load(comparison)


def scripts(page: Element, kind: str = "") -> list[str]:
    """Of that type, as they stand."""
    found = [each for each in page.all("script") if each.attributes.get("type", "") == kind]
    return ["".join(map(str, each.children)) for each in found]


def values(page: Element) -> list[dict[str, object]]:
    """What the scripts draw: properties by component."""
    (text,) = scripts(page, "application/json")
    assert text.isascii() and "<" not in text
    return [piece["props"] for piece in json.loads(text)]


def test_the_report_asks_for_nothing_and_only_scripts_with_a_named_hash_may_run(store: RunStore) -> None:
    report = report_html(kept(store, HOSTILE))
    page = read_panel(report)
    assert not [each.tag for each in page.every if {"src", "href", "action", "data"} & each.attributes.keys()]
    assert not {each.tag for each in page.every} & {"link", "iframe", "object", "base", "form", "img"}
    assert not [name for each in page.every for name in each.attributes if name.startswith("on")]
    (policy,) = (each.attributes["content"] for each in page.all("meta") if "http-equiv" in each.attributes)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    assert "url(" not in report.split("</style>")[0]
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts(page)]
    assert len(hashes) == 2 and re.findall("'sha256-[^']+'", policy) == hashes


def test_hostile_text_is_never_markup(store: RunStore) -> None:
    report = report_html(kept(store, HOSTILE, words=(HOSTILE,) * 8))
    page = read_panel(report)
    assert len(page.all("script")) == 3 and not page.all("img")
    assert not [text for text in scripts(page) if "window.ran" in text]
    assert not set("\u202e\x1b\ud800") & set(report)
    prompt = page.all(".mq-prompt")[0].text
    assert prompt.startswith("<img src=x onerror=alert(1)></script><script>window.ran=1</script>{{7*7}}")
    every = [str(props["value"]) for props in values(page)]
    shown = [value for value in every if '"csv":' not in value]  # the CSV of a figure has the text as it is
    assert any("window.ran=1" in value for value in shown)
    assert not [value for value in shown if re.search(r"\\u202e|\\u001b|\\ud800|[\u202e\x1b\ud800]", value)]


def test_the_report_holds_what_the_page_shows(store: RunStore) -> None:
    """Texts and tables without a script; tokens and figures as the values of the page's components."""
    page = read_panel(report_html(kept(store, "a lantern")))
    words = page.one("main").text
    for word in (
        "a lantern",
        "MARS",
        "Tokens per second",
        "Perplexity",
        "Self-check",
        "python -m mars_core compare",
        "torch",
    ):
        assert word in words
    assert {"prompt", "numbers", "shift", "settings", "repeat", "versions"} <= {
        each.attributes.get("id") for each in page.every
    }
    drawn = [str(props["value"]) for props in values(page)]
    figures = [json.loads(value) for value in drawn if '"csv":' in value]
    assert len(figures) >= 6 and all(figure["csv"] for figure in figures)
    assert sum(props.get("lane") in (0, 1) for props in values(page)) == 2


def test_runs_that_did_not_end_are_reported_too_and_a_comparison_without_runs(store: RunStore) -> None:
    for status in (Status.CANCELLED, Status.FAILED):
        assert "application/json" in report_html(kept(store, status=status))
    assert "</html>" in report_html(store.load(store.new_comparison(PromptConfig("x"))))
