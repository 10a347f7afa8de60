"""The documentation keeps up with the code: every rule has its paragraph, and a figure that shows what the code does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from mars_core.rules import RULES

DOCS = Path(__file__).parents[2] / "docs"
DRAFTING = [rule for rule in RULES.values() if rule.modes]


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", DOCS / "figures" / "draw.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_rule_has_a_paragraph_and_no_other_has() -> None:
    text = (DOCS / "verification.md").read_text(encoding="utf-8")
    assert re.findall(r"^### `(.+)`$", text, re.MULTILINE) == list(RULES)
    assert re.findall(r"^!\[.+\]\(figures/(.+)\.svg\)$", text, re.MULTILINE) == [rule.name for rule in DRAFTING]


@pytest.mark.parametrize("rule", DRAFTING, ids=lambda rule: rule.name)
def test_figures_show_what_the_code_does(rule: object, drawing: ModuleType) -> None:
    assert isinstance(rule, drawing.Rule)
    stored = (DOCS / "figures" / f"{rule.name}.svg").read_text(encoding="utf-8")
    assert drawing.svg(rule) == stored, "run: .venv/bin/python docs/figures/draw.py"


def test_the_example_of_a_new_rule_is_a_rule() -> None:
    """Copied from docs/structures.md into a file of its own, it can be run; and it is short."""
    text = (DOCS / "structures.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[1].split("```")[0]
    assert len(example.splitlines()) < 30
    found: dict[str, object] = {}
    exec(compile(example, "floor.py", "exec"), found)
    rule = found["FLOOR"]
    assert isinstance(rule, type(RULES["strict"]))
    assert rule.values({"floor": 0.5}) == {"floor": 0.5}
