"""Help texts: every term has one, its markup is complete, and no two cards of one page share an id."""

from __future__ import annotations

import re

from mars_core.types import Cause
from tests.panels import read_panel
from ui.kit.glossary import TERMS, help_html
from ui.kit.theme import page_css
from ui.tabs.about import about_text

PROMISED = ("tau", "theta", "r", "tv", "kl", "k", "draft_mode", "ttft", "acceptance_rate", "seed", "rule", "drafter")


def test_the_terms_that_the_page_explains_are_there() -> None:
    assert set(PROMISED) <= set(TERMS)
    assert all(term.symbol and term.title and term.text.endswith(".") for term in TERMS.values())
    assert len({term.symbol for term in TERMS.values()}) == len(TERMS)


def test_a_button_names_its_term_and_opens_its_own_card() -> None:
    for key, term in TERMS.items():
        panel = read_panel(help_html(key))
        button = panel.one("button").attributes
        (card,) = (each.attributes for each in panel.every if "popover" in each.attributes)
        assert (button["aria-label"], button["type"]) == (f"What is {term.symbol}?", "button")
        assert button["popovertarget"] == card["id"]
        assert " ".join(term.title.split()) in panel.text and " ".join(term.text.split()) in panel.text


def test_cards_of_one_page_have_ids_of_their_own_and_need_no_script_and_no_other_host() -> None:
    html = "".join(help_html(key) for key in (*TERMS, *TERMS))
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(set(ids)) == len(ids) == 2 * len(TERMS)
    assert all(re.fullmatch("[a-z0-9-]+", id_) for id_ in ids)
    assert not re.search(r"\bon\w+=|script|https?:", html)


def test_about_explains_every_term_and_every_cause_and_says_how_to_cite() -> None:
    text = about_text("")
    assert all(term.text in text and term.symbol in text for term in TERMS.values())
    assert all(cause.value in TERMS["divergence"].text for cause in Cause)
    assert "2601.15498" in text and "Song, Jingwei" in text and "@software{" in text
    assert text.count("```") == 4
    assert not re.search(r"\{(terms|paper|tool)\}", text)


def test_the_card_is_styled_by_variables_of_the_theme_alone() -> None:
    rules = re.findall(r"\.mars-help[^{]*\{([^}]*)\}", page_css())
    assert any("popover" in selector for selector in re.findall(r"(\.mars-help[^{]*)\{", page_css()))
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", "".join(rules))
