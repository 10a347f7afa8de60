"""The fields of the Sweep tab, by name of SweepForm, and what follows from them at once, without a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.study.plan import BASELINE
from mars_core.rules import RULES
from ui.jobs.services import Services
from ui.kit.components import text_panel
from ui.kit.events import PRIVATE
from ui.kit.labels import parameter_title, rule_title
from ui.tabs.settings import SettingsPanel
from ui.tabs.sweep.form import SweepForm, estimate, examples, other_parameters, suggestion, write_cases
from ui.tabs.sweep.run import admitted_sweep

FIRST_RULE = "mars"
TEXTS = (
    "prompts", "values", "temperatures", "ks", "others", "system", "stop", "own_target", "own_draft", "own_head", "parameter"
)  # fmt: skip
RULE_CHOICES = [(rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE]


@dataclass(frozen=True, slots=True)
class SweepFields:
    """The fields and the buttons."""

    by_name: dict[str, Any]
    panel: SettingsPanel
    run: gr.Button
    stop: gr.Button
    examples: gr.Button
    note: gr.HTML

    @property
    def inputs(self) -> list[Any]:
        return list(self.by_name.values())

    def form(self, values: tuple[Any, ...]) -> SweepForm:
        """The fields' values, in the order of ``inputs``; an empty text box gives None."""
        given = dict(zip(self.by_name, values, strict=True))
        fields: dict[str, Any] = {name: str(value or "") if name in TEXTS else value for name, value in given.items()}
        return SweepForm(**fields)


def build_fields(services: Services) -> SweepFields:
    """The components, in their panel."""
    panel = SettingsPanel(services, "sweep", lists=True, repeats=1)
    by_name = panel.by_name
    with gr.Column(elem_classes=["mars-panel", "mars-ask", "mars-sweep-ask"]):
        by_name["prompts"] = gr.Textbox(
            write_cases(examples(0)[:4]), label="Prompts, one a line", lines=5, max_lines=16, elem_id="sweep-prompts",
            info="Write “prompt => answer” to have the texts scored. For prompts of several lines put a line --- between two.",
            placeholder="2 + 2 = => 4",
        )  # fmt: skip
        with gr.Row(elem_classes=["mars-tools"]):
            more = gr.Button("Example problems with answers", size="sm", elem_id="sweep-examples")
        with gr.Row(elem_classes=["mars-bar", "mars-sweep-rule"]):
            _rule_fields(panel)
            with gr.Column(elem_classes=["mars-action"], min_width=150):
                run = gr.Button("Run the sweep", variant="primary", elem_id="sweep-run")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="sweep-stop")
        panel.bar()
        panel.own_pair()
        panel.advanced(
            "Advanced: other parameters, sampling, system prompt, draft mode", first=lambda: _other_parameters(by_name)
        )
        note = text_panel("mars-page mars-sweep-estimate")
    return SweepFields(by_name, panel, run, stop, more, note)


def _other_parameters(by_name: dict[str, Any]) -> None:
    by_name["others"] = gr.Textbox(
        label="Other parameters of the rule", placeholder="name = value, …", lines=1, max_lines=1, min_width=200
    )


def _rule_fields(panel: SettingsPanel) -> None:
    by_name = panel.by_name
    parameters = RULES[FIRST_RULE].parameters
    by_name["rule"] = gr.Dropdown(
        RULE_CHOICES, value=FIRST_RULE, label="Rule, against strict", elem_id="sweep-rule", min_width=180
    )
    by_name["parameter"] = gr.Dropdown(
        [(parameter_title(p.name), p.name) for p in parameters], value=parameters[0].name, label="Parameter", min_width=100,
        elem_id="sweep-parameter",
    )  # fmt: skip
    by_name["values"] = panel.list("Values", suggestion(parameters[0]), "0.84, 0.9 or 0.8:0.98:0.02", "values", 260)


def wire_fields(services: Services, fields: SweepFields) -> None:
    """What the choice of a rule, a pair or examples changes; and the estimate, after every change."""
    by_name = fields.by_name
    fields.panel.wire()
    _wire_rule(by_name)
    presses = gr.State(0)

    def more(pressed: int) -> tuple[str, int]:
        return write_cases(examples(pressed)), pressed + 1

    fields.examples.click(more, presses, [by_name["prompts"], presses], **PRIVATE)
    triggers: list[Callable[..., Any]] = [field.change for field in fields.inputs]
    gr.on(triggers, lambda *values: estimated(services, fields.form(values)), fields.inputs, fields.note,
          trigger_mode="always_last", **PRIVATE)  # fmt: skip


def estimated(services: Services, form: SweepForm) -> str:
    """How much the sweep will run, or why it cannot."""
    try:
        _, plan = admitted_sweep(services, form)
        return estimate(plan)
    except ValueError as error:
        return str(error)


def _wire_rule(by_name: Mapping[str, Any]) -> None:
    rule, parameter, values, others = (by_name[name] for name in ("rule", "parameter", "values", "others"))

    def choose(name: str) -> tuple[Any, ...]:
        parameters = RULES[name].parameters
        first = parameters[0].name if parameters else None
        choices = [(parameter_title(p.name), p.name) for p in parameters]
        return gr.update(choices=choices, value=first, interactive=bool(parameters)), *vary(name, first)

    def vary(name: str, varied: str | None) -> tuple[Any, ...]:
        chosen = next((p for p in RULES[name].parameters if p.name == varied), None)
        if chosen is None:
            return gr.update(value="", interactive=False, info="This rule has none."), ""
        shown = gr.update(value=suggestion(chosen), interactive=True, info=None)
        return shown, other_parameters(name, chosen.name)

    rule.change(choose, rule, [parameter, values, others], **PRIVATE)
    parameter.input(vary, [rule, parameter], [values, others], **PRIVATE)
