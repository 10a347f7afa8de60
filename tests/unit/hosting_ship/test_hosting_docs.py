"""What the documents about hosting name is there: files, settings, limits, flavours, pairs,
metrics, fields of the log."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hosting import logs
from hosting.deploy.files import FLAVOURS
from hosting.health import LATE, LOADING, LOCKED, NO_PAIR, TEMPORARY, health_routes
from hosting.metrics import ServerMetrics
from mars_core.models import CATALOG
from ui.public.limits import PUBLIC_LIMITS, Limits

ROOT = Path(__file__).parents[3]
DOCS = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("hosting", "security")
}
FOLDERS = "app.py|mars_core|storage|evaluation|ui|hosting|tests|deploy|locks|docs|bench|[.]ci"


@pytest.mark.parametrize("name", DOCS)
def test_every_file_that_is_named_is_there(name: str) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[A-Za-z0-9_./-]+)", DOCS[name])
    assert named
    assert not [path for path in named if not (ROOT / path.rstrip(".")).exists()]


def test_every_setting_is_in_the_list_and_no_other() -> None:
    read = set(
        re.findall(
            r'"([A-Z][A-Z_]{3,})"', (ROOT / "hosting" / "settings.py").read_text(encoding="utf-8")
        )
    ) - {"HF_TOKEN"}
    settings = DOCS["hosting"].partition("## Settings")[2].partition("\n#")[0]
    assert set(re.findall(r"(?:^\* |, )`([A-Z][A-Z_]+)`", settings, re.MULTILINE)) == read


def test_limits_are_those_of_public_mode() -> None:
    text = DOCS["hosting"].partition("Limits of public mode")[2].partition("\n## ")[0]
    documented = {name: int(limit) for name, limit in re.findall(r"`(\w+)` (\d+)", text)}
    assert documented == {
        field.name: getattr(PUBLIC_LIMITS, field.name) for field in fields(Limits)
    }


def test_flavours_and_pairs_are_named() -> None:
    spaces = DOCS["hosting"].partition("## Hugging Face Spaces")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\* `([a-z-]+)`(?: \(default\))?: [`Z]", spaces, re.MULTILINE)) == set(
        FLAVOURS
    )
    (row,) = re.findall(r"^\* `MARS_PAIRS` .+$", DOCS["hosting"], re.MULTILINE)
    assert {pair.key for pair in CATALOG} <= set(re.findall(r"`([a-z0-9.-]+)`", row))


TEXT = DOCS["hosting"]
NAMES = set(re.findall(r"`([^`\n]+)`", TEXT))


def test_every_metric_is_documented_and_no_other() -> None:
    families = [
        family
        for family in ServerMetrics({}, ()).registry.collect()
        if not family.name.startswith("process_")
    ]
    served = {family.name + "_total" * (family.type == "counter") for family in families}
    assert {name for name in NAMES if name.startswith(("vllm:", "mars:"))} == served


def test_every_field_of_the_log_is_documented() -> None:
    assert {
        "time",
        "level",
        "logger",
        "message",
        *logs.TEXTS,
        *logs.NUMBERS,
        "at",
        "error",
    } <= NAMES
    assert logs.WITHHELD in TEXT
    assert all(reason in TEXT for reason in (LOCKED, LOADING, LATE, NO_PAIR, TEMPORARY))


def test_every_address_is_documented() -> None:
    for route in (*health_routes({}), ServerMetrics({}, ()).route):
        assert f"`{getattr(route, 'path', '')}`" in TEXT
