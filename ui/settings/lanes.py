"""The heads of the lanes: which rule, its parameters and what the rule says, and where the lane's drafts come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.rules import RULES, Parameter, Rule, Siblings
from mars_core.types import DraftMode
from ui.kit.labels import parameter_title, rule_title
from ui.kit.panel import panel_component, render
from ui.result.tiles import Counts, stat_tiles
from ui.result.token_view import LaneView
from ui.settings.form import DraftForm, LaneForm
from ui.settings.lane_draft import AS_ABOVE, lane_draft, read_lane_draft

DEFAULT_RULES = ("strict", "mars", "lenience", "typical")
LEAST_LANES, FIRST_LANES = 1, 2  # that may be, and that there are at first
STEP = 0.01  # of sliders
LANE_NAMES = ("Left", "Right", "Third", "Fourth")
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a lane's card."""

    rule: gr.Dropdown
    parameters: dict[tuple[str, str], Any]  # (rule, parameter) → field
    draft: dict[str, Any] = field(default_factory=dict)  # name → field of the lane's own drafter, where it may have one

    @property
    def inputs(self) -> list[Any]:
        return [self.rule, *self.parameters.values(), *self.draft.values()]

    def read(self, given: Iterator[Any]) -> LaneForm:
        """The values of ``inputs``, taken from ``given``."""
        rule = next(given)
        values = {key: next(given) for key in self.parameters}
        own = {name: value for (owner, name), value in values.items() if owner == rule}
        return LaneForm(rule, own, read_lane_draft({name: next(given) for name in self.draft}) if self.draft else None)

    def write(
        self, rule: str, parameters: Mapping[str, float | None], draft: DraftForm | None = None
    ) -> dict[Any, Any]:
        """Updates that choose a rule with these parameters, and drafts of its own or as above."""
        fields = {self.parameters[rule, name]: value for name, value in parameters.items()}
        own = (
            {self.draft[name]: getattr(draft, name) for name in self.draft}
            if draft
            else {self.draft["drafter"]: AS_ABOVE}
        )
        return {self.rule: rule} | fields | own


def lane_head(lane: int, spec: PairSpec) -> Head:
    """The components of one head, with the event that shows the chosen rule's own parameters only."""
    default = DEFAULT_RULES[lane]
    choices = [(rule_title(name), name) for name in RULES]
    parameters: dict[tuple[str, str], Any] = {}
    with gr.Row(elem_classes=["mars-head"]):
        rule = gr.Dropdown(
            choices, value=default, label=f"{LANE_NAMES[lane]} rule", elem_id=f"rule-{lane}", min_width=160
        )
        draft = lane_draft(lane, spec)
        with gr.Column(elem_classes=["mars-head-parameters"], min_width=140):
            for owner, entry in RULES.items():
                for parameter in entry.parameters:
                    parameters[owner, parameter.name] = _parameter_field(parameter, visible=owner == default)
    note = panel_component(rule_html(default), elem_id=f"rule-note-{lane}", name="mars-rule")
    shown = list(parameters)

    def choose(name: str) -> list[Any]:
        return [rule_html(name), *(gr.update(visible=owner == name) for owner, _ in shown)]

    rule.change(choose, rule, [note, *parameters.values()], **PRIVATE)
    return Head(rule, parameters, draft)


def rule_html(name: str) -> str:
    """What the page says under the chooser: summary, formula, source and limits of a rule."""
    rule = RULES[name]
    return render("settings/rule.html.jinja", rule=rule, source=" · ".join([rule.source, *_limits(rule)]))


def _limits(rule: Rule) -> list[str]:
    """For which drafts the rule is not defined, in words."""
    chains = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    modes = [f"{mode.value} drafts only" for mode in rule.modes] if len(rule.modes) < len(DraftMode) else []
    law = ["needs the drafter’s probabilities"] if rule.needs_law else []
    return [*chains, *modes, *law]


def _parameter_field(parameter: Parameter, *, visible: bool) -> Any:
    label = parameter_title(parameter.name)
    common: dict[str, Any] = {"visible": visible, "min_width": 120, "elem_classes": ["mars-parameter"]}
    if parameter.high <= 1:
        lowest = parameter.low if parameter.low == 0 else max(parameter.low, STEP)
        return gr.Slider(
            lowest, parameter.high, parameter.default, step=STEP, label=label, info=parameter.help, **common
        )
    step = 1 if is_whole(parameter) else 0.1
    return gr.Number(parameter.default, label=label, info=parameter.help, step=step, **common)


def is_whole(parameter: Parameter) -> bool:
    """Whether a parameter counts something."""
    return parameter.low >= 1 and float(parameter.default).is_integer()


def empty_lane(lane: int) -> LaneView:
    """A lane before its first run."""
    rule = DEFAULT_RULES[lane]
    values = ", ".join(f"{parameter_title(p.name)} = {p.default:g}" for p in RULES[rule].parameters)
    return LaneView(f"{rule_title(rule)} {values}".strip(), tiles=stat_tiles(Counts()))
