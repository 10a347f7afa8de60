"""The fields of the Sweep tab, by name of SweepForm, and what follows from them at once, without a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.study.plan import BASELINE
from evaluation.study.sweep import runs_planned
from mars_core.models import PairSpec
from mars_core.rules import RULES
from ui.jobs.admission import check_own
from ui.kit.components import text_component
from ui.kit.labels import parameter_title, rule_title
from ui.services import Services
from ui.settings.drafter_fields import (
    TITLES,
    for_pair,
    mode_field,
    number_field,
    offered,
    thinking_field,
    tree_fields,
    wire_drafter,
)
from ui.settings.form import CUSTOM, catalog_pair
from ui.settings.limits_line import limits_component
from ui.tabs.compare.ask import pair_choices
from ui.tabs.study.sweep_form import (
    SweepForm,
    estimate,
    examples,
    other_parameters,
    read_plan_of,
    read_spec,
    suggestion,
    write_cases,
)

FIRST_RULE = "mars"
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}
TEXTS = (
    "prompts", "values", "temperatures", "ks", "others", "system", "stop", "own_target", "own_draft", "own_head", "parameter"
)  # fmt: skip
RULE_CHOICES = [(rule_title(name), name) for name, rule in RULES.items() if rule.modes and name != BASELINE]


@dataclass(frozen=True, slots=True)
class SweepFields:
    """The fields and the buttons."""

    by_name: dict[str, Any]
    run: gr.Button
    stop: gr.Button
    examples: gr.Button
    own: gr.Row
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
    by_name: dict[str, Any] = {}
    first = services.catalog[0]
    with gr.Column(elem_classes=["mars-panel", "mars-ask", "mars-sweep-ask"]):
        by_name["prompts"] = gr.Textbox(
            write_cases(examples(0)[:4]), label="Prompts, one a line", lines=5, max_lines=16, elem_id="sweep-prompts",
            info="Write “prompt => answer” to have the texts scored. For prompts of several lines put a line --- between two.",
            placeholder="2 + 2 = => 4",
        )  # fmt: skip
        with gr.Row(elem_classes=["mars-tools"]):
            more = gr.Button("Example problems with answers", size="sm", elem_id="sweep-examples")
        with gr.Row(elem_classes=["mars-bar", "mars-sweep-rule"]):
            _rule_fields(by_name)
            with gr.Column(elem_classes=["mars-action"], min_width=150):
                run = gr.Button("Run the sweep", variant="primary", elem_id="sweep-run")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="sweep-stop")
        with gr.Row(elem_classes=["mars-bar"]):
            _setting_fields(services, by_name)
        by_name.update(tree_fields(first, services.limits))
        own = _own_fields(by_name)
        _advanced(by_name)
        limits_component(services.limits, sweep=True)
        note = text_component("mars-page mars-sweep-estimate")
    return SweepFields(by_name, run, stop, more, own, note)


def _rule_fields(by_name: dict[str, Any]) -> None:
    parameters = RULES[FIRST_RULE].parameters
    by_name["rule"] = gr.Dropdown(
        RULE_CHOICES, value=FIRST_RULE, label="Rule, against strict", elem_id="sweep-rule", min_width=180
    )
    by_name["parameter"] = gr.Dropdown(
        [(parameter_title(p.name), p.name) for p in parameters], value=parameters[0].name, label="Parameter", min_width=100,
        elem_id="sweep-parameter",
    )  # fmt: skip
    by_name["values"] = _list("Values", suggestion(parameters[0]), "0.84, 0.9 or 0.8:0.98:0.02", "sweep-values", 260)


def _setting_fields(services: Services, by_name: dict[str, Any]) -> None:
    first = services.catalog[0]
    pairs = pair_choices(services)
    by_name["pair"] = gr.Dropdown(
        pairs, value=first.key, label="Model pair", elem_classes=["mars-bar-pair"], min_width=200, elem_id="sweep-pair"
    )
    kinds = offered(first)
    by_name["drafter"] = gr.Dropdown(
        [(TITLES[kind], kind) for kind in kinds if kind != "none"], value=kinds[0], label="Drafts from",
        elem_classes=["mars-bar-drafter"], elem_id="sweep-drafter", min_width=150,
    )  # fmt: skip
    by_name["ks"] = _list("K, drafted tokens", "5", "3, 5, 7", "sweep-ks", 110)
    by_name["temperatures"] = _list("Temperatures", "1", "0, 1", "sweep-temperatures", 110)
    by_name["max_new_tokens"] = number_field(
        "Max new tokens", 96, 16, most=services.limits.new_tokens, name="sweep-max"
    )
    by_name["repeats"] = number_field("Repeats", 1, 1)
    by_name["seed"] = number_field("First seed", 0, 1)


def _list(label: str, value: str, placeholder: str, name: str, width: int) -> gr.Textbox:
    return gr.Textbox(
        value, label=label, placeholder=placeholder, lines=1, max_lines=1, elem_id=name, min_width=width,
        elem_classes=["mars-sweep-list"],
    )  # fmt: skip


def _own_fields(by_name: dict[str, Any]) -> gr.Row:
    own: gr.Row
    with gr.Row(visible=False, elem_classes=["mars-own"]) as own:
        place = "owner/name, owner/name@revision, or a folder"
        by_name["own_target"] = gr.Textbox(label="Target", placeholder=place, elem_id="sweep-own-target")
        by_name["own_draft"] = gr.Textbox(label="Draft model (may be empty)", elem_id="sweep-own-draft")
        by_name["own_head"] = gr.Textbox(label="EAGLE-3 head (may be empty)", elem_id="sweep-own-head")
    return own


def _advanced(by_name: dict[str, Any]) -> None:
    with gr.Accordion(
        "Advanced: other parameters, sampling, system prompt, draft mode", open=False, elem_classes=["mars-advanced"]
    ):
        with gr.Row():
            by_name["others"] = gr.Textbox(
                label="Other parameters of the rule", placeholder="name = value, …", lines=1, max_lines=1, min_width=200
            )
            by_name["top_k"] = number_field("Top-k (0: off)", 0, 1)
            by_name["top_p"] = number_field("Top-p (1: off)", 1.0, 0.05)
            by_name["stop"] = gr.Textbox(label="Stop strings, one a line", lines=1, max_lines=4, min_width=200)
        with gr.Row():
            by_name["system"] = gr.Textbox(label="System prompt", lines=1, max_lines=6, scale=3)
            by_name["chat"] = gr.Checkbox(
                True, label="Use the chat template", info="Where the tokenizer has one.", scale=1
            )
            by_name["thinking"] = thinking_field()
        by_name["mode"] = mode_field()


def wire_fields(services: Services, fields: SweepFields) -> None:
    """What the choice of a rule, a pair or examples changes; and the estimate, after every change."""
    by_name = fields.by_name
    wire_drafter({**by_name, "k": by_name["ks"]})
    _wire_rule(by_name)
    _wire_pair(services, fields)
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
        if form.pair == CUSTOM:
            check_own(services)
        plan = read_plan_of(form, read_spec(form, services.catalog))
        services.limits.check_sweep(runs_planned(plan))
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


def _wire_pair(services: Services, fields: SweepFields) -> None:
    by_name = fields.by_name
    pair, drafter = by_name["pair"], by_name["drafter"]

    def choose(key: str, kind: str) -> tuple[Any, ...]:
        spec: PairSpec | None = catalog_pair(key, services.catalog) if key != CUSTOM else None
        _, *tree = for_pair(spec, kind)
        kinds = [name for name in offered(spec) if name != "none"]
        choice = gr.update(choices=[(TITLES[name], name) for name in kinds], value=kind if kind in kinds else kinds[0])
        return gr.update(visible=key == CUSTOM), choice, *tree

    tree = [by_name[name] for name in ("tree_tokens", "tree_depth", "tree_top_k")]
    pair.change(choose, [pair, drafter], [fields.own, drafter, *tree], **PRIVATE)
