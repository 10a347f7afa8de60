"""Fields in which a rule is chosen, with its parameters: of a lane's head, and of one of the two rules of a vote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.rules import RULES, Parameter, Rule, Siblings
from mars_core.types import DraftMode
from ui.kit.events import PRIVATE
from ui.kit.labels import LANE_NAMES, parameter_title, rule_title
from ui.kit.panel import panel_component, render
from ui.settings.drafter import SHARED, lane_drafter, read_lane_drafter
from ui.settings.form import DraftForm, LaneForm

DEFAULT_RULES = ("strict", "mars", "lenience", "typical")
STEP = 0.01  # of parameters between 0 and 1


@dataclass(frozen=True, slots=True)
class RuleFields:
    """A rule, the parameters of all rules, of which only the chosen one's are read, and a drafter of the lane's own where it may
    have one."""

    rule: gr.Dropdown
    parameters: dict[tuple[str, str], Any]  # (rule, parameter) → field
    draft: dict[str, Any] = field(default_factory=dict)  # name of DraftForm → field

    @property
    def inputs(self) -> list[Any]:
        return [self.rule, *self.parameters.values(), *self.draft.values()]

    def read(self, given: Iterator[Any]) -> LaneForm:
        """The values of ``inputs``, taken from ``given``."""
        rule = next(given)
        values = {key: next(given) for key in self.parameters}
        own = {name: value for (owner, name), value in values.items() if owner == rule}
        return LaneForm(
            rule, own, read_lane_drafter({name: next(given) for name in self.draft}) if self.draft else None
        )

    def write(
        self, rule: str, parameters: Mapping[str, float | None], draft: DraftForm | None = None
    ) -> dict[Any, Any]:
        """Updates that choose a rule with these parameters, and drafts of its own or the form's."""
        fields = {self.parameters[rule, name]: value for name, value in parameters.items()}
        if draft is None:
            return {self.rule: rule, **fields, self.draft["drafter"]: SHARED}
        return {self.rule: rule, **fields} | {field: getattr(draft, name) for name, field in self.draft.items()}


def lane_head(lane: int, spec: PairSpec) -> RuleFields:
    """The head of a lane's card: rule, drafter, sliders, and below them what the rule says."""
    default = DEFAULT_RULES[lane]
    with gr.Row(elem_classes=["mars-head"]):
        rule = _rule_field(f"{LANE_NAMES[lane]} rule", default, f"rule-{lane}")
        draft = lane_drafter(lane, spec)
        with gr.Column(elem_classes=["mars-head-parameters"], min_width=140):
            parameters = {
                (owner, parameter.name): _slider(parameter, visible=owner == default)
                for owner, parameter in _all_parameters()
            }
    note = panel_component(rule_html(default), elem_id=f"rule-note-{lane}", name="mars-rule")
    _wire_rule(rule, parameters)
    rule.change(rule_html, rule, note, **PRIVATE)
    return RuleFields(rule, parameters, draft)


def compact_rule(label: str, default: str, name: str) -> RuleFields:
    """A rule and its parameters as numbers, in one row. ``name`` starts the ids of the fields."""
    with gr.Row(elem_classes=["mars-votes-rule"]):
        rule = _rule_field(label, default, name)
        parameters = {
            (owner, parameter.name): gr.Number(
                parameter.default, label=parameter_title(parameter.name), step=_step(parameter), visible=owner == default,
                min_width=90, scale=1, elem_id=f"{name}-{owner}-{parameter.name}",
            )
            for owner, parameter in _all_parameters()
        }  # fmt: skip
    _wire_rule(rule, parameters)
    return RuleFields(rule, parameters)


def _all_parameters() -> list[tuple[str, Parameter]]:
    return [(owner, parameter) for owner, rule in RULES.items() for parameter in rule.parameters]


def _rule_field(label: str, default: str, name: str) -> gr.Dropdown:
    choices = [(rule_title(rule), rule) for rule in RULES]
    return gr.Dropdown(choices, value=default, label=label, elem_id=name, min_width=160, scale=2)


def _wire_rule(rule: gr.Dropdown, parameters: Mapping[tuple[str, str], Any]) -> None:
    """Shows the chosen rule's own parameters only."""
    owners = [owner for owner, _ in parameters]
    rule.change(
        lambda name: [gr.update(visible=owner == name) for owner in owners], rule, list(parameters.values()), **PRIVATE
    )


def rule_html(name: str) -> str:
    """What the page says under the chooser: summary, formula, source and limits of a rule."""
    rule = RULES[name]
    return render("settings/rule.html.jinja", rule=rule, source=" · ".join([rule.source, *_limits(rule)]))


def _limits(rule: Rule) -> list[str]:
    """For which drafts the rule is not defined, in words."""
    chains = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    modes = [f"{mode.value} drafts only" for mode in rule.modes] if len(rule.modes) < len(DraftMode) else []
    distribution = ["needs the drafter’s probabilities"] if rule.needs_law else []
    return [*chains, *modes, *distribution]


def _slider(parameter: Parameter, *, visible: bool) -> Any:
    common: dict[str, Any] = {
        "label": parameter_title(parameter.name), "info": parameter.help, "step": _step(parameter), "visible": visible,
        "min_width": 120, "elem_classes": ["mars-parameter"],
    }  # fmt: skip
    if parameter.high > 1:
        return gr.Number(parameter.default, **common)
    lowest = parameter.low if parameter.low == 0 else max(parameter.low, STEP)
    return gr.Slider(lowest, parameter.high, parameter.default, **common)


def _step(parameter: Parameter) -> float:
    return STEP if parameter.high <= 1 else 1 if is_whole(parameter) else 0.1


def is_whole(parameter: Parameter) -> bool:
    """Whether a parameter counts something."""
    return parameter.low >= 1 and float(parameter.default).is_integer()
