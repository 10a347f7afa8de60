"""The values of a settings panel, as a browser sends them or an address has them, and the settings
that are read from them.

``EnteredValues`` are a value by name of field, and under ``lanes`` those of every lane. They can be
anything that JSON can be. Names are those of the table of settings. A stored comparison
is such settings too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from display.names import rule_label
from mars_core.drafting import DRAFTERS, described
from mars_core.jobs import Accelerator
from mars_core.models import CUSTOM, PairSpec
from mars_core.numbers import number_of
from mars_core.rules import RULES, WHERE
from mars_core.settings import CHAIN, KINDS, Drafts, LaneSettings, Settings, read_lane, rule_named
from mars_core.settings.drafts import EARLIER, SERVED, renamed
from mars_core.settings.kind import Flag, Number, Protected, SettingKind, Words
from mars_core.settings.links import NAMES
from mars_core.settings.recorded import first_drafting, settings_of
from mars_core.settings.setting import kinds
from mars_core.text.files import lines_of
from mars_core.types import SERVER, RunConfig, TreeShape
from storage import StoredComparison
from ui.kit.lengths import check_lengths

EnteredValues = Mapping[str, Any]
SHARED = "above"  # a lane's drafts come from the form's drafter
LEAST_LANES, FIRST_LANES, MOST_LANES = 1, 2, 4  # that may be, that there are at first, that may be
AUTO_REPEATS, AUTO_S = 3, 2.0  # runs of each lane where no number is set and none takes longer
MODELS = ("target", "draft", "head")  # of one's own
DRAFTS = ("k", "tree", "draft_mode")  # fields that not every drafter takes
LINK_NAMES = ("prompt", "rule", *NAMES, *EARLIER)  # of settings, in an address


def taken(drafter: str, tree: str) -> frozenset[str]:
    """Return which of ``DRAFTS`` a drafter takes."""
    kind = DRAFTERS.get(drafter)
    if kind is None:
        return frozenset()
    chain = kind.chains and (tree == CHAIN or not kind.trees)
    takes = {"k": chain, "tree": kind.trees, "draft_mode": len(kind.modes) > 1}
    return frozenset(name for name, does in takes.items() if does)


def tree_text(spec: PairSpec | None) -> str:
    """Return the tree that is drafted unless something else is requested."""
    tree = spec.tree if spec else TreeShape()
    return KINDS["tree"].text(tree) if tree else CHAIN


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


def read_beside(value: object) -> tuple[dict[str, str], dict[int, str]]:
    """Return the keys of servers by address, and the answers that were pasted by lane, from the
    JSON that the browser sends; nothing if it is malformed."""
    try:
        lanes = [(str(url), str(key), str(answer)) for url, key, answer in json.loads(str(value))]
    except (ValueError, TypeError, RecursionError):
        lanes = []
    answers = {lane: answer for lane, (_, _, answer) in enumerate(lanes)}
    return {url: key for url, key, _ in lanes}, answers


def applied(values: EnteredValues) -> dict[str, Any]:
    """Return the values without those that their drafter does not take."""
    known = taken(as_text(values.get("drafter")), as_text(values.get("tree")))
    return {name: each for name, each in values.items() if name not in DRAFTS or name in known}


def seeded(values: EnteredValues) -> bool:
    """Return whether another seed can write another text: at temperature 0 only under a rule that
    draws."""
    rules = [RULES[each["rule"]] for each in lanes_of(values) if each.get("rule") in RULES]
    draws = [rule for rule in rules if rule.relaxes != 0 and rule.margin_threshold is None]
    return number_of(values.get("temperature")) != 0 or bool(draws)


def read_settings(values: EnteredValues, prompt: str | None = "", *names: str) -> Settings:
    """Read the settings of Compare or Votes; ``names``: only of these fields, without lanes. Raises
    ValueError."""
    words = words_of(values) | {"prompt": prompt}
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
    if values.get("rule") == SERVER:
        told = {name: as_text(values.get(name)).strip() for name in SERVED}
        return read_lane({"rule": SERVER} | told)
    rule = rule_named(values.get("rule"))
    words = {each.name: as_parameter(values.get(each.name)) for each in rule.settable}
    words = {name: each for name, each in words.items() if (name, each) != (WHERE.name, None)}
    if values.get("drafter", SHARED) != SHARED:
        words |= {name: each for name, each in words_of(values).items() if name in kinds(Drafts)}
    return read_lane({"rule": rule.name, "parameters": words})


def words_of(values: EnteredValues, table: Mapping[str, SettingKind] = KINDS) -> dict[str, Any]:
    """Return those of a table as its class takes them. A number that is missing is refused by
    name."""
    held = applied(values)
    words = {name: _read(table[name], held[name]) for name in table if name in held}
    empty = {name for name in words if words[name] == "" and isinstance(table[name], Flag)}
    return {name: each for name, each in words.items() if name not in {*empty, "rules"}}


def _read(kind: SettingKind, value: Any) -> Any:
    """Return what a field holds, as the kind of its setting reads it."""
    if not isinstance(kind, Words):
        return "" if value is None else value
    lines = lines_of(as_text(value))
    return [*filter(None, map(str.strip, lines) if isinstance(kind, Protected) else lines)]


def read_link(words: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Read the values of an address such as ``?rule=strict&k=7``, with those that are none left
    out, and one sentence on the first of these. ``words``: texts by name, and ``rules``, a list.
    Everything in an address is hostile."""
    values, wrong = dict[str, Any](), list[str]()
    texts = renamed({name: text for name in LINK_NAMES[2:] if (text := as_text(words.get(name)))})
    for name, text in texts.items():
        kind = KINDS[name]
        try:
            values |= field_value(name, kind.read(_read(kind, text), name))
        except ValueError as error:
            wrong.append(str(error))
    rules = words.get("rules")
    try:
        known = rules if isinstance(rules, list) else []
        lanes = [lane_values(read_lane(as_text(text))) for text in known]
        values |= {"lanes": lanes} if lanes else {}
    except ValueError as error:
        wrong.append(str(error))
    return values | ({"pair": CUSTOM} if values.get("target") else {}), wrong[0] if wrong else ""


