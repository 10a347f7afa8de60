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
from ui.settings.form import PairForm, read_thinking
from ui.settings.presets import presets_for
from ui.settings.rules import RuleFields
from ui.sharing import consent_line
from ui.tabs.settings import SettingsPanel

NOT_LOADED = "The token count appears once the models are loaded."
COUNTED = ("prompt", "system", "chat", "thinking", "pair", "own_target", "own_draft", "own_head")


@dataclass(frozen=True, slots=True)
class Ask:
    """The settings and what is no field of them."""

    panel: SettingsPanel
    run: gr.Button
    stop: gr.Button
    again: gr.Button
    tokens: gr.HTML

    @property
    def by_name(self) -> dict[str, Any]:
        return self.panel.by_name

    @property
    def counted(self) -> list[Any]:
        """What decides how long the prompt is in tokens."""
        return [self.by_name[name] for name in COUNTED]


def build_ask(services: Services) -> Ask:
    """The components, in their panel."""
    panel, buttons = SettingsPanel(services), list[gr.Button]()

    def action() -> None:
        with gr.Column(elem_classes=["mars-action"], min_width=150):
            buttons.append(gr.Button("Compare", variant="primary", elem_id="compare"))
            buttons.append(gr.Button("Stop", variant="stop", visible=False, elem_id="stop"))
            buttons.append(gr.Button("Again with a new seed", size="sm", elem_id="again"))

    with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
        panel.prompt("What should the models write?")
        tokens = text_panel("mars-page mars-prompt-tokens", NOT_LOADED)
        panel.bar(action)
        consent_line(services)
        panel.own_pair()
        panel.note()
        panel.advanced("Advanced: system prompt, chat template, sampling, draft mode")
    run, stop, again = buttons
    return Ask(panel, run, stop, again, tokens)


def wire_ask(services: Services, ask: Ask, rules: tuple[RuleFields, ...], preset: gr.Dropdown) -> None:
    """What the choice of a pair, of an example or a changed prompt changes."""

    def follow(spec: Any, _preset: str | None, *lanes: str) -> tuple[Any, ...]:
        presets = gr.update(choices=presets_for(spec), value=None)
        return presets, *(lane_drafter_for_pair(spec, lane) for lane in lanes)

    ask.panel.wire(follow, (preset, *(rule.draft["drafter"] for rule in rules)))
    changes: list[Callable[..., Any]] = [field.change for field in ask.counted]
    gr.on(changes, count_prompt(services), ask.counted, ask.tokens, trigger_mode="always_last", **PRIVATE)


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
