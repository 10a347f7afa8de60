"""The upper half of Compare: the prompt, the buttons, the settings, and how long the prompt is in tokens."""

from __future__ import annotations

from typing import Any

import gradio as gr

from evaluation.format import count, plural
from mars_core.models import ModelError
from mars_core.types import PromptConfig
from ui.jobs.admission import chosen_pair
from ui.jobs.driver import start_session
from ui.jobs.services import Services
from ui.kit.components import chips_component, chips_html, text_panel
from ui.kit.events import PRIVATE
from ui.settings.fields import Fields, Values, form_values, parse, read_form
from ui.settings.form import FIRST_LANES, Form, read_drafter, read_thinking, settings_label
from ui.settings.panel import SettingsPanel
from ui.settings.presets import presets_for
from ui.settings.prompt import LONGEST, examples_of, prompt_field, wire_examples
from ui.sharing import consent_line

NOT_LOADED = "The token count appears once the models are loaded."
COUNTED = ("pair", "own_target", "own_draft", "own_head", "system", "chat", "thinking")  # what it depends on


def _describe(own: Fields) -> None:
    own.bar(LONGEST)
    own.number("repeats", "Runs per lane (0: auto)", 0)
    own.advanced()


class Ask:
    """The components, in their panel. ``inputs``: what ``read_form`` reads."""

    def __init__(self, services: Services) -> None:
        self.services, first = services, services.catalog[0]
        with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
            with gr.Row(elem_classes=["mars-ask-line"]):
                self.prompt = prompt_field(services, "prompt", "What should the models write?")
                self.run = gr.Button("Compare", variant="primary", elem_id="compare", min_width=130, scale=0)
                self.stop = gr.Button("Stop", variant="stop", elem_id="stop", min_width=130, scale=0)
                presets = presets_for(first)
                self.preset = gr.Dropdown(presets, value="", label="Preset", elem_id="preset", min_width=250, scale=0)
                self.again = gr.Button("New seed", elem_id="again", min_width=100, scale=0)
            with gr.Row(elem_classes=["mars-ask-line"]):
                self.chips = chips_component(first.prompts)
                self.tokens = text_panel("mars-page mars-prompt-tokens", NOT_LOADED)
            consent_line(services)
            self.panel = SettingsPanel(services, "compare", _describe, lanes=FIRST_LANES, label=self._label)
        self.inputs: list[Any] = [self.prompt, self.panel.component]

    def _label(self, values: Values) -> str:
        return settings_label(read_form("", values), self.services.catalog)

    def fill(self, form: Form) -> dict[Any, Any]:
        return {self.prompt: form.prompt, self.panel.component: self.panel.value(form_values(form))}

    def wire(self) -> None:
        """What the choice of a pair, of an example or a changed prompt changes."""
        self.panel.wire(self._follow, [self.prompt], [self.preset, self.chips, self.tokens])
        wire_examples(self.chips, self.prompt, self.panel)
        self.prompt.change(self.length, self.inputs, self.tokens, trigger_mode="always_last", **PRIVATE)

    def _follow(self, changed: str, values: Values, prompt: str | None) -> tuple[Any, ...]:
        tokens = prompt_length(self.services, read_form(prompt, values)) if changed in COUNTED else gr.update()
        if changed != "pair":
            return gr.update(), gr.update(), tokens
        spec = self.panel.spec(values)
        return gr.update(choices=presets_for(spec), value=""), chips_html(examples_of(spec)), tokens

    def measured(self, prompt: str | None, value: str | None) -> tuple[str, str]:
        """What is known once the models are loaded: what thresholds mean, and the length of the prompt."""
        return self.panel.value(parse(value)), self.length(prompt, value)

    def length(self, prompt: str | None, value: str | None) -> str:
        """Of the prompt, with what the panel asks for."""
        return prompt_length(self.services, read_form(prompt, parse(value)))


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
        length, limit = start_session(loaded).count_tokens(config), loaded.limit(read_drafter(form))
    except (ValueError, ModelError) as error:
        return services.sentence(error)
    templated = " with the chat template" if form.chat and loaded.tokenizer.chat_template else ""
    return (
        f"{plural(length, 'token')}{templated}; {count(max(0, limit.tokens - length))} left of {count(limit.tokens)}."
    )
