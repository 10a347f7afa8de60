"""The page as a whole, without a browser: it can be built, its doors are closed, its texts agree with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_core.rules import RULES
from storage import RunStore
from tests.unit.ui.places import client_of, contrast, keep, place_of
from ui.app import launch_options
from ui.kit.components import RUN_FILES
from ui.kit.palette import OUTCOME_STYLES
from ui.kit.theme import page_css, page_theme
from ui.result.view import legend_html
from ui.tabs.about import about_text
from ui.token_view.view import OUTCOMES


def test_the_page_needs_no_host_but_its_own(store: RunStore) -> None:
    sheet = page_css() + "".join(page_theme()._font_css)
    assert "http" not in sheet and not any(page_theme()._stylesheets)
    assert launch_options(place_of(store))["show_error"] is False


def test_the_colours_and_shapes_of_outcomes_differ_and_their_texts_can_be_read() -> None:
    styles = OUTCOME_STYLES.values()
    assert set(OUTCOME_STYLES) == set(OUTCOMES)
    for attribute in ("light", "dark", "symbol", "meaning"):
        assert len({getattr(style, attribute) for style in styles}) == len(OUTCOME_STYLES)
    assert all(outcome.value in legend_html() for outcome in OUTCOMES)
    for style in styles:
        assert contrast(style.light_text, "#FFFFFF") >= 4.5 and contrast(style.dark_text, "#181B20") >= 4.5


def test_about_names_every_rule_and_every_outcome() -> None:
    text = about_text("What the pair can do.")
    assert all(rule.summary in text and rule.formula in text for rule in RULES.values())
    assert all(f">{outcome.value}<" in text for outcome in OUTCOMES)
    assert "What the pair can do." in text and not any(place in text for place in ("{rules}", "{marks}", "{bundled}"))


@pytest.mark.parametrize("name", RUN_FILES)
def test_downloads_are_whole_files_and_leave_nothing_behind(
    store: RunStore, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    comparison = keep(store)
    before = set(tmp_path.iterdir())
    client = client_of(place_of(store))
    answer = client.get(f"/downloads/{name}", params={"comparison": comparison})
    assert answer.status_code == 200 and len(answer.content) > 100
    assert f'filename="{name}"' in answer.headers["content-disposition"]
    assert set(tmp_path.iterdir()) == before
    assert client.get("/downloads/x").status_code == 404
    assert client.get(f"/downloads/{name}?comparison=../x").status_code == 400
