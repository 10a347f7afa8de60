"""Fields in which a rule is chosen, with its parameters: of a lane's head, and of one of the two rules of a vote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.rules import RULES, Parameter, Rule, Siblings
from mars_core.types import DraftMode
from ui.kit.events import PRIVATE
from ui.kit.labels import LANE_NAMES, parameter_title, rule_title
from ui.kit.panel import panel_component, render
from ui.settings.drafter import SHARED, lane_drafter, read_lane_drafter
from ui.settings.form import LaneForm

DEFAULT_RULES = ("strict", "mars", "lenience", "typical")
STEP = 0.01  # of parameters between 0 and 1
MOST_PARAMETERS = max(len(rule.parameters) for rule in RULES.values())


@dataclass(frozen=True, slots=True)
class RuleFields:
    """A rule, as many numbers as a rule has parameters at most, and a drafter of the lane's own where it may have one."""

    rule: gr.Dropdown
    parameters: tuple[gr.Number, ...]  # by place among the parameters of the rule
    draft: dict[str, Any] = field(default_factory=dict)  # name of DraftForm → field

    @property
    def inputs(self) -> list[Any]:
        return [self.rule, *self.parameters, *self.draft.values()]

    def read(self, given: Iterator[Any]) -> LaneForm:
        """The values of ``inputs``, taken from ``given``."""
        rule = next(given)
        values = [next(given) for _ in self.parameters]
        known = RULES[rule].parameters if rule in RULES else ()
        own = {parameter.name: value for parameter, value in zip(known, values, strict=False)}
        draft = read_lane_drafter({name: next(given) for name in self.draft}) if self.draft else None
        return LaneForm(rule, own, draft)

    def write(self, lane: LaneForm) -> dict[Any, Any]:
        """Updates that choose the rule with these parameters, and drafts of its own or the form's."""
        shown = dict[Any, Any](zip(self.parameters, _parameter_updates(lane.rule, lane.parameters), strict=True))
        if lane.draft is None:
            return {self.rule: lane.rule, **shown, self.draft["drafter"]: SHARED}
        return {self.rule: lane.rule, **shown} | {
            field: getattr(lane.draft, name) for name, field in self.draft.items()
        }


def lane_head(lane: int, spec: PairSpec) -> RuleFields:
    """The head of a lane's card: rule, drafter, parameters, and below them what the rule says."""
    default = DEFAULT_RULES[lane]
    with gr.Row(elem_classes=["mars-head"]):
        rule = _rule_field(f"{LANE_NAMES[lane]} rule", default, f"rule-{lane}")
        draft = lane_drafter(lane, spec)
        with gr.Column(elem_classes=["mars-head-parameters"], min_width=140):
            parameters = _parameter_fields(default, f"rule-{lane}")
    note = panel_component(rule_html(default), elem_id=f"rule-note-{lane}", name="mars-rule")
    _wire_rule(rule, parameters)
    rule.change(rule_html, rule, note, **PRIVATE)
    return RuleFields(rule, parameters, draft)


def compact_rule(label: str, default: str, name: str) -> RuleFields:
    """A rule and its parameters in one row. ``name`` starts the ids of the fields."""
    with gr.Row(elem_classes=["mars-votes-rule"]):
        rule = _rule_field(label, default, name)
        parameters = _parameter_fields(default, name)
    _wire_rule(rule, parameters)
    return RuleFields(rule, parameters)


def _rule_field(label: str, default: str, name: str) -> gr.Dropdown:
    choices = [(rule_title(rule), rule) for rule in RULES]
    return gr.Dropdown(choices, value=default, label=label, elem_id=name, min_width=160, scale=2)


def _parameter_fields(rule: str, name: str) -> tuple[gr.Number, ...]:
    """Those of ``rule``; the others are hidden."""
    return tuple(
        gr.Number(**shown, min_width=90, elem_id=f"{name}-parameter-{place}", elem_classes=["mars-parameter"])
        for place, shown in enumerate(_parameter_values(rule, {}))
    )


def _parameter_values(rule: str, values: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """What each field shows of a rule with these values; parameters without one have their default."""
    known = RULES[rule].parameters if rule in RULES else ()
    shown = [
        {
            "value": values.get(parameter.name, parameter.default), "label": parameter_title(parameter.name),
            "info": parameter.help, "step": _step(parameter), "visible": True,
        }
        for parameter in known
    ]  # fmt: skip
    return shown + [{"visible": False}] * (MOST_PARAMETERS - len(shown))


def _parameter_updates(rule: str, values: Mapping[str, float | None] = MappingProxyType({})) -> list[Any]:
    return [gr.update(**shown) for shown in _parameter_values(rule, values)]


def _wire_rule(rule: gr.Dropdown, parameters: Sequence[gr.Number]) -> None:
    """Shows the chosen rule's own parameters, with their defaults."""
    rule.input(_parameter_updates, rule, list(parameters), **PRIVATE)


def rule_html(name: str) -> str:
    """What the page says under the chooser: summary, formula, source and limits of a rule."""
    rule = RULES[name]
    return render("settings/rule.html.jinja", rule=rule, source=" · ".join([rule.source, *_limits(rule)]))


def _limits(rule: Rule) -> list[str]:
    """For which drafts the rule is not defined, in words."""
    chains = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    modes = [f"{mode.value} drafts only" for mode in rule.modes] if len(rule.modes) < len(DraftMode) else []
    distribution = ["needs the drafter’s probabilities"] if rule.needs_distribution else []
    return [*chains, *modes, *distribution]


def _step(parameter: Parameter) -> float:
    return STEP if parameter.high <= 1 else 1 if is_whole(parameter) else 0.1


def is_whole(parameter: Parameter) -> bool:
    """Whether a parameter counts something."""
    return parameter.low >= 1 and float(parameter.default).is_integer()
