"""What is asked on Compare: the prompt, the buttons, the settings, and how long the prompt is in
tokens; and the field of a follow-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from display.format import count, plural, shorten
from display.sources import to_json
from evaluation.conversation import HISTORIES
from mars_core.demo.words import unknown_words
from mars_core.drafting import context_limit
from mars_core.models import BUNDLED_PAIR, ModelError
from mars_core.settings import Drafts
from mars_core.settings.setting import kinds
from ui.jobs.admission import chosen_pair
from ui.jobs.driver import start_session
from ui.jobs.services import Services
from ui.jobs.stop_button import StopButton
from ui.kit.components import chips_component, chips_html, text_panel
from ui.kit.events import LATEST, PRIVATE, Updates
from ui.settings.fields import Fields
from ui.settings.panel import SettingsPanel
from ui.settings.parameters import presets_for
from ui.settings.prompt import LONGEST, examples_of, prompt_field, wire_examples
from ui.settings.values import (
    FIRST_LANES,
    MODELS,
    EnteredValues,
    parse,
    read_settings,
    settings_label,
)
from ui.sharing import consent_line

CHANGED = "() => document.dispatchEvent(new Event('mars:settings'))"  # for request.js
NOT_LOADED = "The token count appears once the models are loaded."
FOLLOW_UP, AWAY = ("mars-panel", "mars-prompt-panel-line"), "mars-away"
LONGEST_READ = 2_000  # characters of a prompt whose words are looked up
COUNTED = ("pair", *MODELS, "system", "chat", "thinking")  # what it depends on


def _describe(fields: Fields) -> None:
    fields.run(LONGEST)


class PromptPanel:
    """The components, in their panel. ``inputs``: prompt and values."""

    def __init__(self, services: Services) -> None:
        self.services, first = services, services.catalog[0]
        # for what the bundled pair cannot answer, where this page offers both
        others = [spec for spec in services.catalog if spec != BUNDLED_PAIR]
        self.other_pair = others[0] if others and BUNDLED_PAIR in services.catalog else None
        with gr.Column(elem_classes=["mars-panel", "mars-prompt-panel"]):
            with gr.Row(elem_classes=["mars-prompt-panel-line"]):
                self.prompt = prompt_field(services, "prompt", "What should the models write?")
                self.run = gr.Button(
                    "Compare", variant="primary", elem_id="compare", min_width=130, scale=0
                )
                self.stop = StopButton(services, elem_id="stop", min_width=130, scale=0)
                presets = presets_for(first)
                self.preset = gr.Dropdown(
                    presets, value="", label="Preset", elem_id="preset", min_width=250, scale=0
                )
                self.again = gr.Button(
                    "New seed", elem_id="again", size="md", min_width=100, scale=0
                )
            with gr.Row(elem_classes=["mars-prompt-panel-line", "mars-prompt-examples"]):
                self.chips = chips_component(first.prompts)
                self.tokens = text_panel("mars-page mars-prompt-tokens", NOT_LOADED)
            self.other = gr.Button(visible=False, size="sm", elem_id="other-pair", scale=0)
            consent_line(services)
            self.panel = SettingsPanel(
                services,
                "compare",
                _describe,
                lanes=FIRST_LANES,
                label=self._label,
            )
        self.inputs: list[Any] = [self.prompt, self.panel.component]
        self.below: list[Any] = [self.tokens, self.other]
        self.followed: list[Any] = [self.preset, self.chips, *self.below]

    def _label(self, values: EnteredValues) -> str:
        return settings_label(values, self.services.catalog, self.services.accelerator)

    def fill(self, values: EnteredValues, prompt: str | None) -> Updates:
        """Fill in the values, the prompt unless it is None, and what follows from the pair."""
        changed: Updates = {} if prompt is None else {self.prompt: prompt}
        changed |= {self.panel.component: self.panel.value(values)}
        return changed | self._follow(["pair"], values, prompt)

    def wire(self) -> None:
        """Wire what the choice of a pair, of an example or a changed prompt changes."""
        self.panel.wire(self._follow, [self.prompt], self.followed)
        wire_examples(self.chips, self.prompt, self.panel)
        self.stop.wire()
        self.prompt.change(self.about, self.inputs, self.below, **LATEST)
        self.prompt.change(None, js=CHANGED, **PRIVATE)
        self.other.click(
            self.switch, self.inputs, [self.panel.component, *self.followed], **PRIVATE
        )

    def _follow(
        self, changed: Sequence[object], values: EnteredValues, prompt: str | None
    ) -> Updates:
        updates: Updates = {}
        if any(name in COUNTED for name in changed):
            updates = self._about(prompt or "", values)
        if "pair" in changed:
            spec = self.panel.spec(values)
            updates[self.preset] = gr.update(choices=presets_for(spec), value="")
            updates[self.chips] = chips_html(examples_of(spec))
        return updates

    def about(self, prompt: str | None, value: str | None) -> Updates:
        """Say how long the prompt is, with the values of the panel, and whether another pair knows
        more of its words."""
        return self._about(prompt or "", parse(value))

    def measured(self, prompt: str | None, value: str | None) -> Updates:
        """Say what is known once the models are loaded: what thresholds mean, and the same."""
        return {self.panel.component: self.panel.value(parse(value))} | self.about(prompt, value)

    def _about(self, prompt: str, values: EnteredValues) -> Updates:
        label, other = "", self.other_pair
        if other and values.get("pair") == BUNDLED_PAIR.key:
            words = unknown_words(prompt[:LONGEST_READ])
            named = ", ".join(f"“{shorten(word, 20)}”" for word in words[:3])
            more = " …" if words[3:] else ""
            label = (
                f"This pair never read {named}{more}: ask {other.title} instead" if words else ""
            )
        return {
            self.tokens: prompt_length(self.services, prompt, values),
            self.other: gr.update(value=label, visible=bool(label)),
        }

    def switch(self, prompt: str | None, value: str | None) -> Updates:
        """Switch to the other pair; the prompt stays."""
        pair = {"pair": self.other_pair.key} if self.other_pair else {}
        entered = to_json({"values": parse(value) | pair})
        panel_value, values = self.panel.changed(entered, {"changed": "pair"})
        return {self.panel.component: panel_value} | self._follow(["pair"], values, prompt)


class FollowUp:
    """The field below the texts in which a follow-up is asked, with what the lanes go on from;
    hidden until there is a comparison that can go on."""

    def __init__(self) -> None:
        row = gr.Row(elem_id="follow-up", elem_classes=[*FOLLOW_UP, AWAY], render=False)
        with row as self.row:
            self.question = gr.Textbox(
                label="Follow-up",
                placeholder="Ask a follow-up",
                lines=1,
                max_lines=3,
                elem_id="follow-up-question",
                scale=5,
                min_width=260,
            )
            self.history = gr.Dropdown(
                [(title, name) for name, title in HISTORIES.items()],
                value="own",
                label="The conversation so far",
                elem_id="follow-up-history",
                scale=3,
                min_width=260,
            )
            self.ask = gr.Button("Ask", elem_id="follow-up-ask", min_width=100, scale=0)
        self.outputs: list[Any] = [self.row, self.question]

    def show(self, offered: bool, refused: str = "") -> Updates:
        """``refused``: why the models that are displayed take no follow-up."""
        classes = [*FOLLOW_UP, *([] if offered else [AWAY])]
        return {
            self.row: gr.update(elem_classes=classes),
            self.question: gr.update(info=refused or None, interactive=not refused),
        }


def prompt_length(services: Services, prompt: str, values: EnteredValues) -> str:
    """Return how long the prompt is in tokens and what is left of the context; the pair must be in
    memory for that."""
    try:
        settings = read_settings(values, prompt, *COUNTED, "prompt", *kinds(Drafts))
        spec = chosen_pair(services, settings)
        if not prompt.strip():
            return "The prompt is empty."
        services.limits.check_prompt(prompt, settings.system)
        if spec not in services.pool.loaded():
            return NOT_LOADED
        loaded = services.pool.get(spec)
        length = start_session(loaded).count_tokens(settings.prompt_config)
        limit = context_limit(loaded, settings.config(spec))
    except (ValueError, ModelError) as error:
        return services.sentence(error)
    templated = ""
    if settings.chat:
        known = loaded.tokenizer.chat_template
        templated = " with the chat template" if known else " as they are, for a base model"
    return f"{plural(length, 'token')}{templated}; {count(max(0, limit.tokens - length))} left of {count(limit.tokens)}."
