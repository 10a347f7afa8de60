"""What the documents about hosting name is there: files, settings, limits, flavours, pairs,
metrics, fields of the log."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

from hosting import logs, settings
from hosting.health import health_routes
from hosting.metrics import ServerMetrics
from ui.public.limits import PUBLIC_LIMITS, Limits

ROOT = Path(__file__).parents[3]
DOCS = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("hosting", "security")
}


def test_every_setting_is_in_the_list_and_no_other() -> None:
    code = inspect.getsource(settings).partition("\n}\n")[2]
    assert {*re.findall(r'"([A-Z][A-Z_]{3,})"', code)} - {"HF_TOKEN"} == {*settings.SETTINGS}
    text = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert text.endswith(f"\n\n{settings.described()}")


def test_limits_are_those_of_public_mode() -> None:
    text = DOCS["hosting"].partition("Limits of public mode")[2].partition("\n## ")[0]
    documented = {name: int(limit) for name, limit in re.findall(r"`(\w+)` (\d+)", text)}
    assert documented == {
        field.name: getattr(PUBLIC_LIMITS, field.name) for field in fields(Limits)
    }


TEXT = DOCS["hosting"]
NAMES = set(re.findall(r"`([^`\n]+)`", TEXT))


def test_the_metrics_are_those_that_the_page_serves() -> None:
    """The list of docs/reference/metrics.md, in the order and with the words of `/metrics`."""
    lines = [
        f"* `{family.name}{'_total' * (family.type == 'counter')}` ({family.type}): "
        f"{family.documentation}"
        for family in ServerMetrics({}, ()).registry.collect()
        if not family.name.startswith("process_")
    ]
    text = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    assert text.partition("\n\n* ")[2] == "\n".join(lines)[2:] + "\n"


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


def test_every_address_is_documented() -> None:
    for route in (*health_routes({}), ServerMetrics({}, ()).route):
        assert f"`{getattr(route, 'path', '')}`" in TEXT
