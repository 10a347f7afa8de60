"""The form: only the chosen drafter's fields are read, what cannot be a value gets one sentence, presets set what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mars_core.models import CATALOG
from mars_core.rules import RULES, Parameter
from mars_core.types import DrafterConfig, DraftMode, TreeShape
from tests.panels import read_panel
from tests.unit.ui.places import FORM
from ui.kit.labels import parameter_title, rule_title
from ui.settings.drafters import FIELDS, TITLES, offered, taken, tree_shape
from ui.settings.fields import DEFAULT_RULES, rule_html, step_of
from ui.settings.form import Form, read_drafter
from ui.settings.presets import PRESETS, presets_for

EAGLE = replace(FORM, drafter="eagle3", tree_tokens=24, tree_depth=5, tree_top_k=8)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (FORM, DrafterConfig("model", k=4)),
        (replace(FORM, mode="sampled"), DrafterConfig("model", k=4, mode=DraftMode.SAMPLED)),
        (replace(FORM, drafter="ngram", mode="sampled"), DrafterConfig("ngram", k=4)),
        (replace(FORM, drafter="none", k=None), DrafterConfig("none", k=0)),
        (replace(EAGLE, k=None), DrafterConfig("eagle3", tree=TreeShape(24, 5, 8))),
        (replace(EAGLE, shape="chain", tree_tokens=None), DrafterConfig("eagle3", k=4)),
    ],
)
def test_each_drafter_reads_its_own_fields_and_no_others(form: Form, expected: DrafterConfig) -> None:
    assert read_drafter(form) == expected


def test_every_drafter_shows_exactly_what_it_takes_and_a_pair_offers_those_that_it_has() -> None:
    assert taken("model", "tree") == {"k", "mode"}
    assert taken("ngram", "chain") == {"k"}
    assert taken("none", "tree") == set()
    assert taken("eagle3", "chain") == {"shape", "k"}
    assert taken("eagle3", "tree") == set(FIELDS) - {"k", "mode"}
    bundled = CATALOG[0]
    assert offered(None) == list(TITLES)
    assert offered(replace(bundled, draft=None, head=None)) == ["ngram", "none"]
    assert ("eagle3" in offered(bundled)) is (bundled.head is not None)
    assert (tree_shape(bundled), tree_shape(None)) == (TreeShape(12, 6, 2), TreeShape(60, 7, 10))
    with_head, without = ({key for _, key in presets_for(each)} for each in (bundled, replace(bundled, head=None)))
    assert with_head - without == {"paper-tree"}


def test_every_rule_and_parameter_has_a_title_and_a_note() -> None:
    for name, rule in RULES.items():
        note = read_panel(rule_html(name))
        assert rule_title(name) != name and note.one("p").text == " ".join(rule.summary.split())
        assert note.one("code").text == " ".join(rule.formula.split()) and rule.source in note.one("small").text
        assert all(parameter_title(parameter.name) != parameter.name for parameter in rule.parameters)
    assert len({rule_title(name) for name in RULES}) == len(RULES)
    assert set(DEFAULT_RULES) <= set(RULES)
    assert [step_of(Parameter("n", default, 0, 1000, "")) for default in (10, 0.3)] == [1, 0.1]


def test_a_preset_fits_the_form_and_its_rules_exist() -> None:
    for key, preset in PRESETS.items():
        drafter = read_drafter(replace(FORM, **preset.fields))  # type: ignore[arg-type]
        assert drafter.kind == preset.fields["drafter"] and 1 <= len(preset.rules) <= 4, key
        for rule, parameters in preset.rules:
            RULES[rule].values(parameters)


def test_the_papers_setting_is_the_papers() -> None:
    form = replace(FORM, **PRESETS["paper"].fields)  # type: ignore[arg-type]
    assert (form.temperature, read_drafter(form)) == (1.0, DrafterConfig("model", k=7, mode=DraftMode.GREEDY))
    assert PRESETS["paper"].rules == (("strict", {}), ("mars", {"theta": 0.9}))
    tree = replace(FORM, **PRESETS["paper-tree"].fields)  # type: ignore[arg-type]
    assert read_drafter(tree).tree == TreeShape(60, 7, 10)
