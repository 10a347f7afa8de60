"""The upper half of Compare: the settings, the buttons, and how long the prompt is in tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.format import count, plural
from mars_core.models import ModelError
from mars_core.types import PromptConfig
from ui.jobs.admission import chosen_pair
from ui.jobs.driver import start_session
from ui.jobs.services import Services
from ui.kit.components import text_panel
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE
from ui.settings.drafter import lane_drafter_for_pair
from ui.settings.form import PairForm, read_thinking, settings_label
from ui.settings.presets import presets_for
from ui.sharing import consent_line
from ui.tabs.settings import FormFields, SettingsPanel

NOT_LOADED = "The token count appears once the models are loaded."
COUNTED = ("prompt", "system", "chat", "thinking", "pair", "own_target", "own_draft", "own_head")


@dataclass(frozen=True, slots=True)
class Ask:
    """The settings, the buttons and the token count."""

    panel: SettingsPanel
    preset: gr.Dropdown
    run: gr.Button
    stop: gr.Button
    again: gr.Button
    tokens: gr.HTML
    drawer: gr.Accordion  # of all settings; its label sums them up

    @property
    def by_name(self) -> dict[str, Any]:
        return self.panel.by_name

    @property
    def counted(self) -> list[Any]:
        """What decides how long the prompt is in tokens."""
        return [self.by_name[name] for name in COUNTED]


def build_ask(services: Services, lanes: Callable[[], None]) -> Ask:
    """The components, in their panel. ``lanes`` adds the fields of the lanes to the settings."""
    panel = SettingsPanel(services, repeats=0)
    with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
        with gr.Row(elem_classes=["mars-ask-line"]):
            panel.prompt("What should the models write?")
            run = gr.Button("Compare", variant="primary", elem_id="compare", min_width=130, scale=0)
            stop = gr.Button("Stop", variant="stop", elem_id="stop", min_width=130, scale=0)
            preset = gr.Dropdown(
                presets_for(services.catalog[0]), value="", label="Preset", elem_id="preset", min_width=250, scale=0
            )
            again = gr.Button("New seed", elem_id="again", min_width=100, scale=0)
        with gr.Row(elem_classes=["mars-ask-line"]):
            panel.examples()
            tokens = text_panel("mars-page mars-prompt-tokens", NOT_LOADED)
        consent_line(services)
        with gr.Accordion("Settings", open=False, elem_id="settings", elem_classes=["mars-drawer"]) as drawer:
            panel.bar()
            panel.own_pair()
            panel.note()
            lanes()
            panel.advanced("Advanced: system prompt, chat template, sampling, draft mode")
    return Ask(panel, preset, run, stop, again, tokens, drawer)


def wire_ask(services: Services, ask: Ask, fields: FormFields) -> None:
    """What the choice of a pair, of an example or a changed prompt changes; the label of the settings."""
    preset, rules = ask.preset, fields.rules

    def follow(spec: Any, _preset: str | None, *lanes: str) -> tuple[Any, ...]:
        presets = gr.update(choices=presets_for(spec), value="")
        return presets, *(lane_drafter_for_pair(spec, lane) for lane in lanes)

    ask.panel.wire(follow, (preset, *(rule.draft["drafter"] for rule in rules)))
    changes: list[Callable[..., Any]] = [field.change for field in ask.counted]
    gr.on(changes, count_prompt(services), ask.counted, ask.tokens, trigger_mode="always_last", **PRIVATE)

    ask.drawer.collapse(**label_event(services, ask, fields))
    ask.drawer.expand(lambda: gr.update(label="Settings"), None, ask.drawer, **PRIVATE)


def label_event(services: Services, ask: Ask, fields: FormFields) -> dict[str, Any]:
    """Writes the label of the closed settings; for everything that changes a field in there."""

    def label(*values: Any) -> Any:
        return gr.update(label=settings_label(fields.form(values), services.catalog))

    return {"fn": label, "inputs": fields.inputs, "outputs": ask.drawer, **PRIVATE}


def count_prompt(services: Services) -> Callable[..., str]:
    """``prompt_length`` of the fields ``COUNTED``."""
    return lambda *values: prompt_length(services, *values)


def prompt_length(
    services: Services, prompt: str | None, system: str | None, chat: bool, thinking: str, pair: str, *own: str | None
) -> str:
    """How long the prompt is in tokens and what is left of the context; the pair must be in memory for that."""
    try:
        form = PairForm(pair, *(text or "" for text in own))
        spec = chosen_pair(services, form)
        if not (prompt or "").strip():
            return "The prompt is empty."
        services.limits.check_prompt(prompt or "", system or "")
        if spec not in services.pool.loaded():
            return NOT_LOADED
        loaded = services.pool.get(spec)
        config = PromptConfig(prompt or "", system=system or "", chat=bool(chat), thinking=read_thinking(thinking))
        length = start_session(loaded).count_tokens(config)
    except (ValueError, ModelError) as error:
        return error_message(error, public=services.public)
    templated = " with the chat template" if chat and loaded.tokenizer.chat_template else ""
    room = max(0, loaded.context - length)
    return (
        f"{plural(length, 'token')}{templated}; {count(room)} new ones fit into the context of {count(loaded.context)}."
    )
