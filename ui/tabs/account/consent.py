"""The line beside Compare that says what becomes of what is typed. Constant text of ours, but for the days."""

from __future__ import annotations

import gradio as gr

from ui.kit.assets import asset
from ui.kit.format import plural
from ui.services import Services


def consent_text(days: int | None) -> str:
    """What leads to the button. ``days``: after which everything is removed; None: never by itself."""
    time = f"for {plural(days, 'day')}" if days else "until you delete them"
    return (
        f"Prompts and outputs are stored {time} and can be read by you, by whoever runs this page, and by those with whom you "
        "share a link: enter no personal data. You can delete them at any time under"
    )


def consent_line(place: Services) -> gr.HTML | None:
    """The line, with a button that opens "Your data"; None on a private page, which has no such line."""
    if not place.public:
        return None
    return gr.HTML(
        value=consent_text(place.retention_days),
        html_template=asset("mine_consent.html"),
        js_on_load=asset("mine_consent.js"),
        apply_default_css=False,
        elem_classes=["mars-consent-block"],
    )
