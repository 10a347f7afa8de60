"""The values of a settings panel, as a browser sends them, and the settings that are read from them.

``EnteredValues`` are a value by name of field, and under ``lanes`` those of every lane. They can be anything
that JSON can be. Names are those of the table of settings; a tree has three numbers and a shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from mars_core.drafting import described
from mars_core.models import CUSTOM, PairSpec
from mars_core.numbers import number_of, read_number
from mars_core.rules import RULES, WHERE
from mars_core.settings import CHAIN, KINDS, Drafts, LaneSettings, Settings, read_lane, rule_named
from mars_core.settings.setting import Words, kinds
from mars_core.text.files import lines_of
from mars_core.types import TreeShape
from ui.kit.labels import parameter_title, rule_label, value_text
from ui.kit.lengths import check_lengths
from ui.settings.drafters import FIELDS, TREE, TREE_NUMBERS, taken

EnteredValues = Mapping[str, Any]
SHARED = "above"  # a lane's drafts come from the form's drafter
LEAST_LANES, FIRST_LANES, MOST_LANES = 1, 2, 4  # that may be, that there are at first, that may be
AUTO_REPEATS, AUTO_S = 3, 2.0  # runs of each lane where no number is set and none takes longer
MODELS = ("target", "draft", "head")  # of one's own
_LISTS = {name for name, kind in KINDS.items() if isinstance(kind, Words)}  # a value a line


def as_parameter(value: object) -> float | str | None:
    """Return a number, also as text, or the text of an expression; else None."""
    text = as_text(value).strip()
    number = number_of(value)
    return text or None if number is None else number


def as_text(value: object) -> str:
    """Empty unless it is a string."""
    return value if isinstance(value, str) else ""


def parse(value: object) -> dict[str, Any]:
    """Read the values of a panel, from the JSON that the browser sends; empty if it is malformed.
    Raises LengthError for a field that is too long."""
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
    """Return the values of every lane, the baseline first."""
    lanes = values.get("lanes")
    return [each for each in lanes if isinstance(each, dict)] if isinstance(lanes, list) else []


def applied(values: EnteredValues) -> dict[str, Any]:
    """Return the values without those that their drafter does not take."""
    known = taken(as_text(values.get("drafter")), as_text(values.get("shape", TREE)))
    return {name: each for name, each in values.items() if name not in FIELDS or name in known}


def seeded(values: EnteredValues) -> bool:
    """Return whether another seed can write another text: at temperature 0 only under a rule that
    draws."""
    rules = [RULES[each["rule"]] for each in lanes_of(values) if each.get("rule") in RULES]
    draws = [rule for rule in rules if rule.relaxes != 0 and rule.margin_threshold is None]
    return number_of(values.get("temperature")) != 0 or bool(draws)


def read_settings(values: EnteredValues, prompt: str | None = "", *names: str) -> Settings:
    """Read the settings of Compare or Votes; ``names``: only of these fields, without lanes. Raises
    ValueError."""
    words = _words(values) | {"prompt": prompt}
    if values.get("pair") != CUSTOM:
        words = {name: each for name, each in words.items() if name not in MODELS}
    elif not as_text(words.get("target")).strip():
        raise ValueError(
            "The target model is empty; give a Hub id (owner/name) or the path of a folder."
        )
    else:
        del words["pair"]
    if names:
        return Settings(**{name: each for name, each in words.items() if name in names})
    lanes = lanes_of(values)
    if not LEAST_LANES <= len(lanes) <= MOST_LANES:
        raise ValueError(f"{len(lanes)} rules were chosen; the page compares 1 to {MOST_LANES}.")
    return Settings(**words, rules=tuple(map(read_lane_values, lanes)))


def read_lane_values(values: EnteredValues) -> LaneSettings:
    """Read a rule, with its drafts where they are not those of the form. Raises ValueError."""
    rule = rule_named(values.get("rule"))
    chosen = {each.name: as_parameter(values.get(each.name)) for each in rule.settable}
    parameters = {
        name: each if isinstance(each, str) else read_number(each, parameter_title(name))
        for name, each in chosen.items()
        if each is not None or name != WHERE.name
    }
    lane = read_lane({"rule": rule.name, "parameters": parameters})
    if values.get("drafter", SHARED) == SHARED:
        return lane
    drafts = {name: each for name, each in _words(values).items() if name in kinds(Drafts)}
    return replace(lane, drafts=drafts)


def _words(values: EnteredValues) -> dict[str, Any]:
    """Return them as ``Settings`` takes them. A number that is missing is refused by name."""
    words = {name: "" if each is None else each for name, each in applied(values).items()}
    if TREE_NUMBERS[0] in words:
        words["tree"] = "/".join(str(words.get(name, "")) for name in TREE_NUMBERS)
    elif words.get("shape") == CHAIN:
        words["tree"] = CHAIN
    for name in _LISTS & words.keys():
        lines = [
            line.strip() if name == "protect" else line for line in lines_of(as_text(words[name]))
        ]
        words[name] = [*filter(None, lines)]
    if words.get("thinking") == "default":
        del words["thinking"]
    return {name: each for name, each in words.items() if name in KINDS and name != "rules"}


def settings_values(settings: Settings) -> dict[str, Any]:
    """Return the values from which ``read_settings`` reads these settings, but for the prompt."""
    values = {
        name: field_values(name, getattr(settings, name))
        for name in KINDS
        if name not in ("prompt", "rules")
    }
    flat = {name: each for fields in values.values() for name, each in fields.items()}
    own = {"pair": CUSTOM} if settings.target else {}
    return flat | own | {"lanes": [lane_values(lane) for lane in settings.rules]}


def lane_values(lane: LaneSettings) -> dict[str, Any]:
    values = {"rule": lane.rule.name, **lane.rule.parameters}
    for name, value in lane.drafts.items():
        values |= field_values(name, value)
    return values


def field_values(name: str, value: Any) -> dict[str, Any]:
    """Return what the fields of a setting hold; nothing where they have their default."""
    if name == "thinking":
        return {name: "default" if value is None else KINDS[name].text(value)}
    if name == "tree":
        sizes = (
            zip(TREE_NUMBERS, astuple(value), strict=True) if isinstance(value, TreeShape) else ()
        )
        return {"shape": TREE if sizes else CHAIN, **dict(sizes)} if value else {}
    if value in (None, ""):
        return {}
    return {name: KINDS[name].text(value) if name in _LISTS else value}


def settings_label(values: EnteredValues, catalog: Sequence[PairSpec]) -> str:
    """Return what the values request, in one line, as they are."""
    pair = next((spec.title for spec in catalog if spec.key == values.get("pair")), "own pair")
    lanes = " | ".join(map(_lane_label, lanes_of(values)))
    kind, fields = described(as_text(values.get("drafter"))), applied(values)
    length = (
        ["tree"]
        if TREE_NUMBERS[0] in fields
        else [f"K = {value_text(fields.get('k'))}"] * ("k" in fields)
    )
    drafts = ", ".join([kind.title if kind.chains else kind.drafts, *length])
    numbers = (
        f"T = {value_text(values.get('temperature'))} · "
        f"{value_text(values.get('max_new_tokens'))} tokens · seed {value_text(values.get('seed'))}"
    )
    return f"Settings:  {lanes}  ·  {pair}  ·  {drafts}  ·  {numbers}"


def _lane_label(lane: EnteredValues) -> str:
    name = as_text(lane.get("rule"))
    known = [each.name for each in RULES[name].settable] if name in RULES else []
    chosen = {each: as_parameter(lane.get(each)) for each in known}
    return rule_label(
        name, {each: value for each, value in chosen.items() if (each, value) != (WHERE.name, None)}
    )


def lane_with_theta(lanes: Sequence[EnteredValues], theta: float) -> dict[str, Any]:
    """Return the latest lane whose rule has a θ, else the last one under MARS, with this θ."""
    lane = next(
        (lane for lane in reversed(lanes) if "theta" in lane), {**lanes[-1], "rule": "mars"}
    )
    kept = ("rule", "drafter", *FIELDS)
    return {name: each for name, each in lane.items() if name in kept} | {"theta": theta}
