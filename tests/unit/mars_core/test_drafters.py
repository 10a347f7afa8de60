"""The table of drafters: whoever needs to know something of a drafter or a rule reads it there."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import mars_core.drafting
from mars_core.drafting import DRAFTERS, DrafterKind, described, drafter_kind
from mars_core.types import WITH_PROBABILITIES, DrafterConfig, DraftMode


def test_every_drafter_of_the_folder_is_in_the_table_and_describes_itself() -> None:
    modules = [
        import_module(f"mars_core.drafting.{each.name}")
        for each in pkgutil.iter_modules(mars_core.drafting.__path__)
    ]
    declared = {
        value.name: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, DrafterKind)
    }
    assert declared == dict(DRAFTERS) and list(DRAFTERS)[-1] == "none"
    for name, kind in DRAFTERS.items():
        assert kind.title and kind.drafts and kind.source and kind.summary.endswith(".")
        assert drafter_kind(name) is described(name) is kind
        assert (DraftMode.COUPLED in kind.modes) is (name in WITH_PROBABILITIES)
        assert DrafterConfig(name).mode is kind.modes[0]
    assert len({kind.title for kind in DRAFTERS.values()}) == len(DRAFTERS)


def test_what_is_unknown_is_an_error_for_a_run_and_a_title_in_the_history() -> None:
    with pytest.raises(ValueError, match=r"'oracle'; it must be one of model, .*none"):
        drafter_kind("oracle")
    assert (described("server").title, described("server").chains) == ("server", True)
