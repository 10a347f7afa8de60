"""The look of the page as a Gradio theme: calm neutral ground, ink as the one accent, colour left
to the data. Light and dark.

Fonts come with Gradio or with the system; nothing is fetched from anywhere else.
"""

from __future__ import annotations

import gradio as gr
from gradio.themes.utils import colors, fonts, sizes

from evaluation.report.document.render import sheet
from ui.kit.assets import asset
from ui.kit.palette import css_variables

SLATE = colors.Color(
    name="mars-slate",
    c50="#FAFAFB",
    c100="#F3F4F6",
    c200="#E5E7EB",
    c300="#D3D6DC",
    c400="#9CA1AB",
    c500="#6B717C",
    c600="#4E545F",
    c700="#373C46",
    c800="#23272F",
    c900="#191C22",
    c950="#111318",
)
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
    theme = gr.themes.Base(
        primary_hue=SLATE,
        secondary_hue=SLATE,
        neutral_hue=SLATE,
        radius_size=sizes.radius_md,
        spacing_size=sizes.spacing_md,
        text_size=sizes.text_md,
        font=(fonts.LocalFont("IBM Plex Sans", weights=(400, 700)), *SYSTEM),
        font_mono=(fonts.LocalFont("IBM Plex Mono", weights=(400, 700)), *SYSTEM_MONO),
    )
    dark = {f"{name}_dark": dark for name, (_, dark) in _COLOURS.items()}
    return theme.set(**{name: light for name, (light, _) in _COLOURS.items()}, **dark, **_SIZES)


def page_css() -> str:
    """The palette as variables, the look of reports, then the style sheets."""
    first, last = ([asset(f"styles/{name}.css") for name in names] for names in (FIRST, SHEETS))
    return css_variables() + "\n".join(
        [sheet("report.css"), *first, asset("tokens.css", "token_view"), *last]
    )


_COLOURS = {  # light and dark
    "body_background_fill": ("#F6F6F4", "#101216"),
    "body_text_color": ("#1B1E24", "#E6E8EC"),
    "body_text_color_subdued": ("#5A606B", "#A3A9B4"),
    "background_fill_primary": ("#FFFFFF", "#181B20"),
    "background_fill_secondary": ("#FAFAF9", "#14161B"),
    "border_color_primary": ("#E3E3DF", "#2A2E36"),
    "border_color_accent": ("#B9BCC3", "#4A505B"),
    "color_accent_soft": ("#EFEFEC", "#23272F"),
    "link_text_color": ("#1B4F8A", "#8EC1F5"),
    "link_text_color_hover": ("#123A68", "#B6D7FA"),
    "link_text_color_active": ("#1B4F8A", "#8EC1F5"),
    "link_text_color_visited": ("#1B4F8A", "#8EC1F5"),
    "block_background_fill": ("transparent", "transparent"),
    "block_label_background_fill": ("transparent", "transparent"),
    "block_label_text_color": ("*body_text_color_subdued", "*body_text_color_subdued"),
    "block_title_text_color": ("#454B55", "#B4BAC4"),
    "block_info_text_color": ("#5A606B", "#A3A9B4"),
    "input_background_fill": ("#FFFFFF", "#14161B"),
    "input_background_fill_focus": ("#FFFFFF", "#14161B"),
    "input_border_color": ("#CFD0CC", "#363B45"),
    "input_border_color_focus": ("#1B1E24", "#C5CAD3"),
    "input_shadow_focus": (
        "0 0 0 3px rgba(60, 70, 90, 0.14)",
        "0 0 0 3px rgba(200, 210, 230, 0.14)",
    ),
    "input_placeholder_color": ("#767C87", "#858C98"),
    "slider_color": ("#1B1E24", "#D5D9E0"),
    "checkbox_background_color_selected": ("#1B1E24", "#D5D9E0"),
    "checkbox_border_color_selected": ("#1B1E24", "#D5D9E0"),
    "checkbox_label_background_fill": ("transparent", "transparent"),
    "checkbox_label_background_fill_hover": ("#F3F4F6", "#23272F"),
    "checkbox_label_background_fill_selected": ("#EFEFEC", "#23272F"),
    "checkbox_label_border_color": ("#D8D9D5", "#363B45"),
    "button_primary_background_fill": ("#1B1E24", "#ECEEF2"),
    "button_primary_background_fill_hover": ("#353A44", "#FFFFFF"),
    "button_primary_text_color": ("#FFFFFF", "#14161B"),
    "button_primary_text_color_hover": ("#FFFFFF", "#14161B"),
    "button_primary_border_color": ("transparent", "transparent"),
    "button_secondary_background_fill": ("#FFFFFF", "#1E2127"),
    "button_secondary_background_fill_hover": ("#F3F4F2", "#282C34"),
    "button_secondary_border_color": ("#CFD0CC", "#363B45"),
    "button_cancel_background_fill": ("#FFFFFF", "#1E2127"),
    "button_cancel_background_fill_hover": ("#FBEDE9", "#3A2420"),
    "button_cancel_text_color": ("#9A2A12", "#FF9E87"),
    "button_cancel_text_color_hover": ("#9A2A12", "#FF9E87"),
    "button_cancel_border_color": ("#9A2A12", "#FF9E87"),
}
_SIZES = {
    "color_accent": "#1B1E24",
    "block_border_width": "0px",
    "block_padding": "0px",
    "block_title_text_size": "13px",
    "block_title_text_weight": "600",
    "block_info_text_size": "12.5px",
    "layout_gap": "14px",
    "panel_border_width": "0px",
    "input_border_width": "1px",
    "input_radius": "8px",
    "button_border_width": "1px",
    "button_large_radius": "8px",
    "button_small_radius": "8px",
}
