"""The values of a settings panel, as a browser sends them, and the forms that are read from them.

``EnteredValues`` are a value by name of field, and under ``lanes`` those of every lane. They can be anything
that JSON can be: ``read`` gives a form texts and numbers only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from mars_core.numbers import number_of
from mars_core.rules import RULES, WHERE
from ui.kit.lengths import check_lengths
from ui.settings.form import DraftForm, Form, LaneForm

EnteredValues = Mapping[str, Any]
SHARED = "above"  # a lane's drafts come from the form's drafter


def as_parameter(value: object) -> float | str | None:
    """A number, also as text, or the text of an expression; else None."""
    text = as_text(value).strip()
    number = number_of(value)
    return text or None if number is None else number


def as_text(value: object) -> str:
    """Empty unless it is a string."""
    return value if isinstance(value, str) else ""


def parse(value: object) -> dict[str, Any]:
    """The values of a panel, from the JSON that the browser sends; empty if it is malformed. Raises
    LengthError for a field that is too long."""
    try:
        values = (
            json.loads(value, parse_float=number_of, parse_constant=number_of)["values"]
            if isinstance(value, str)
            else {}
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    values = values if isinstance(values, dict) else {}
    check_lengths(values.items())
    return values


def lanes_of(values: EnteredValues) -> list[dict[str, Any]]:
    """The values of every lane, the baseline first."""
    lanes = values.get("lanes")
    return [each for each in lanes if isinstance(each, dict)] if isinstance(lanes, list) else []


def seeded(values: EnteredValues) -> bool:
    """Whether another seed can write another text: at temperature 0 only under a rule that draws."""
    rules = [RULES[each["rule"]] for each in lanes_of(values) if each.get("rule") in RULES]
    draws = [rule for rule in rules if rule.relaxes != 0 and rule.margin_threshold is None]
    return number_of(values.get("temperature")) != 0 or bool(draws)


def read(form: type[Any], values: EnteredValues) -> dict[str, Any]:
    """Arguments of a dataclass of fields from the values of that name. A malformed
    number becomes None, which the form's reader refuses by name; a malformed text is empty. Fields that
    have a default and no value are left out."""
    readers: dict[Any, Callable[[Any], Any]] = {
        "str": as_text,
        "bool": bool,
        "float | None": number_of,
        "list[str]": lambda value: (
            [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
        ),
    }
    known = [
        each
        for each in fields(form)
        if each.type in readers and (each.name in values or each.default is MISSING)
    ]
    return {each.name: readers[str(each.type)](values.get(each.name)) for each in known}


def lane_form(values: EnteredValues) -> LaneForm:
    rule = as_text(values.get("rule"))
    names = [each.name for each in RULES[rule].parameters] if rule in RULES else []
    names += [WHERE.name] * (as_parameter(values.get(WHERE.name)) is not None)
    separate = values.get("drafter", SHARED) != SHARED
    return LaneForm(
        rule,
        {name: as_parameter(values.get(name)) for name in names},
        DraftForm(**read(DraftForm, values)) if separate else None,
    )


def lane_values(form: LaneForm) -> dict[str, Any]:
    """The values that ``lane_form`` reads as this."""
    return {"rule": form.rule, **form.parameters, **(asdict(form.draft) if form.draft else {})}


def read_form(prompt: str | None, values: EnteredValues) -> Form:
    """The values of the prompt and the panel of Compare or Votes, as they are."""
    return Form(
        **read(Form, values)
        | {"prompt": prompt or "", "lanes": tuple(map(lane_form, lanes_of(values)))}
    )


def form_values(form: Form) -> dict[str, Any]:
    """The values that ``read_form`` reads as this form, but for its prompt."""
    values = asdict(form) | {"lanes": list(map(lane_values, form.lanes))}
    del values["prompt"]
    return values
