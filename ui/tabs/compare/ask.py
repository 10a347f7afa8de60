"""The upper half of Compare: the prompt, the buttons, the settings, and how long the prompt is in tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.format import count, plural
from mars_core.models import ModelError, PairSpec
from mars_core.types import PromptConfig
from ui.jobs.admission import chosen_pair
from ui.jobs.driver import start_session
from ui.jobs.services import Services
from ui.kit.components import chips_component, chips_html, text_panel
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE
from ui.settings.fields import Fields, Values, parse
from ui.settings.form import FIRST_LANES, Form, read_thinking, settings_label
from ui.settings.panel import SettingsPanel, form_values, pair_choices, read_form
from ui.settings.presets import presets_for
from ui.settings.prompt import LONGEST, examples_of, prompt_field, wire_examples
from ui.sharing import consent_line

NOT_LOADED = "The token count appears once the models are loaded."
COUNTED = ("pair", "own_target", "own_draft", "own_head", "system", "chat", "thinking")  # what it depends on


@dataclass(frozen=True, slots=True)
class Ask:
    """The prompt, the settings, the buttons and the token count."""

    prompt: gr.Textbox
    chips: gr.HTML
    panel: SettingsPanel
    preset: gr.Dropdown
    run: gr.Button
    stop: gr.Button
    again: gr.Button
    tokens: gr.HTML

    @property
    def inputs(self) -> list[Any]:
        """What ``read_form`` reads."""
        return [self.prompt, self.panel.component]

    def fill(self, form: Form) -> dict[Any, Any]:
        return {self.prompt: form.prompt, self.panel.component: self.panel.value(form_values(form))}


def build_ask(services: Services) -> Ask:
    """The components, in their panel."""
    limits, first = services.limits, services.catalog[0]

    def describe(own: Fields, spec: PairSpec | None) -> None:
        own.bar(pair_choices(services), spec, limits, lists=False, longest=LONGEST)
        own.number("repeats", "Runs per lane (0: auto)", 0)
        own.advanced()

    def label(values: Values) -> str:
        return settings_label(read_form("", values), services.catalog)

    with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
        with gr.Row(elem_classes=["mars-ask-line"]):
            prompt = prompt_field(services, "prompt", "What should the models write?")
            run = gr.Button("Compare", variant="primary", elem_id="compare", min_width=130, scale=0)
            stop = gr.Button("Stop", variant="stop", elem_id="stop", min_width=130, scale=0)
            preset = gr.Dropdown(presets_for(first), value="", label="Preset", elem_id="preset", min_width=250, scale=0)
            again = gr.Button("New seed", elem_id="again", min_width=100, scale=0)
        with gr.Row(elem_classes=["mars-ask-line"]):
            chips = chips_component(first.prompts)
            tokens = text_panel("mars-page mars-prompt-tokens", NOT_LOADED)
        consent_line(services)
        panel = SettingsPanel(services, "compare", describe, lanes=FIRST_LANES, label=label)
    return Ask(prompt, chips, panel, preset, run, stop, again, tokens)


def wire_ask(services: Services, ask: Ask) -> None:
    """What the choice of a pair, of an example or a changed prompt changes."""

    def follow(changed: str, values: Values, prompt: str | None) -> tuple[Any, ...]:
        tokens = prompt_length(services, read_form(prompt, values)) if changed in COUNTED else gr.update()
        if changed != "pair":
            return gr.update(), gr.update(), tokens
        spec = ask.panel.spec(values)
        return gr.update(choices=presets_for(spec), value=""), chips_html(examples_of(spec)), tokens

    ask.panel.wire(follow, [ask.prompt], [ask.preset, ask.chips, ask.tokens])
    wire_examples(ask.chips, ask.prompt, ask.panel)
    ask.prompt.change(count_prompt(services), ask.inputs, ask.tokens, trigger_mode="always_last", **PRIVATE)


def count_prompt(services: Services) -> Callable[..., str]:
    """``prompt_length`` of the prompt and the panel."""
    return lambda prompt, value: prompt_length(services, read_form(prompt, parse(value)))


def prompt_length(services: Services, form: Form) -> str:
    """How long the prompt is in tokens and what is left of the context; the pair must be in memory for that."""
    try:
        spec = chosen_pair(services, form)
        if not form.prompt.strip():
            return "The prompt is empty."
        services.limits.check_prompt(form.prompt, form.system)
        if spec not in services.pool.loaded():
            return NOT_LOADED
        loaded = services.pool.get(spec)
        config = PromptConfig(form.prompt, system=form.system, chat=form.chat, thinking=read_thinking(form.thinking))
        length = start_session(loaded).count_tokens(config)
    except (ValueError, ModelError) as error:
        return error_message(error, public=services.public)
    templated = " with the chat template" if form.chat and loaded.tokenizer.chat_template else ""
    room = max(0, loaded.context - length)
    return (
        f"{plural(length, 'token')}{templated}; {count(room)} new ones fit into the context of {count(loaded.context)}."
    )