def settings_values(settings: Settings) -> dict[str, Any]:
    """Return the values from which ``read_settings`` reads these settings, but for the prompt."""
    values: dict[str, Any] = {"lanes": [lane_values(lane) for lane in settings.rules]}
    for name in KINDS.keys() - {"prompt", "rules"}:
        values |= field_value(name, getattr(settings, name))
    return values | ({"pair": CUSTOM} if settings.target else {})


def lane_values(lane: LaneSettings) -> dict[str, Any]:
    values: dict[str, Any] = {"rule": lane.rule.name, **lane.rule.parameters}
    for name, value in lane.drafts.items():
        values |= field_value(name, value)
    told = {name: getattr(lane, name) for name in SERVED if lane.rule.name == SERVER}
    return values | told


def field_value(name: str, value: Any) -> dict[str, Any]:
    """Return what the field of a setting holds, by its name; nothing where it has its default."""
    kind = KINDS[name]
    if value in (None, ""):
        return {}
    as_is = isinstance(kind, Number) or (isinstance(kind, Flag) and kind.default)
    return {name: value if as_is else kind.text(value)}


def settings_label(
    values: EnteredValues, catalog: Sequence[PairSpec], accelerator: Accelerator
) -> str:
    """Return what the values request, in one line, with what it takes of the visitor's quota where
    there is one; or what is wrong with them."""
    try:
        settings = read_settings(values)
        spec = settings.spec(catalog)
        drafter = settings.config(spec)
    except ValueError as error:
        return f"Settings:  {error}"
    lanes = " | ".join(rule_label(each.rule.name, each.rule.parameters) for each in settings.rules)
    kind = described(drafter.kind)
    drafts = f"{kind.title}, {'tree' if drafter.tree else f'K = {drafter.k}'}"
    numbers = (
        f"T = {settings.temperature:g} · {settings.max_new_tokens} tokens · seed {settings.seed}"
    )
    drafts = drafts if kind.chains else kind.drafts
    runs = len(settings.rules) * max(1, settings.repeats)
    reserved = accelerator.reserves_s(spec, [settings.max_new_tokens] * runs)
    cost = f"  ·  asks for {reserved} s of your GPU quota" if reserved else ""
    return f"Settings:  {lanes}  ·  {spec.title}  ·  {drafts}  ·  {numbers}{cost}"


def lane_with_theta(lanes: Sequence[EnteredValues], theta: float) -> dict[str, Any]:
    """Return the latest lane whose rule has a θ, else the last one under MARS, with this θ."""
    lane = next(
        (lane for lane in reversed(lanes) if "theta" in lane), {**lanes[-1], "rule": "mars"}
    )
    kept = ("rule", "drafter", *DRAFTS)
    return {name: each for name, each in lane.items() if name in kept} | {"theta": theta}


def stored_settings(stored: StoredComparison, catalog: Sequence[PairSpec]) -> Settings:
    """Return the settings of Compare that repeat the first turn of this comparison, without a
    continuation. Raises ValueError where it has no run, or that turn is not there."""
    config = richest(stored)
    if config is None:
        raise ValueError("This comparison has no run, so that there are no settings to load.")
    if config.served:
        raise ValueError(
            "This is a run of a server, whose models are not loaded here; Compare cannot repeat it."
        )
    if len(config.prompt.history) > len(stored.earlier):
        raise ValueError(
            f"This is turn {len(config.prompt.history) + 1} of a conversation whose first turn is "
            "not in this comparison."
        )
    settings = settings_of([run.trace.config for run in stored.runs], catalog)
    repeats = 1 + len(stored.repeats) // len(stored.runs) if stored.repeats else 0
    prompt = stored.turns[0].prompt.text
    return replace(settings, prompt=prompt, repeats=repeats, prefix=())


def few(stored: StoredComparison, wanted: Collection[str]) -> StoredComparison:
    """Return at most as many runs as the page has lanes: a study compares more. Those that are
    wanted, by id, else the first ones."""
    if len(stored.runs) <= MOST_LANES:
        return stored
    chosen = [run for run in stored.runs if run.id in wanted] or stored.runs
    runs = tuple(replace(run, lane=lane) for lane, run in enumerate(chosen[:MOST_LANES]))
    return replace(stored, runs=runs, repeats=())


def richest(stored: StoredComparison) -> RunConfig | None:
    configs = [run.trace.config for run in stored.runs]
    return first_drafting(configs) if configs else None
