"""The fields of a lane: its rule with parameters, and what its drafts come from. No gradio."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

from markupsafe import Markup

from display.names import rule_title
from mars_core.rules import RULES, Siblings
from mars_core.settings import KINDS
from mars_core.settings.drafts import SERVED
from mars_core.types import SERVER, DraftMode
from ui.kit.labels import LANE_NAMES, drafter_title
from ui.kit.panel import render
from ui.settings.fields import Fields, FormField
from ui.settings.values import SHARED, EnteredValues

DEFAULT_RULES = ("strict", "mars", "lenience", "typical")  # of the lanes


class LaneFields(NamedTuple):
    """A rule with its parameters, and the drafter of a lane. ``note``: HTML on the rule."""

    fields: dict[str, FormField]
    parameters: tuple[FormField, ...]
    note: Markup

    @property
    def values(self) -> dict[str, Any]:
        return {field.name: field.value for field in (*self.fields.values(), *self.parameters)}


def lane(
    index: int, form: Fields, values: EnteredValues, rules: Collection[str], *, votes: bool
) -> LaneFields:
    """Describe a rule with its parameters, and in a lane of Compare what its drafts come from: the
    drafter of ``form`` or one of its own; a server has neither. ``rules``: that are offered."""
    served = values.get("rule") == SERVER
    own = {"rule", "answer", *SERVED} if served else values.keys()
    values = {name: value for name, value in values.items() if name in own}
    id_ = f"{'votes-' if votes else ''}rule-{index}"
    fields = Fields(values, f"lane-{index}", form.spec)
    titles = [(rule_title(name), name) for name in rules]
    label = ("First rule", "Second rule")[index] if votes else f"{LANE_NAMES[index]} rule"
    rule = fields.add("rule", "choice", label, DEFAULT_RULES[index], choices=titles)
    # hidden: the browser's name of a saved answer, and a server while another rule is looked at
    for name in ("answer", *(SERVED if rule != SERVER else ())):
        fields.add(name, "text", "")
    if not votes:
        # the rule "Target alone" drafts nothing
        kinds = [(drafter_title(each), each) for each in form.drafters[:-1]]
        more = {"choices": [("As above", SHARED), *kinds], "width": 120, "visible": not served}
        fields.add("drafter", "choice", "Drafts", SHARED, **more)
        fields.setting("k", label="K, this lane")
        fields.setting("tree")
        fields.setting("draft_mode")
    by_name = fields.by_name | {"rule": replace(fields.by_name["rule"], id=id_)}
    numbers = Fields(values, f"{id_}-parameter", form.spec)
    for parameter in RULES[rule].settable if rule in RULES else ():
        numbers.parameter(RULES[rule], parameter)
    for name in SERVED if rule == SERVER else ():
        numbers.add(name, "text", KINDS[name].heading(name), placeholder=KINDS[name].help)
    return LaneFields(by_name, tuple(numbers.by_name.values()), Markup(rule_html(rule)))


def rule_html(name: str) -> str:
    """Return what the page says under the chooser: summary, formula, source and limits of a rule."""
    if name == SERVER:
        return "<p>A server writes this lane; asked at the address above.</p>"
    rule = RULES[name]
    limits = ["chains only, no tree"] if rule.siblings is Siblings.REFUSED else []
    if len(rule.modes) < len(DraftMode):
        limits.append(f"{' and '.join(rule.modes)} drafts only")
    if rule.needs_distribution:
        limits.append("needs the drafter’s probabilities")
    source = " · ".join([rule.source, *limits])
    return render("settings/templates/rule.html.jinja", rule=rule, source=source)
