"""docs/operations.md keeps up with what is logged and counted."""

from __future__ import annotations

import re
from pathlib import Path

from hosting import logs
from hosting.health import LOADING, LOCKED, NO_PAIR, TEMPORARY, health_routes
from hosting.metrics import Metrics

TEXT = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^\| (`.+?`(?:, `.+?`)*) \|", TEXT, re.MULTILINE)  # the first cells of the tables
NAMES = {name for cell in LISTED for name in re.findall(r"`(.+?)`", cell)}


def test_every_metric_is_listed_and_no_other() -> None:
    families = [family for family in Metrics({}, ()).registry.collect() if not family.name.startswith("process_")]
    served = {family.name + "_total" * (family.type == "counter") for family in families}
    assert {name for name in NAMES if name.startswith(("vllm:", "mars:"))} == served


def test_every_field_of_the_log_is_listed() -> None:
    assert {"time", "level", "logger", "message", *logs.TEXTS, *logs.NUMBERS, "at", "error"} <= NAMES
    assert logs.WITHHELD in TEXT
    assert all(reason in TEXT for reason in (LOCKED, LOADING, NO_PAIR, TEMPORARY))


def test_every_address_is_told() -> None:
    for route in (*health_routes({}), Metrics({}, ()).route):
        assert f"`{getattr(route, 'path', '')}`" in TEXT
