"""The fields of the Votes tab: prompt, the two rules, drafter and sampling; and their values as a Form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.rules import RULES, Parameter
from ui.kit.components import chips_component
from ui.kit.labels import parameter_title, rule_title
from ui.services import Services
from ui.settings.drafter_fields import (
    TITLES,
    mode_field,
    number_field,
    offered,
    thinking_field,
    tree_fields,
    wire_drafter,
)
from ui.settings.form import Form, LaneForm
from ui.settings.lanes import PRIVATE, STEP, is_whole
from ui.settings.limits_line import limits_component

RULE_FIELDS = (("First rule", "strict"), ("Second rule", "mars"))
TEXTS = ("prompt", "system")


@dataclass(frozen=True, slots=True)
class RuleFields:
    """One rule and the parameters of all rules; only those of the chosen one are read."""

    rule: gr.Dropdown
    parameters: dict[tuple[str, str], gr.Number]  # (rule, parameter) → field

    @property
    def inputs(self) -> list[Any]:
        return [self.rule, *self.parameters.values()]

    def read(self, given: Iterator[Any]) -> LaneForm:
        """The values of ``inputs``, taken from ``given``."""
        rule = next(given)
        values = {key: next(given) for key in self.parameters}
        return LaneForm(rule, {name: value for (owner, name), value in values.items() if owner == rule})


@dataclass(frozen=True, slots=True)
class VoteFields:
    """``by_name``: fields of Form; ``fresh``: whether every round gets a new seed."""

    by_name: dict[str, Any]
    rules: tuple[RuleFields, ...]
    chips: gr.HTML
    fresh: gr.Checkbox

    @property
    def inputs(self) -> list[Any]:
        return [*self.by_name.values(), *(field for rule in self.rules for field in rule.inputs)]

    def form(self, values: tuple[Any, ...]) -> Form:
        """The fields' values, in the order of ``inputs``."""
        given = iter(values)
        fields: dict[str, Any] = {name: next(given) for name in self.by_name}
        fields |= {name: fields[name] or "" for name in TEXTS}
        return Form(lanes=tuple(rule.read(given) for rule in self.rules), **fields)


def vote_fields(services: Services) -> VoteFields:
    """The components of the form, without buttons."""
    first = services.catalog[0]
    by_name: dict[str, Any] = {
        "prompt": gr.Textbox(
            first.prompts[0], label="Prompt", lines=2, max_lines=12, elem_id="votes-prompt",
            placeholder="What should both answers be about?",
        )
    }  # fmt: skip
    chips = chips_component(first.prompts, elem_id="votes-chips")
    with gr.Row(elem_classes=["mars-votes-rules"]):
        rules = tuple(_rule_fields(place) for place in range(len(RULE_FIELDS)))
    by_name |= _settings(services, first)
    limits_component(services.limits)
    fresh = gr.Checkbox(True, label="A new seed each round", elem_id="votes-fresh", container=False)
    with gr.Accordion("Advanced", open=False, elem_classes=["mars-advanced"]):
        with gr.Row():
            by_name["top_k"] = _number("Top-k (0: off)", 0, 1, "top-k")
            by_name["top_p"] = _number("Top-p (1: off)", 1.0, 0.05, "top-p")
            by_name["system"] = gr.Textbox(label="System prompt", lines=1, max_lines=6, scale=3, elem_id="votes-system")
        with gr.Row():
            by_name["chat"] = gr.Checkbox(True, label="Use the chat template", info="Where the tokenizer has one.")
            by_name["thinking"] = thinking_field()
        by_name["mode"] = mode_field()
    wire_drafter(by_name)
    return VoteFields(by_name, rules, chips, fresh)


def _settings(services: Services, first: PairSpec) -> dict[str, Any]:
    kinds = [(TITLES[kind], kind) for kind in offered(first)]
    with gr.Row(elem_classes=["mars-bar"]):
        fields: dict[str, Any] = {
            "pair": gr.Dropdown(
                [(spec.title, spec.key) for spec in services.catalog], value=first.key, label="Model pair",
                elem_classes=["mars-bar-pair"], elem_id="votes-pair", min_width=200,
            ),
            "drafter": gr.Dropdown(
                kinds, value=kinds[0][1], label="Drafts from", elem_classes=["mars-bar-drafter"], elem_id="votes-drafter",
                min_width=150,
            ),
            "k": _number("K, drafted tokens", 5, 1, "k", services.limits.k),
            "temperature": _number("Temperature", 1.0, 0.1, "temperature"),
            "max_new_tokens": _number("Max new tokens", 128, 16, "max", services.limits.new_tokens),
            "seed": _number("Seed", 0, 1, "seed"),
        }  # fmt: skip
    return fields | tree_fields(first, services.limits)


def _number(label: str, value: float, step: float, name: str, most: int | None = None) -> gr.Number:
    return number_field(label, value, step, most=most, name=f"votes-{name}")


def _rule_fields(place: int) -> RuleFields:
    """One rule and its own parameters, with the event that shows those of the chosen rule only."""
    label, default = RULE_FIELDS[place]
    choices = [(rule_title(name), name) for name in RULES]
    with gr.Row(elem_classes=["mars-votes-rule"]):
        rule = gr.Dropdown(choices, value=default, label=label, elem_id=f"votes-rule-{place}", min_width=150, scale=2)
        parameters = {
            (owner, parameter.name): _parameter(
                parameter, f"votes-{place}-{owner}-{parameter.name}", visible=owner == default
            )
            for owner, entry in RULES.items()
            for parameter in entry.parameters
        }
    owners = [owner for owner, _ in parameters]
    rule.change(
        lambda name: [gr.update(visible=owner == name) for owner in owners], rule, list(parameters.values()), **PRIVATE
    )
    return RuleFields(rule, parameters)


def _parameter(parameter: Parameter, elem_id: str, *, visible: bool) -> gr.Number:
    step = 1 if is_whole(parameter) else STEP if parameter.high <= 1 else 0.1
    label = parameter_title(parameter.name)
    return gr.Number(parameter.default, label=label, step=step, visible=visible, min_width=90, scale=1, elem_id=elem_id)
