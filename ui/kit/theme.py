"""The look of the page as a Gradio theme: calm neutral ground, ink as the one accent, colour left
to the data. Light and dark colours are pairs in ui/assets/theme.json.

Fonts come with Gradio or with the system; nothing is fetched from anywhere else.
"""

from __future__ import annotations

import json
from typing import Any

import gradio as gr
from gradio.themes.utils import colors, fonts, sizes

from evaluation.report.document.render import sheet
from ui.kit.assets import asset
from ui.kit.palette import css_variables

FIRST = (
    "page",
    "settings",
    "lanes",
)  # sheets of ui/assets/styles, before that of the token view and after it
SHEETS = ("reader", "details", "figures", "history", "study", "votes", "account", "about", "narrow")
SYSTEM = ("ui-sans-serif", "system-ui", "sans-serif")
SYSTEM_MONO = ("ui-monospace", "Consolas", "monospace")


def page_theme() -> gr.themes.Base:
    """The theme; the same object for every launch."""
    look: dict[str, dict[str, Any]] = json.loads(asset("theme.json"))
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
    """The palette as variables, the look of reports, then the style sheets."""
    first, last = ([asset(f"styles/{name}.css") for name in names] for names in (FIRST, SHEETS))
    return css_variables() + "\n".join(
        [sheet("report.css"), *first, asset("tokens.css", "token_view"), *last]
    )
