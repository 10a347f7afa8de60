"""Sign in with Hugging Face, on a Space that has it. Gradio's own button and routes; nothing of an account but subject and name is used."""

from __future__ import annotations

import gradio as gr

from ui.kit.gradio_compat import check_sign_in


def sign_in_button() -> gr.LoginButton:
    """Gradio's button; once somebody has signed in, it signs out. Its events are none of the endpoints for programs."""
    with gr.Row(elem_classes=["mars-mine-sign"]):
        button = gr.LoginButton("Sign in with Hugging Face", "Sign out ({})", size="sm", elem_id="mine-sign-in")
    check_sign_in(button)
    return button
