"""The panel "Your data" on top of History: its components and events. What they do is in
actions.py."""

from __future__ import annotations

import gradio as gr

from ui.jobs.services import Services
from ui.kit.events import PRIVATE, event_data
from ui.kit.gradio_compat import check_sign_in
from ui.kit.panel import panel_component
from ui.tabs.account.actions import NOBODY, act, look

# the link of a panel that is displayed again may have ended
ENDED = "() => { document.dispatchEvent(new CustomEvent('mars:account')); }"
CLOSE = """() => {
  document.dispatchEvent(new CustomEvent('mars:account'));
  if (document.querySelector('#account [data-state="done"]')) document.querySelector('#history-close')?.click();
}"""  # what is open may be gone; closing it reads the list anew


class AccountPanel:
    """Of a public page."""

    def __init__(self, services: Services) -> None:
        self.services = services
        with gr.Column(elem_classes=["mars-panel", "mars-account-panel"]):
            self.panel = panel_component(NOBODY.html(), elem_id="account")
            if services.sign_in:
                sign_in_button()

    def wire(self, tab: gr.Tab) -> None:
        """Read whenever ``tab`` is chosen."""
        panel = self.panel
        gr.on([tab.select, panel.input], self.show, None, panel, **PRIVATE)
        for action, then in ((panel.select, ENDED), (panel.delete, CLOSE)):
            changed = action(self.change, None, panel, trigger_mode="multiple", **PRIVATE)
            changed.then(None, js=then, **PRIVATE)

    def show(self, request: gr.Request) -> str:
        return look(self.services, request).html()

    def change(self, event: gr.EventData, request: gr.Request) -> str:
        return act(self.services, request, event_data(event)).html()


def sign_in_button() -> gr.LoginButton:
    """Build Gradio's button to sign in with Hugging Face, on a Space that has it; once somebody has
    signed in, it signs out. Nothing of an account but subject and name is used."""
    with gr.Row(elem_classes=["mars-account-sign"]):
        button = gr.LoginButton(
            "Sign in with Hugging Face", "Sign out ({})", size="sm", elem_id="mine-sign-in"
        )
    check_sign_in(button)
    return button
