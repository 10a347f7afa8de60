"""Text of a stranger is text wherever it is displayed: no markup of it, and nothing in it that changes
how the rest is displayed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from display.figure import figure_json
from mars_core.types import Status, Trace
from storage import Choice, RunStore, StoredVote, VoteCount
from tests import reports
from tests.panels import assert_inert, read_panel
from tests.traces import make_trace, make_tree_trace
from tests.unit.ui.helpers import HOSTILE, keep, services_of
from tests.unit.ui.test_account import FakeRequest
from ui.kit.address import Address, address_component
from ui.result.result import ended_result, unsaved
from ui.tabs.account.panel import look
from ui.tabs.history.tab import HistoryTab
from ui.tabs.study.panels import first_html, prompts_html, rest_html
from ui.tabs.votes.round import Round, question_view
from ui.tabs.votes.tally import tally, tally_html
from ui.token_view.reading import LONGEST, markdown_html
from ui.token_view.view import ended_view

TEXT = f"{HOSTILE}\ud800"
WORDS = (TEXT, "<b>x</b>", "%{x}", "${1}", "`", "\u2028", "=1+1", "&lt;")


def written(new: int = 24, **changed: object) -> Trace:
    trace = make_trace(words=WORDS, rule="mars", new_tokens=new, status=Status.FAILED, error=TEXT)
    return replace(trace, **changed)  # type: ignore[arg-type]


def of_history(store: RunStore) -> Iterator[str]:
    comparison = keep(store, TEXT, words=WORDS)
    store.annotate(comparison, name=HOSTILE, tags=["<b>\u202e"], comment=HOSTILE)
    runs = tuple(run.id for run in store.load(comparison).runs)
    history = HistoryTab(services_of(store), address_component())
    updates = history.go(Address(comparison=comparison, runs=runs, text='"><img src=x>\ud800'))
    detail = history.detail
    for part in (history.rows, history.runs, history.search, history.downloads):
        yield updates[part]
    yield from (updates[part] for part in (detail.view.strip, detail.head, detail.foot))
    field = read_panel(updates[history.search]).all("input")[0]
    assert field.attributes["value"].startswith('"><img src=x>')  # it is searched for as it is


def of_account(store: RunStore) -> Iterator[str]:
    services = services_of(store, public=True, sign_in=True)
    request = FakeRequest(subject=HOSTILE)
    keep(services.for_visitor(request).store, TEXT)
    yield look(services, request).html()


def of_votes(_: RunStore) -> Iterator[str]:
    yield question_view(Round("c" * 32, (written(text=TEXT), written(text="")), 0)).html()
    rest = ("strict", "mars", "a", "b", TEXT, TEXT)
    vote = StoredVote("v", "c" * 32, datetime(2026, 1, 2, tzinfo=UTC), Choice.TIE, *rest)
    yield tally_html(tally([VoteCount("strict", "mars", Choice.TIE, 21)]), (vote,))


def of_studies(_: RunStore) -> Iterator[str]:
    for report in (reports.make_report(), reports.bare(reports.make_report())):
        parts = (first_html, rest_html, prompts_html)
        yield from filter(None, (part(report) for part in parts))


HTML: dict[str, Callable[[RunStore], Iterator[str]]] = {
    "history": of_history,
    "account": of_account,
    "votes": of_votes,
    "studies": of_studies,
}


@pytest.mark.parametrize("where", HTML)
@pytest.mark.usefixtures("page")
def test_text_of_a_stranger_is_text_wherever_it_is_displayed(store: RunStore, where: str) -> None:
    displayed = list(HTML[where](store))
    for html in displayed:
        assert_inert(html)
    assert any("<" in read_panel(html).text for html in displayed), "it is not displayed"


def test_markdown_of_a_text_has_nothing_that_acts_or_fetches_and_a_long_one_is_not_read() -> None:
    html = markdown_html(
        f"# {TEXT}\n[a](javascript:x) ![b](http://x.example/y) <http://x.example> *c*"
    )
    tags = set(re.findall(r"<[^>]*>", html))
    assert tags <= {f"<{close}{name}>" for close in ("", "/") for name in ("h1", "p", "em")} | {
        "<br />"
    }
    assert "[a](javascript:x) ![b](http://x.example/y) &lt;http://x.example&gt;" in html
    assert markdown_html("a" * (LONGEST + 1)) == ""


def test_what_scripts_are_sent_is_ascii_without_a_tag() -> None:
    """Lanes and figures. Plotly reads a subset of HTML in its texts."""
    trace, tree = written(), make_tree_trace(words=WORDS, new_tokens=20)
    for lane in (trace, tree):
        value = ended_view(lane, "run", note=TEXT).json()
        assert value.isascii() and "<" not in value and "\\u202e" not in value
    result = ended_result(unsaved({0: trace, 1: tree}))
    assert result.details is not None
    plots = [plot for plot in result.details.plots.values() if plot]
    for plot in plots:
        value, texts = figure_json(plot), str(plot.figure.to_plotly_json())
        assert value.isascii() and "<" not in value
        assert not any(each in texts for each in ("<b>x", "<img", "'%{x}", "\u202e", "\ud800"))
    assert len(plots) == 5
