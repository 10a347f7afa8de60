"""The fields of the Sweep tab, by name of SweepForm, and what follows from them at once, without a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.study.plan import BASELINE
from mars_core.models import PairSpec
from mars_core.rules import RULES
from ui.jobs.services import Services
from ui.kit.components import text_panel
from ui.kit.events import PRIVATE
from ui.kit.labels import parameter_title, rule_title
from ui.settings.fields import Fields, parse, read
from ui.settings.panel import SettingsPanel, pair_choices
from ui.tabs.sweep.form import SweepForm, estimate, examples, other_parameters, suggestion, write_cases
from ui.tabs.sweep.run import admitted_sweep

FIRST_RULE = "mars"
RULE_CHOICES = [(rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE]
LONGEST = 96  # new tokens, unless something else is asked for


@dataclass(frozen=True, slots=True)
class SweepFields:
    """The fields and the buttons."""

    prompts: gr.Textbox
    panel: SettingsPanel
    run: gr.Button
    stop: gr.Button
    examples: gr.Button
    note: gr.HTML

    @property
    def inputs(self) -> list[Any]:
        """What ``read_sweep`` reads."""
        return [self.prompts, self.panel.component]


def read_sweep(prompts: str | None, value: str | None) -> SweepForm:
    return SweepForm(**read(SweepForm, parse(value)) | {"prompts": prompts or ""})


def build_fields(services: Services) -> SweepFields:
    """The components, in their panel."""

    def describe(own: Fields, spec: PairSpec | None) -> None:
        _rule_fields(own)
        own.bar(pair_choices(services), spec, services.limits, lists=True, longest=LONGEST)
        own.number("repeats", "Repeats", 1)
        own.advanced()

    with gr.Column(elem_classes=["mars-panel", "mars-ask", "mars-sweep-ask"]):
        prompts = gr.Textbox(
            write_cases(examples(0)[:4]), label="Prompts, one a line", lines=5, max_lines=16, elem_id="sweep-prompts",
            info="Write “prompt => answer” to have the texts scored. For prompts of several lines put a line --- between two.",
            placeholder="2 + 2 = => 4",
        )  # fmt: skip
        with gr.Row(elem_classes=["mars-tools"]):
            more = gr.Button("Example problems with answers", size="sm", elem_id="sweep-examples")
        panel = SettingsPanel(services, "sweep", describe)
        with gr.Row(elem_classes=["mars-ask-line"]):
            note = text_panel("mars-page mars-sweep-estimate")
            run = gr.Button("Run the sweep", variant="primary", elem_id="sweep-run", min_width=150, scale=0)
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="sweep-stop", min_width=150, scale=0)
    return SweepFields(prompts, panel, run, stop, more, note)


def _rule_fields(own: Fields) -> None:
    """The rule, which of its parameters is varied, and the others."""
    own.choice("rule", "Rule, against strict", RULE_CHOICES, FIRST_RULE, width=180, redraws=True)
    rule = own.by_name["rule"].value
    parameters = RULES[rule].parameters
    own.choice("parameter", "Parameter", [(parameter_title(each.name), each.name) for each in parameters], redraws=True)
    varied = next((each for each in parameters if each.name == own.by_name["parameter"].value), None)
    own.text(
        "values", "Values", suggestion(varied) if varied else "", placeholder="0.84, 0.9 or 0.8:0.98:0.02", width=260,
        help="" if varied else "This rule has none.",
    )  # fmt: skip
    others = other_parameters(rule, varied.name) if varied else ""
    own.text("others", "Other parameters of the rule", others, placeholder="name = value, …", width=200)


def wire_fields(services: Services, fields: SweepFields) -> None:
    """What the choice of a rule, a pair or examples changes; and the estimate, after every change."""
    fields.panel.wire()
    presses = gr.State(0)

    def more(pressed: int) -> tuple[str, int]:
        return write_cases(examples(pressed)), pressed + 1

    fields.examples.click(more, presses, [fields.prompts, presses], **PRIVATE)
    gr.on([each.change for each in fields.inputs], lambda *values: estimated(services, read_sweep(*values)),
          fields.inputs, fields.note, trigger_mode="always_last", **PRIVATE)  # fmt: skip


def estimated(services: Services, form: SweepForm) -> str:
    """How much the sweep will run, or why it cannot."""
    try:
        _, plan = admitted_sweep(services, form)
        return estimate(plan)
    except ValueError as error:
        return str(error)
