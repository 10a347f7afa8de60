"""The page as a whole, without a browser: it can be built, its doors are closed, its texts agree with the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mars_core.rules import RULES
from storage import RunStore
from tests.traces import make_trace
from tests.unit.ui.places import place_of
from ui.app import launch_options
from ui.kit.components import RUN_FILES
from ui.kit.palette import OUTCOME_STYLES
from ui.kit.theme import page_css, page_theme
from ui.result.view import legend_html
from ui.routes import page_routes
from ui.tabs.about import about_text
from ui.token_view.view import OUTCOMES


def test_the_page_needs_no_host_but_its_own(store: RunStore) -> None:
    sheet = page_css() + "".join(page_theme()._font_css)
    assert "http" not in sheet and not any(page_theme()._stylesheets)
    assert launch_options(place_of(store))["show_error"] is False


def test_the_colours_and_shapes_of_outcomes_differ() -> None:
    styles = OUTCOME_STYLES.values()
    assert set(OUTCOME_STYLES) == set(OUTCOMES)
    for attribute in ("light", "dark", "symbol", "meaning"):
        assert len({getattr(style, attribute) for style in styles}) == len(OUTCOME_STYLES)
    assert all(outcome.value in legend_html() for outcome in OUTCOMES)


@pytest.mark.parametrize(("attribute", "ground"), [("light_text", "#FFFFFF"), ("dark_text", "#181B20")])
def test_outcome_texts_can_be_read(attribute: str, ground: str) -> None:
    for style in OUTCOME_STYLES.values():
        assert _contrast(getattr(style, attribute), ground) >= 4.5


def _contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two #RRGGBB colours."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


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
    trace = make_trace()
    comparison = store.new_comparison(trace.config.prompt)
    store.save_run(comparison, trace, lane=0, order=0)
    client = TestClient(Starlette(routes=page_routes(place_of(store))))
    before = set(tmp_path.iterdir())
    answer = client.get(f"/downloads/{name}", params={"comparison": comparison})
    assert answer.status_code == 200 and len(answer.content) > 100
    assert f'filename="{name}"' in answer.headers["content-disposition"]
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("path", "status"), [("/downloads/x", 404), ("/downloads/runs.csv?comparison=../x", 400)])
def test_downloads_refuse_what_does_not_exist(store: RunStore, path: str, status: int) -> None:
    assert TestClient(Starlette(routes=page_routes(place_of(store)))).get(path).status_code == status
