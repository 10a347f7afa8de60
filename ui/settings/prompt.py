"""The prompt, its examples and a new seed, of the tabs that run one prompt."""

from __future__ import annotations

import secrets

import gradio as gr

from mars_core.models import PairSpec
from mars_core.models.catalog import GENERAL_PROMPTS
from ui.jobs.services import Services
from ui.kit.events import LATEST, event_data
from ui.settings.panel import SettingsPanel
from ui.settings.values import EnteredValues, parse

LONGEST = 128  # new tokens, unless something else is requested
SEEDS = 2**31  # from which a new one is drawn


def prompt_field(services: Services, name: str, placeholder: str) -> gr.Textbox:
    """Build a field that grows to three lines, so that a long prompt leaves the result in sight."""
    return gr.Textbox(
        services.catalog[0].prompts[0],
        label="Prompt",
        lines=1,
        max_lines=3,
        elem_id=name,
        scale=5,
        min_width=300,
        placeholder=placeholder,
    )


def examples_of(spec: PairSpec | None) -> tuple[str, ...]:
    """Example prompts of a pair; None: a custom one."""
    return tuple(spec.prompts if spec else GENERAL_PROMPTS)


def wire_examples(chips: gr.HTML, prompt: gr.Textbox, panel: SettingsPanel) -> None:

    def write(value: str | None, event: gr.EventData) -> str:
        prompts, index = examples_of(panel.spec(parse(value))), event_data(event).get("index")
        return (
            prompts[index] if isinstance(index, int) and 0 <= index < len(prompts) else prompts[0]
        )

    chips.select(write, panel.component, prompt, **LATEST)


def with_new_seed(values: EnteredValues) -> EnteredValues:
    return {**values, "seed": secrets.randbelow(SEEDS)}
