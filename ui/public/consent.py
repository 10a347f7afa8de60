"""The line beside Compare that says what is stored of what is typed."""

from __future__ import annotations

import gradio as gr

from evaluation.format import plural
from ui.kit.panel import panel_component, render
from ui.services import Services


def consent_text(days: int | None) -> str:
    """What leads to the button. ``days``: after which everything is removed; None: never by itself."""
    time = f"for {plural(days, 'day')}" if days else "until you delete them"
    return (
        f"Prompts and outputs are stored {time} and can be read by you, by whoever runs this page, and by those with whom you "
        "share a link: enter no personal data. You can delete them at any time under"
    )


def consent_line(services: Services) -> gr.HTML | None:
    """The line, with a button that opens "Your data"; None on a private page, which has no such line."""
    if not services.public:
        return None
    text = consent_text(services.retention_days)
    html = render("public/consent.html.jinja", text=text)
    return panel_component(html, elem_id="consent", elem_classes=["mars-consent-block"])
