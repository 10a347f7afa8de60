"""The settings panel: which fields it shows, what a change resets, and that whatever a browser sends becomes a form or nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from mars_core.models import CATALOG
from storage import RunStore
from tests.panels import Element, read_panel
from tests.unit.ui.places import FORM, place_of
from ui.jobs.services import Services
from ui.settings.drafters import FIELDS, taken
from ui.settings.fields import Values, lanes_of, parse
from ui.settings.form import CUSTOM, DraftForm, LaneForm
from ui.settings.panel import SettingsPanel, form_values, read_form
from ui.tabs.compare.ask import Ask
from ui.tabs.study.lists import estimated
from ui.tabs.study.quality_form import read_study
from ui.tabs.study.quality_tab import QualityTab
from ui.tabs.sweep.form import SweepForm, read_sweep
from ui.tabs.sweep.tab import SweepTab

pytestmark = pytest.mark.usefixtures("page")
HOSTILE = "</textarea><script>alert(1)</script>\"' onfocus=x \u202e"


@pytest.fixture
def place(store: RunStore) -> Services:
    return place_of(store)


@pytest.fixture
def panel(place: Services) -> SettingsPanel:
    """That of Compare."""
    return Ask(place).panel


def redrawn(panel: SettingsPanel, values: Values, **changed: Any) -> dict[str, Any]:
    """The values after a change was reported."""
    return parse(panel.changed(json.dumps({"values": values}), changed)[0])


def fields_of(panel: SettingsPanel, values: Values) -> Element:
    return read_panel(json.loads(panel.value(values))["html"])


def shown(html: Element) -> set[str]:
    """Names of the fields of the form, but for the lanes', that are not hidden."""
    lanes = {id(each) for lane in html.all("section") for each in lane.all(".mars-field")}
    every = [field for field in html.all(".mars-field") if not field.hidden and id(field) not in lanes]
    return {each.attributes["data-name"] for field in every for each in field.every if "data-name" in each.attributes}


@pytest.mark.parametrize(
    "form",
    [
        FORM,
        replace(FORM, drafter="eagle3", shape="chain", k=3, stop="a\nb", system="Be brief.", chat=False, thinking="off"),
        replace(FORM, lanes=(*FORM.lanes, LaneForm("typical", {"epsilon": 0.2, "delta": 0.5}, DraftForm("ngram", 2)))),
        replace(FORM, pair=CUSTOM, own_target="a/b", own_draft="c/d", k=None),
    ],
)  # fmt: skip
def test_a_form_survives_the_panel(panel: SettingsPanel, form: Any) -> None:
    values = parse(panel.value(form_values(form)))
    read = read_form(form.prompt, values)
    assert read == replace(form, lanes=read.lanes)
    for lane, wanted in zip(read.lanes, form.lanes, strict=True):
        assert (lane.rule, lane.parameters) == (wanted.rule, wanted.parameters)
        assert (lane.draft and (lane.draft.drafter, lane.draft.k)) == (wanted.draft and ("ngram", 2))


def test_the_fields_of_a_drafter_are_those_that_it_takes(panel: SettingsPanel) -> None:
    for drafter, shape in product(("model", "ngram", "none", "eagle3"), ("tree", "chain")):
        assert shown(fields_of(panel, {"drafter": drafter, "shape": shape})) & set(FIELDS) == taken(drafter, shape)
    own = {"own_target", "own_draft", "own_head"}  # shown once one's own pair is chosen
    assert not own & shown(fields_of(panel, {})) and own <= shown(fields_of(panel, {"pair": CUSTOM}))


def test_a_change_resets_what_follows_from_it_and_nothing_else(panel: SettingsPanel) -> None:
    lanes = [{"rule": "strict"}, {"rule": "typical", "theta": 0.5, "epsilon": 0.3}]
    values = {"tree_tokens": 3, "seed": 9, "lanes": lanes}
    after = redrawn(panel, values, changed="rule", lane=1)
    assert lanes_of(after)[1]["epsilon"] == 0.09 and after["tree_tokens"] == 3 and after["seed"] == 9
    assert redrawn(panel, values, changed="pair")["tree_tokens"] == 12
    assert lanes_of(redrawn(panel, values, changed="rule", lane=7))[1]["epsilon"] == 0.3


def test_a_sweep_suggests_values_for_the_chosen_parameter(place: Services) -> None:
    panel = SweepTab(place).panel
    after = redrawn(panel, {"rule": "entropy", "values": "1", "others": "x = 1"}, changed="rule")
    assert after["parameter"] == "alpha" and after["values"] != "1" and after["others"].startswith("limit = ")
    assert redrawn(panel, after | {"parameter": "limit"}, changed="parameter")["others"].startswith("alpha = ")
    assert redrawn(panel, {"rule": "block"}, changed="rule")["values"] == ""
    form = read_sweep("2 + 2", json.dumps({"values": after}))
    assert isinstance(form, SweepForm) and form.rule == "entropy" and form.top_k == 0


def test_a_study_reads_its_rules_and_says_what_is_missing(place: Services) -> None:
    panel = QualityTab(place).panel
    assert "30 runs" in estimated(place, read_study(panel.value({})))
    assert "No rule is chosen" in estimated(place, read_study(panel.value({"rules": []})))


@pytest.mark.parametrize("sent", [None, "", "{", "[]", '{"values": 3}', "[" * 100_000, '{"html": "x"}'])
def test_what_is_no_settings_is_empty(sent: object) -> None:
    assert parse(sent) == {}
    form = read_form(None, parse(sent))
    assert (form.prompt, form.lanes, form.k, form.temperature) == ("", (), 5, None)


def test_values_of_any_type_become_texts_and_numbers_or_nothing(panel: SettingsPanel) -> None:
    wild: list[Any] = [None, True, -1e400, [], {"a": 1}, HOSTILE, 10**400]
    names = {*form_values(FORM), "at", "fresh"}
    for value in wild:
        lane = {"rule": value, "k": value, "drafter": value}
        values = parse(json.dumps({"values": dict.fromkeys(names, value) | {"lanes": [lane]}}))
        form = read_form("x", values)
        text = value if isinstance(value, str) else ""
        assert form.pair == form.system == form.lanes[0].rule == text
        assert form.k is None and form.seed is None
        assert "<script" not in json.loads(panel.value(values))["html"]
    texts = {"system": HOSTILE, "own_target": HOSTILE}  # escaped, and kept to the letter
    inputs = {each.attributes.get("data-name"): each.attributes for each in fields_of(panel, texts).all("input")}
    assert texts.items() <= parse(panel.value(texts)).items() and inputs["own_target"]["value"] == HOSTILE


def test_a_public_page_offers_its_pairs_only_and_says_its_limits(place: Services) -> None:
    panel = Ask(replace(place, public=True)).panel
    html = fields_of(panel, {"pair": CUSTOM})
    assert CUSTOM not in [option.attributes["value"] for option in html.all("option")]
    assert panel.spec({"pair": CUSTOM}) == CATALOG[0] and not {"own_target"} & shown(html)
