"""Sign in with Hugging Face, on a Space that has it. Gradio's own button and routes; nothing of an account but subject and name is used."""

from __future__ import annotations

import gradio as gr
from gradio.context import Context


def sign_in_button() -> gr.LoginButton:
    """Gradio's button; once somebody has signed in, it signs out. Its events are none of the endpoints for programs."""
    with gr.Row(elem_classes=["mars-mine-sign"]):
        button = gr.LoginButton("Sign in with Hugging Face", "Sign out ({})", size="sm", elem_id="mine-sign-in")
    button.load_event_to_attach = None  # Gradio would attach it as a public endpoint
    page = Context.root_block
    assert page is not None  # a button is made within the blocks of a page
    page.load(button._check_login_status, None, button, api_visibility="private", show_progress="hidden", queue=False)
    return button
