"""The settings of a run as one component: Python writes the fields as escaped HTML, settings.js keeps their values.

The component's value is JSON. From here it is ``{"html": …, "values": …}``; once a visitor changed something it is ``{"values": …}``, as
``ui.settings.fields`` describes them. Its event ``select`` comes with ``changed``, the name of a field on which others depend, and ``lane``
where it is a lane's; ``input`` with what a button of the panel asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from evaluation.format import memory, parameters
from mars_core.models import PairSpec
from mars_core.rules import RULES
from ui.jobs.services import Services
from ui.kit.assets import asset, to_json
from ui.kit.events import PRIVATE, event_data
from ui.kit.panel import render
from ui.settings.drafters import TREE_NUMBERS
from ui.settings.fields import OWN, Fields, Lane, Values, as_number, as_text, lane, lanes_of, parse
from ui.settings.form import CUSTOM, LEAST_LANES, MOST_LANES, own_pair

RESETS: Mapping[str, Sequence[str]] = {  # what gets its default again when a field changes
    "pair": (*TREE_NUMBERS, "mode", "temperature", "temperatures"),
    "drafter": ("mode",),
    "rule": ("parameter", "values", "others", *{each.name for rule in RULES.values() for each in rule.parameters}),
    "parameter": ("values", "others"),
}


Note = tuple[str, str, Sequence[str]]  # text, state (ok or bad) and facts
ABOUT_OWN = (
    "A target, and a draft model that shares its vocabulary, or an EAGLE-3 head trained for it: Hub ids, folders with safetensors, or, "
    "of models, GGUF files (a path, or owner/name/file.gguf). Without both, use n-gram drafts or none."
)


class SettingsPanel:
    """The fields of a tab, laid out by the template ``SCOPE.html.jinja``. ``describe`` adds them to Fields. ``lanes``: how many there are
    at first, each described by ``describe_lane``. ``label`` sums the values up in one line."""

    def __init__(
        self,
        services: Services,
        scope: str,
        describe: Callable[[Fields], object],
        *,
        lanes: int = 0,
        describe_lane: Callable[[int, PairSpec | None, Values], Lane] = lane,
        label: Callable[[Values], str] = lambda _: "",
    ) -> None:
        self.services, self._scope, self._label = services, scope, label
        self._describe, self._describe_lane = describe, describe_lane
        self.component = gr.HTML(
            self.value({"lanes": [{}] * lanes}, drawn=False), html_template='<div class="mars-settings"></div>',
            js_on_load=f"{asset('morph.js')}\n{asset('settings.js', 'settings')}", apply_default_css=False, elem_id=f"{scope}-settings",
        )  # fmt: skip

    def value(self, given: Values, *, drawn: bool = True) -> str:
        """What shows these values; fields without one have their defaults. ``drawn``: the page is open, so that memory may be looked at."""
        spec, services = self.spec(given), self.services
        pairs = [(each.title, each.key) for each in services.catalog]
        pairs += [("Own folders or Hub ids", CUSTOM)] if services.own_models else []
        own = Fields(given, "" if self._scope == "compare" else self._scope, spec, pairs, services.limits)
        self._describe(own)
        lanes = [self._describe_lane(index, spec, each) for index, each in enumerate(lanes_of(given)[:MOST_LANES])]
        values: dict[str, Any] = {name: field.value for name, field in own.by_name.items()}
        values |= {"lanes": [each.values for each in lanes]} if lanes else {}
        html = render(
            f"settings/templates/{self._scope}.html.jinja", fields=own.by_name, lanes=lanes, least=LEAST_LANES, most=MOST_LANES,
            note=self._note(given, spec, drawn=drawn), limits=services.limits.sentence(sweep=not lanes),
            label=self._label(values),
        )  # fmt: skip
        return to_json({"html": html, "values": values, "at": as_number(given.get("at"))})

    def spec(self, values: Values) -> PairSpec | None:
        """The chosen pair; None: one's own. A key that is unknown is the first pair's."""
        key = values.get("pair")
        if key == CUSTOM and self.services.own_models:
            return None
        return next((spec for spec in self.services.catalog if spec.key == key), self.services.catalog[0])

    def _note(self, values: Values, spec: PairSpec | None, *, drawn: bool) -> Note:
        """What the pair can do, and what memory it needs, which is not for strangers; of one's own what can be given."""
        if spec is None and any(values.get(name) for name in OWN):
            try:
                spec = own_pair(*(as_text(values.get(name)) for name in OWN))
            except ValueError as error:
                return str(error), "bad", ()
        if spec is None:
            return ABOUT_OWN, "ok", ()
        sizes = " → ".join(parameters(size) for size in (spec.draft_parameters, spec.target_parameters) if size)
        facts = [f"{sizes} parameters"] if sizes else []
        fit = self.services.pool.fits(spec) if drawn else None
        if fit and fit.needed_bytes and not self.services.public:
            verdict = "fits" if fit.fits else "does not fit"
            needed, free = memory(fit.needed_bytes), memory(fit.available_bytes)
            facts.append(f"needs {needed}, {free} free on {fit.device}: {verdict}")
        return spec.note, "bad" if fit and fit.needed_bytes and not fit.fits else "ok", facts

    def changed(self, value: str | None, changed: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        values = parse(value)
        index, lanes = changed.get("lane"), lanes_of(values)
        where = values if index is None else lanes[index] if isinstance(index, int) and 0 <= index < len(lanes) else {}
        for reset in RESETS.get(str(changed.get("changed")), ()):
            where.pop(reset, None)
        return self.value(values), values

    def wire(
        self,
        follow: Callable[..., tuple[Any, ...]] = lambda *_: (),
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
    ) -> None:
        """What follows from a changed field is shown. ``follow``: values for ``outputs`` from the name of that field, all values and those
        of ``inputs``."""

        def redraw(event: gr.EventData, value: str | None, *given: Any) -> tuple[Any, ...]:
            changed = event_data(event)
            shown, values = self.changed(value, changed)
            return shown, *follow(str(changed.get("changed")), values, *given)

        self.component.select(
            redraw, [self.component, *inputs], [self.component, *outputs], trigger_mode="always_last", **PRIVATE
        )
