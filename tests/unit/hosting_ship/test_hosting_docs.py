"""What the documents about hosting name is there: files, settings with their defaults, limits, flavours, pairs."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hosting.deploy.files import FLAVOURS
from mars_core.models import CATALOG
from ui.public.limits import PUBLIC_LIMITS, Limits

ROOT = Path(__file__).parents[3]
DOCS = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("hosting", "security", "upgrading")
}
FOLDERS = "app.py|mars_core|storage|evaluation|ui|hosting|tests|deploy|locks|docs|bench|[.]ci"


@pytest.mark.parametrize("name", DOCS)
def test_every_file_that_is_named_is_there(name: str) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[A-Za-z0-9_./-]+)", DOCS[name])
    assert named or name == "upgrading"
    assert not [path for path in named if not (ROOT / path.rstrip(".")).exists()]


def test_every_setting_is_in_the_table_and_no_other() -> None:
    read = set(re.findall(r'"([A-Z][A-Z_]{3,})"', (ROOT / "hosting" / "settings.py").read_text(encoding="utf-8"))) - {
        "HF_TOKEN"
    }
    rows = re.findall(r"^\| (`[A-Z].*?) \|", DOCS["hosting"], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([A-Z][A-Z_]+)`", row) if name != "FLAVOUR"} == read


def test_limits_are_those_of_public_mode() -> None:
    text = DOCS["hosting"].partition("Limits of public mode")[2].partition("\n## ")[0]
    cells = [cell.strip() for row in re.findall(r"^\| (`.+) \|$", text, re.MULTILINE) for cell in row.split("|")]
    told: dict[str, int] = {}
    for names, values in zip(cells[::2], cells[1::2], strict=True):
        told |= zip(re.findall(r"`(\w+)`", names), map(int, values.split(", ")), strict=True)
    assert told == {field.name: getattr(PUBLIC_LIMITS, field.name) for field in fields(Limits)}


def test_flavours_and_pairs_are_named() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)`(?: \(default\))? \| [`Z]", DOCS["hosting"], re.MULTILINE)) == set(FLAVOURS)
    (row,) = re.findall(r"^\| `MARS_PAIRS` .+$", DOCS["hosting"], re.MULTILINE)
    assert {pair.key for pair in CATALOG} <= set(re.findall(r"`([a-z0-9.-]+)`", row))
