"""Settings as an address, such as ``?prompt=Hello&rule=strict&rule=mars(theta=0.9)&k=7``. The names
are those of the form's fields. Everything in an address is hostile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from mars_core.numbers import number_of, quoted, read_number
from mars_core.rules import PLAIN
from ui.settings.drafters import FIELDS, taken
from ui.settings.form import DraftForm, Form
from ui.settings.rule_text import read_rule_text, rule_of
from ui.settings.values import EnteredValues, as_text, form_values, lane_values

_FIELDS: Mapping[str, Field[Any]] = {
    each.name: each for each in fields(Form) if each.name not in ("prompt", "lanes")
}
NAMES = ("prompt", "rule", *_FIELDS)
_OF_LANES = {each.name for each in fields(DraftForm)}
_OF_PAIRS = ("drafter", "repeats")  # whose defaults on the page are not those of the form


def settings_link(form: Form) -> dict[str, Any]:
    """The names of an address that hold this form; what has its default is left out."""
    values = applied(form_values(form))
    named = {
        name: _text(values[name]) or (PLAIN if name == "protect" else "")
        for name, each in _FIELDS.items()
        if values.get(name) is not None
        and (name in (*_OF_PAIRS, *FIELDS) or values[name] != each.default)
    }
    return {"prompt": form.prompt, "rule": list(map(_rule, values["lanes"]))} | named


def applied(values: EnteredValues) -> dict[str, Any]:
    """The values without those that their drafter does not take."""
    known = taken(as_text(values.get("drafter")), as_text(values.get("shape")))
    return {name: each for name, each in values.items() if name not in FIELDS or name in known}


def _text(value: object) -> str:
    """A number as a person writes it."""
    return str(number_of(value) if isinstance(value, float) else value)


def _rule(lane: EnteredValues) -> str:
    """``mars(theta=0.9)``, in a lane that drafts in its own way with the fields of that. What has no
    value has its default."""
    named = [
        f"{name}={_text(value)}"
        for name, value in applied(lane).items()
        if name != "rule" and value is not None
    ]
    return f"{lane['rule']}({','.join(named)})" if named else str(lane["rule"])


def read_link(words: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The values of the panel, with those that are none left out, and one sentence on the first of
    these. ``words``: texts by name, and ``rules``, a list."""
    values, wrong = dict[str, Any](), list[str]()
    rules = words.get("rules")
    for name, text in [(name, as_text(words.get(name))) for name in _FIELDS]:
        if text:
            try:
                values[name] = _value(name, text)
            except ValueError as error:
                wrong.append(str(error))
    try:
        lanes = [_lane(text) for text in rules] if isinstance(rules, list) else []
        values |= {"lanes": lanes} if lanes else {}
    except ValueError as error:
        wrong.append(str(error))
    return values, wrong[0] if wrong else ""


def _value(name: str, text: str) -> Any:
    match _FIELDS[name].type:
        case "bool" if text in ("True", "False"):
            return text == "True"
        case "bool":
            raise ValueError(f"{name} is {quoted(text)}; it must be True or False.")
        case "str":
            return text
    return number_of(read_number(text, name))


def _lane(text: object) -> dict[str, Any]:
    rule, named = read_rule_text(text)
    draft = {name: _value(name, named.pop(name)) for name in _OF_LANES & named.keys()}
    return lane_values(rule_of(rule, named)) | draft
