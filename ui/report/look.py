"""The look of the report: the page's style sheets, and those variables of its theme that they use, light and dark."""

from __future__ import annotations

import re
from typing import Any

from ui.kit.assets import asset
from ui.kit.theme import page_css, page_theme

_SYSTEM = {"font": "ui-sans-serif, system-ui, sans-serif", "font-mono": "ui-monospace, Consolas, monospace"}


def report_css() -> str:
    """All rules of the report; nothing in them is fetched."""
    sheets, theme = page_css() + asset("styles/report.css"), page_theme()
    used = sorted(set(re.findall(r"var\(--([a-z0-9-]+)", sheets)) - _SYSTEM.keys())
    light = {name: _value(theme, name.replace("-", "_")) for name in used} | _SYSTEM
    dark = {name: _value(theme, f"{name.replace('-', '_')}_dark") for name in used}
    return _block(":root", light) + _block(".dark", dark) + sheets


def _block(where: str, values: dict[str, str]) -> str:
    return f"{where}{{{''.join(f'--{name}:{value};' for name, value in values.items() if value)}}}\n"


def _value(theme: Any, name: str) -> str:
    """A variable of the theme; one that names another has that one's value."""
    value = getattr(theme, name, None)
    if not isinstance(value, str):
        return ""
    if not value.startswith("*"):
        return value
    other = value[1:]
    return _value(theme, f"{other}_dark" if name.endswith("_dark") else other) or _value(theme, other)
