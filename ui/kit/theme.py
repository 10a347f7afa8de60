"""The look of the page as a Gradio theme: calm neutral ground, ink as the one accent, colour left
to the data. Light and dark colours are pairs in display/assets/theme.json.

Fonts come with Gradio or with the system; nothing is fetched from anywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.themes.utils import colors, fonts, sizes

from display.palette import css_variables
from display.render import SHEETS, sheet
from display.sources import source
from ui.kit.assets import asset

# Sheets of ui/assets/styles: before that of the token view, after it, and after those of the tabs.
BEFORE, AFTER, LAST = (
    ("page", "settings", "lanes"),
    ("reader", "ribbon", "step", "details"),
    ("narrow",),
)
REPORT_SHEET = "report"  # of reports alone
STYLES = Path(__file__).parents[1] / "assets" / "styles"
SYSTEM = ("ui-sans-serif", "system-ui", "sans-serif")
SYSTEM_MONO = ("ui-monospace", "Consolas", "monospace")


def page_theme() -> gr.themes.Base:
    """Return the theme; the same object for every launch."""
    look: dict[str, dict[str, Any]] = json.loads(source("assets/theme.json"))
    slate = colors.Color(name="mars-slate", **look["hue"])
    theme = gr.themes.Base(
        primary_hue=slate,
        secondary_hue=slate,
        neutral_hue=slate,
        radius_size=sizes.radius_md,
        spacing_size=sizes.spacing_md,
        text_size=sizes.text_md,
        font=(fonts.LocalFont("IBM Plex Sans", weights=(400, 700)), *SYSTEM),
        font_mono=(fonts.LocalFont("IBM Plex Mono", weights=(400, 700)), *SYSTEM_MONO),
    )
    colours = look["colours"].items()
    dark = {f"{name}_dark": dark for name, (_, dark) in colours}
    return theme.set(**{name: light for name, (light, _) in colours}, **dark, **look["sizes"])


def page_css() -> str:
    """Return the palette as variables, the look of reports, then the style sheets."""
    others = {*BEFORE, *AFTER, *LAST, REPORT_SHEET}
    tabs = sorted({path.stem for path in STYLES.glob("*.css")} - others)
    first, last = map(_sheets, (BEFORE, (*AFTER, *tabs, *LAST)))
    return css_variables() + "\n".join(
        [*map(sheet, SHEETS), *first, asset("tokens.css", "token_view"), *last]
    )


def _sheets(names: Iterable[str]) -> list[str]:
    return [asset(f"styles/{name}.css") for name in names]
