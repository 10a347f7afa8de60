"""The report is one file that asks for nothing, shows hostile text as text, and runs no script but its own."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from mars_core.types import PromptConfig, Status
from storage import RunStore, StoredComparison
from tests.unit.ui.places import keep
from ui.report.page import report_html

HOSTILE = "<img src=x onerror=alert(1)></script><script>window.ran=1</script>{{7*7}}\u202e\x1b[31m\ud800"


class Reader(HTMLParser):
    """Tags with their attributes, the text of scripts, and all other text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((str(dict(attrs).get("type", "")), ""))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":  # type: ignore[attr-defined]
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        else:
            self.text += data


def kept(store: RunStore, prompt: str = "Tell me.", **more: object) -> StoredComparison:
    comparison = keep(store, prompt, new_tokens=16, **more)  # type: ignore[arg-type]
    store.annotate(comparison, name=prompt[:40], comment=prompt, tags=["<b>"])
    return store.load(comparison)


def read(report: str) -> Reader:
    reader = Reader()
    reader.feed(report)
    return reader


def test_the_report_asks_for_nothing_and_only_scripts_with_a_named_hash_may_run(store: RunStore) -> None:
    report = report_html(kept(store, HOSTILE))
    reader = read(report)
    assert not [tag for tag, given in reader.tags if {"src", "href", "action", "data"} & given.keys()]
    assert not [tag for tag, _ in reader.tags if tag in ("link", "iframe", "object", "base", "form", "img")]
    policy = next(given["content"] for tag, given in reader.tags if tag == "meta" and "http-equiv" in given) or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    assert "url(" not in report.split("</style>")[0]
    scripts = [text for kind, text in reader.scripts if not kind]
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts]
    assert len(scripts) == 2 and re.findall("'sha256-[^']+'", policy) == hashes
    assert not [tag for tag, given in reader.tags if any(name.startswith("on") for name in given)]


def test_hostile_text_is_never_markup(store: RunStore) -> None:
    report = report_html(kept(store, HOSTILE, words=(HOSTILE,) * 8))
    reader = read(report)
    assert len(reader.scripts) == 3 and "img" not in [tag for tag, _ in reader.tags]
    assert not [text for kind, text in reader.scripts if not kind and "window.ran" in text]
    assert "<img src=x onerror=alert(1)></script><script>window.ran=1</script>{{7*7}}" in reader.text  # the prompt
    assert not set("\u202e\x1b\ud800") & set(report)
    values = next(text for kind, text in reader.scripts if kind == "application/json")
    assert values.isascii() and "<" not in values and "window.ran=1" in values
    every = [piece["props"]["value"] for piece in json.loads(values)]
    shown = [value for value in every if '"csv":' not in value]  # the CSV of a figure has the text as it is
    assert not [value for value in shown if re.search(r"\\u202e|\\u001b|\\ud800|[\u202e\x1b\ud800]", value)]


def test_the_report_holds_what_the_page_shows(store: RunStore) -> None:
    """Texts and tables without a script; tokens and figures as the values of the page's components."""
    reader = read(report_html(kept(store, "a lantern")))
    command = "python -m mars_core compare"
    for words in ("a lantern", "MARS", "Tokens per second", "Perplexity", "Self-check", command, "torch"):
        assert words in reader.text
    parts = {"prompt", "numbers", "shift", "settings", "repeat", "versions"}
    assert parts <= {given.get("id") for _, given in reader.tags}
    values = json.loads(next(text for kind, text in reader.scripts if kind == "application/json"))
    figures = [json.loads(piece["props"]["value"]) for piece in values if '"csv":' in piece["props"]["value"]]
    assert len(figures) >= 6 and all(figure["csv"] for figure in figures)
    assert sum(piece["props"].get("lane") in (0, 1) for piece in values) == 2


def test_runs_that_did_not_end_are_reported_too_and_a_comparison_without_runs(store: RunStore) -> None:
    for status in (Status.CANCELLED, Status.FAILED):
        assert "application/json" in report_html(kept(store, status=status))
    assert "</html>" in report_html(store.load(store.new_comparison(PromptConfig("x"))))
