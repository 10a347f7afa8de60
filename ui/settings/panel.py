"""The settings of a run as one component: Python writes the fields as escaped HTML, settings.js
keeps their values.

The component's value is JSON. From here it is ``{"html": …, "values": …}``; once a visitor changed
something it is ``{"values": …}``, as ``ui.settings.fields`` describes them. Its event ``select``
comes with ``changes``, those that were not answered yet: of each ``changed``, the name of a field
on which others depend, and ``lane`` where it is a lane's; ``input`` with the action of a button of the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from display.sources import to_json
from mars_core.models import CUSTOM, PairSpec
from mars_core.numbers import number_of
from mars_core.rules import RULES
from mars_core.types import RuleConfig
from ui.jobs.services import Services
from ui.kit.assets import asset, with_constants
from ui.kit.events import LATEST, Updates, event_data
from ui.kit.labels import drafter_title
from ui.kit.panel import render
from ui.settings.fields import Fields
from ui.settings.lanes import lane
from ui.settings.own import dropped, listed_pair, own_pair
from ui.settings.parameters import ThresholdNote, default_theta, threshold_note
from ui.settings.values import (
    LEAST_LANES,
    MODELS,
    MOST_LANES,
    EnteredValues,
    as_text,
    lanes_of,
    parse,
    read_lane_values,
    seeded,
)

RESETS: Mapping[str, Sequence[str]] = {  # what gets its default again when a field changes
    "pair": ("tree", "k", "draft_mode", "temperature"),
    "drafter": ("draft_mode",),
    "draft": ("drafter", "draft_mode"),
    "head": ("drafter", "draft_mode"),
    "rule": tuple({each.name for rule in RULES.values() for each in rule.parameters}),
    "purpose": ("suite", "problems", "rules"),
}
SCRIPT = "\n".join(
    [asset("morph.js"), asset("wrong.js", "settings"), asset("settings.js", "settings")]
)
BESIDE = """(...all) => [
    ...all.slice(0, {}), JSON.stringify(document.querySelector("#{} .mars-settings")?.beside?.() ?? []),
]"""
MOST_CHANGES = 20  # that are read of an event
LONGEST_NAME, LONGEST_SIZE = 255, 20  # characters of a file’s name, digits of its bytes


class SettingsPanel:
    """The fields of a tab, laid out by the template ``SCOPE.html.jinja``. ``describe`` adds them to
    Fields. ``lanes``: how many there are at first. ``label``
    sums the values up in one line; ``thresholds``: the rules that they name beside those of the
    lanes."""

    def __init__(
        self,
        services: Services,
        scope: str,
        describe: Callable[[Fields], object],
        *,
        lanes: int = 0,
        label: Callable[[EnteredValues], str] = lambda _: "",
        thresholds: Callable[[EnteredValues], Sequence[RuleConfig]] = lambda _: (),
    ) -> None:
        self.services, self._scope, self._label = services, scope, label
        self._describe, self._thresholds = describe, thresholds
        self.component = gr.HTML(
            self.value({"lanes": [{}] * lanes}, drawn=False),
            html_template='<div class="mars-settings"></div>',
            js_on_load=with_constants(SCRIPT, panel=f"{scope}-settings"),
            apply_default_css=False,
            elem_id=f"{scope}-settings",
        )
        # keys and pasted answers of servers: no values, so that they are in no link and no record
        self.beside = gr.Textbox(visible=False, elem_id=f"{scope}-beside")

    def with_servers(self, inputs: int) -> str:
        """Return the JavaScript that gives an event of so many inputs also ``beside``, from the
        fields of servers."""
        return BESIDE.format(inputs, self.component.elem_id)

    def value(self, entered: EnteredValues, *, drawn: bool = True) -> str:
        """Return what shows these values; fields without one have their defaults. ``drawn``: the
        page is open, so that memory may be looked at."""
        spec, services = self.spec(entered), self.services
        fields = self._fields(entered, spec)
        lanes = [
            lane(index, fields, each, services.rules, votes=self._scope == "votes")
            for index, each in enumerate(lanes_of(entered)[:MOST_LANES])
        ]
        values: dict[str, Any] = {name: field.value for name, field in fields.by_name.items()}
        values |= {"lanes": [each.values for each in lanes]} if lanes else {}
        named, note = (
            (spec, listed_pair(services, spec, drawn=drawn))
            if spec
            else own_pair(services, entered)
        )
        html = render(
            f"settings/templates/{self._scope}.html.jinja",
            fields=fields.by_name,
            lanes=lanes,
            least=LEAST_LANES,
            most=MOST_LANES,
            note=note,
            custom=spec is None,
            changes=as_text(entered.get("changes")),
            thresholds=self._notes(values, named),
            limits=services.limits.sentence(study=not lanes),
            label=self._label(values),
            seeded=seeded(values),
        )
        return to_json({"html": html, "values": values, "at": number_of(entered.get("at"))})

    def _fields(self, entered: EnteredValues, spec: PairSpec | None) -> Fields:
        pairs = [(each.title, each.key) for each in self.services.catalog]
        pairs += [("My own model…", CUSTOM)] if self.services.custom_models else []
        scope = "" if self._scope == "compare" else self._scope
        fields = Fields(entered, scope, spec, pairs, self.services.limits)
        self._describe(fields)
        return fields

    def spec(self, values: EnteredValues) -> PairSpec | None:
        """Return the chosen pair; None: a custom one. A key that is unknown is the first pair's."""
        key = values.get("pair")
        if key == CUSTOM and self.services.custom_models:
            return None
        return next(
            (spec for spec in self.services.catalog if spec.key == key), self.services.catalog[0]
        )

    def _notes(self, values: EnteredValues, spec: PairSpec | None) -> list[ThresholdNote | None]:
        """Return notes on the thresholds of each lane; without lanes one on all."""
        margins = self.services.pool.margins(spec) if spec else ()
        notes: list[ThresholdNote | None] = []
        lanes: list[EnteredValues | None] = [*lanes_of(values)]
        for each in lanes or [None]:
            try:
                rules = self._rules(values, each)
                notes.append(threshold_note(rules, margins, default_theta(spec)))
            except ValueError:  # reported when the runs are requested
                notes.append(ThresholdNote(("",)))
        return notes

    def changed(self, value: str | None, *changes: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """``changes``: those since the last answer, in their order."""
        values = parse(value)
        before = dict(values), [number_of(lane.get("theta")) for lane in lanes_of(values)]
        for at, each in enumerate(changes, start=1):
            later = [other.get("changed") for other in changes[at:]]  # what is typed since stays
            self._change(values, each, later)
        names = [str(each.get("changed")) for each in changes]
        if not {"pair", *MODELS}.isdisjoint(names):
            told = self._changes(values, *before)
            values["changes"] = told or ("" if "pair" in names else as_text(values.get("changes")))
        return self.value(values), values

    def _changes(self, values: EnteredValues, before: EnteredValues, thetas: Sequence[Any]) -> str:
        """Say which settings other models changed, and why; empty where they changed none."""
        spec, told = self.spec(values), list[str]()
        for name, field in self._fields(values, spec).by_name.items():
            was = before.get(name, field.value)
            given = isinstance(was, str | int | float)  # a browser can send anything
            if given and field.visible and was != field.value and name != "pair":
                titles = {value: title for title, value in field.choices}
                titles |= {was: drafter_title(was)} if name == "drafter" else {}
                ends = (str(titles.get(each, each)) for each in (was, field.value))
                told.append(f"{field.label} {' → '.join(ends)}")
        usual = default_theta(spec).value
        for theta, after in zip(thetas, lanes_of(values), strict=True):
            if theta not in (None, usual) and "theta" not in after:
                told.append(f"θ {theta} → {usual:g}")
        why = f"the defaults of {spec.title}" if spec else "what can be done with these models"
        return f"Changed with the models: {', '.join(dict.fromkeys(told))} ({why})." if told else ""

    def _change(
        self, values: dict[str, Any], changed: Mapping[str, Any], later: Sequence[object]
    ) -> None:
        index, lanes = changed.get("lane"), lanes_of(values)
        at_index = (each for at, each in enumerate(lanes) if at == index)
        where = values if index is None else next(at_index, {})
        what, spec = changed.get("changed"), self.spec(values)
        resets = RESETS.get(str(what), ())
        kind, _, name = str(what).partition(" ")
        if what == "pair":  # a default gives way to that of another pair
            others = None, *self.services.catalog
            kept, known = {what, *resets}, {default_theta(each).value for each in others}
            if spec is None:  # an own pair has no settings of its own: those that were chosen stay
                kept, known, resets = {*kept, "parameters"}, set(), ()
            for each in lanes:
                if number_of(each.get("theta")) in known:
                    del each["theta"]
            for pair in others:
                for name, field in self._fields({}, pair).by_name.items():
                    if name not in kept and values.get(name) == field.value:
                        del values[name]
        elif kind == "dropped" and self.services.custom_models:
            into, size, file = [*name.split(" ", 2), "", ""][:3]
            if into in MODELS and size.isdecimal():
                values[into] = dropped(file[:LONGEST_NAME], int(size[:LONGEST_SIZE]))
        elif what in MODELS and values.get("drafter") != values.get("usual_drafter"):
            resets = ()  # a drafter that was chosen stays
        for reset in resets:
            if reset not in later:
                where.pop(reset, None)

    def _rules(self, values: EnteredValues, lane: EnteredValues | None) -> Sequence[RuleConfig]:
        """Return the rule of a lane; None: those beside the lanes. Raises ValueError."""
        return self._thresholds(values) if lane is None else [read_lane_values(lane).rule]

    def wire(
        self,
        follow: Callable[..., Updates] = lambda *_: {},
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
    ) -> None:
        """Display what follows from a changed field. ``follow``: updates of ``outputs`` from the
        names of such fields, all values and those of ``inputs``."""

        def redraw(event: gr.EventData, value: str | None, *arguments: Any) -> Any:
            reported = event_data(event).get("changes")
            recent = reported[-MOST_CHANGES:] if isinstance(reported, list) else []
            changes = [each for each in recent if isinstance(each, Mapping)]
            panel_value, values = self.changed(value, *changes)
            followed = follow([each.get("changed") for each in changes], values, *arguments)
            return {self.component: panel_value} | followed

        self.component.select(
            redraw,
            [self.component, *inputs],
            [self.component, *outputs],
            **LATEST,
        )
