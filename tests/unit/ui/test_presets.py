"""Presets set what their titles say, and only what a pair can do is offered."""

from __future__ import annotations

from dataclasses import replace

from mars_core.models import CATALOG
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, DraftMode, TreeShape
from tests.unit.ui.places import FORM
from ui.settings.form import read_drafter
from ui.settings.presets import PRESETS, presets_for


def test_a_preset_fits_the_form_and_its_rules_exist() -> None:
    for key, preset in PRESETS.items():
        drafter = read_drafter(replace(FORM, **preset.fields))  # type: ignore[arg-type]
        assert drafter.kind == preset.drafter and 1 <= len(preset.rules) <= 4, key
        for rule, parameters in preset.rules:
            RULES[rule].values(parameters)


def test_the_papers_setting_is_the_papers() -> None:
    form = replace(FORM, **PRESETS["paper"].fields)  # type: ignore[arg-type]
    assert (form.temperature, read_drafter(form)) == (1.0, DrafterConfig("model", k=7, mode=DraftMode.GREEDY))
    assert PRESETS["paper"].rules == (("strict", {}), ("mars", {"theta": 0.9}))
    tree = replace(FORM, **PRESETS["paper-tree"].fields)  # type: ignore[arg-type]
    assert read_drafter(tree).tree == TreeShape(60, 7, 10)


def test_a_pair_without_a_head_is_offered_no_tree() -> None:
    bundled = CATALOG[0]
    assert "paper-tree" in dict(map(reversed, presets_for(bundled)))  # type: ignore[arg-type]
    headless = {key for _, key in presets_for(replace(bundled, head=None))}
    assert "paper-tree" not in headless and "paper" in headless
