"""The upper half of Compare: prompt, examples, pair, drafter, numbers, presets; and what follows from them at once, without a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from mars_core.models import ModelError, PairSpec
from mars_core.models.catalog import GENERAL_PROMPTS
from mars_core.types import PromptConfig
from ui.jobs.admission import chosen_pair
from ui.kit.components import chips_component, chips_html, text_component
from ui.kit.events import event_data
from ui.kit.format import count, plural
from ui.kit.told import told
from ui.public.consent import consent_line
from ui.services import Services
from ui.settings.drafter_fields import (
    drafter_chooser,
    for_pair,
    mode_field,
    number_field,
    thinking_field,
    tree_fields,
    wire_drafter,
)
from ui.settings.fields import Fields
from ui.settings.form import CUSTOM, Form, catalog_pair, read_thinking
from ui.settings.lane_draft import draft_for_pair
from ui.settings.limits_line import limits_component
from ui.settings.pair_note import note_html, pair_note, sentence_html
from ui.settings.presets import presets_for
from ui.tabs.compare.handlers import start_session

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


NOT_LOADED = "Its length in tokens is told once this pair is in memory."
COUNTED = ("prompt", "system", "chat", "thinking", "pair", "own_target", "own_draft", "own_head")


@dataclass(frozen=True, slots=True)
class Ask:
    """The fields by name of Form, and what is no field of it."""

    by_name: dict[str, Any]
    run: gr.Button
    again: gr.Button
    stop: gr.Button
    own: gr.Row
    note: gr.HTML
    chips: gr.HTML
    tokens: gr.HTML

    @property
    def counted(self) -> list[Any]:
        """What decides how long the prompt is in tokens."""
        return [self.by_name[name] for name in COUNTED]


def build_ask(services: Services) -> Ask:
    """The components, in their panel."""
    by_name: dict[str, Any] = {}
    first = services.catalog[0]
    with gr.Column(elem_classes=["mars-panel", "mars-ask"]):
        by_name["prompt"] = gr.Textbox(
            first.prompts[0],
            label="Prompt",
            lines=2,
            max_lines=12,
            elem_id="prompt",
            placeholder="What should the models write?",
        )
        chips = chips_component(first.prompts)
        tokens = text_component("mars-page mars-prompt-tokens", NOT_LOADED)
        run, again, stop = _bar(services, by_name)
        limits_component(services.limits)
        consent_line(services)
        own = _own(by_name)
        note = pair_note(services.pool, first, public=services.public)
        _advanced(by_name)
    return Ask(by_name, run, again, stop, own, note, chips, tokens)


def _bar(services: Services, by_name: dict[str, Any]) -> tuple[gr.Button, gr.Button, gr.Button]:
    first = services.catalog[0]
    with gr.Row(elem_classes=["mars-bar"]):
        choices = pair_choices(services)
        by_name["pair"] = gr.Dropdown(
            choices, value=first.key, label="Model pair", elem_classes=["mars-bar-pair"], min_width=200
        )
        by_name["drafter"] = drafter_chooser(first)
        by_name["k"] = number_field("K, drafted tokens", 5, 1, most=services.limits.k)
        by_name["temperature"] = number_field("Temperature", 1.0, 0.1)
        by_name["max_new_tokens"] = number_field("Max new tokens", 128, 16, most=services.limits.new_tokens)
        by_name["seed"] = number_field("Seed", 0, 1)
        with gr.Column(elem_classes=["mars-action"], min_width=150):
            run = gr.Button("Compare", variant="primary", elem_id="compare")
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="stop")
            again = gr.Button("Again with a new seed", size="sm", elem_id="again")
    by_name.update(tree_fields(first, services.limits))
    return run, again, stop


def pair_choices(services: Services) -> list[tuple[str, str]]:
    """Titles and keys of the pairs, and what is none of the list, where it may be run."""
    own = [("Own folders or Hub ids", CUSTOM)] if services.own_models else []
    return [(spec.title, spec.key) for spec in services.catalog] + own


def _own(by_name: dict[str, Any]) -> gr.Row:
    own: gr.Row
    with gr.Row(visible=False, elem_classes=["mars-own"]) as own:
        by_name["own_target"] = gr.Textbox(
            label="Target", placeholder="owner/name, owner/name@revision, or a folder", elem_id="own-target"
        )
        by_name["own_draft"] = gr.Textbox(
            label="Draft model (may be empty)", placeholder="shares the target's vocabulary", elem_id="own-draft"
        )
        by_name["own_head"] = gr.Textbox(
            label="EAGLE-3 head (may be empty)", placeholder="trained for the target: Hub id or folder", elem_id="own-head"
        )  # fmt: skip
    return own


def _advanced(by_name: dict[str, Any]) -> None:
    with gr.Accordion(
        "Advanced: system prompt, chat template, sampling, draft mode", open=False, elem_classes=["mars-advanced"]
    ):
        with gr.Row():
            by_name["top_k"] = number_field("Top-k (0: off)", 0, 1)
            by_name["top_p"] = number_field("Top-p (1: off)", 1.0, 0.05)
            by_name["stop"] = gr.Textbox(label="Stop strings, one a line", lines=1, max_lines=4, min_width=200)
        with gr.Row():
            by_name["system"] = gr.Textbox(label="System prompt", lines=1, max_lines=6, scale=3, elem_id="system")
            by_name["chat"] = gr.Checkbox(
                True, label="Use the chat template", info="Where the tokenizer has one.", scale=1
            )
            by_name["thinking"] = thinking_field()
        by_name["mode"] = mode_field()


def wire_ask(services: Services, ask: Ask, fields: Fields, preset: gr.Dropdown) -> None:
    """What the choice of a pair, of an example or a changed prompt changes."""
    wire_drafter(ask.by_name)
    _wire_pair(services, ask, fields, preset)
    _wire_count(services, ask)


def _wire_pair(services: Services, ask: Ask, fields: Fields, preset: gr.Dropdown) -> None:
    pair, drafter, prompt = (ask.by_name[name] for name in ("pair", "drafter", "prompt"))
    own = [ask.by_name[name] for name in ("own_target", "own_draft", "own_head")]
    lane_drafters = [head.draft["drafter"] for head in fields.heads]

    def chosen(key: str) -> PairSpec | None:
        return catalog_pair(key, services.catalog) if key != CUSTOM else None

    def choose(key: str, kind: str, *lanes: str) -> tuple[Any, ...]:
        spec = chosen(key)
        examples = chips_html(spec.prompts if spec else GENERAL_PROMPTS)
        presets = gr.update(choices=presets_for(spec), value=None)
        drafters = [draft_for_pair(spec, lane) for lane in lanes]
        note = note_html(services.pool, spec, public=services.public)
        return gr.update(visible=key == CUSTOM), examples, note, presets, *drafters, *for_pair(spec, kind)

    def own_note(target: str, draft: str, head: str) -> str:
        try:
            spec = chosen_pair(services, _form(own_target=target, own_draft=draft, own_head=head))
            return note_html(services.pool, spec, public=services.public)
        except ValueError as error:
            return sentence_html(str(error))

    def take(key: str, event: gr.EventData) -> str:
        spec = chosen(key)
        prompts = spec.prompts if spec else GENERAL_PROMPTS
        index = event_data(event).get("index")
        return prompts[index] if isinstance(index, int) and 0 <= index < len(prompts) else prompts[0]

    tree = [ask.by_name[name] for name in ("tree_tokens", "tree_depth", "tree_top_k")]
    changed = [ask.own, ask.chips, ask.note, preset, *lane_drafters, drafter, *tree]
    pair.change(choose, [pair, drafter, *lane_drafters], changed, **PRIVATE)
    gr.on([field.blur for field in own], own_note, own, ask.note, **PRIVATE)
    ask.chips.select(take, pair, prompt, **PRIVATE)


def _form(**given: Any) -> Form:
    return Form(prompt="", pair=CUSTOM, temperature=0, max_new_tokens=0, seed=0, lanes=(), **given)


def _wire_count(services: Services, ask: Ask) -> None:
    gr.on(
        [field.change for field in ask.counted],
        count_prompt(services),
        ask.counted,
        ask.tokens,
        trigger_mode="always_last",
        **PRIVATE,
    )


def count_prompt(services: Services) -> Callable[..., str]:
    """``prompt_length`` of the fields ``counted``."""
    return lambda *values: prompt_length(services, *values)


def prompt_length(
    services: Services,
    prompt: str,
    system: str,
    chat: bool,
    thinking: str,
    pair: str,
    target: str,
    draft: str,
    head: str,
) -> str:
    """How long the prompt is in tokens and what is left of the context; the pair must be in memory for that."""
    try:
        form = _form(own_target=target or "", own_draft=draft or "", own_head=head or "")
        spec = chosen_pair(services, replace(form, pair=pair))
        if not (prompt or "").strip():
            return "The prompt is empty."
        services.limits.check_prompt(prompt, system or "")
        if spec not in services.pool.loaded():
            return NOT_LOADED
        loaded = services.pool.get(spec)
        asked = PromptConfig(prompt, system=system or "", chat=bool(chat), thinking=read_thinking(thinking))
        length = start_session(loaded).count_tokens(asked)
    except (ValueError, ModelError) as error:
        return told(error, public=services.public)
    templated = " with the chat template" if chat and loaded.tokenizer.chat_template else ""
    room = max(0, loaded.context - length)
    return (
        f"{plural(length, 'token')}{templated}; {count(room)} new ones fit into the context of {count(loaded.context)}."
    )
