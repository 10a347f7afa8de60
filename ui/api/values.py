"""What a program may ask for, read from JSON: anything can come, and what cannot be meant gets one clear sentence. No gradio."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mars_core.models import PairSpec
from mars_core.rules import RULES
from ui.settings.drafter import offered, tree_shape
from ui.settings.form import CHAIN, TREE, LaneForm

AUTO = "auto"
_RULE = re.compile(r"([a-z0-9-]+)\s*(?:\((.*)\))?", re.DOTALL)
_LONGEST_RULE = 400  # characters


def read_text(value: object, name: str) -> str:
    """Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_shown(value)}; it must be text.")
    return value


def read_texts(value: object, name: str) -> tuple[str, ...]:
    """A list of texts; one text stands for a list of one, nothing for an empty one. Raises ValueError."""
    items = [value] if isinstance(value, str) and value else value or []
    if not isinstance(items, list | tuple):
        raise ValueError(f"{name} is {_shown(value)}; it must be a list of texts.")
    return tuple(read_text(item, name) for item in items)


def read_flag(value: object, name: str) -> bool:
    """Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {_shown(value)}; it must be true or false.")
    return value


def read_ids(value: object) -> tuple[int, ...]:
    """Token ids. Raises ValueError."""
    items = value or []
    if not isinstance(items, list | tuple) or not all(type(item) is int for item in items):
        raise ValueError(f"prefix is {_shown(value)}; it must be a list of token ids.")
    return tuple(items)


def read_whole(value: object, name: str, low: int, high: int) -> int:
    """A whole number in a range. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not float(value).is_integer():
        raise ValueError(f"{name} is {_shown(value)}; it must be a whole number.")
    if not low <= value <= high:
        raise ValueError(f"{name} is {int(value)}; it must be {low} to {high}.")
    return int(value)


def read_rules(value: object) -> tuple[LaneForm, ...]:
    """Rules as ``"mars(theta=0.9)"`` or ``{"rule": "mars", "parameters": {"theta": 0.9}}``: one, a list, or a list as JSON text.

    Raises ValueError for what is no rule, has a parameter that its rule has not, or one out of its range.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"rules is no JSON: {error}.") from None
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError('rules is empty; give at least one, such as "strict" or "mars(theta=0.9)".')
    return tuple(map(_lane, items))


def _lane(item: object) -> LaneForm:
    name, given = _named(item) if isinstance(item, Mapping) else _written(item)
    if name not in RULES:
        raise ValueError(f"The rule is {name[:80]!r}; it must be one of {', '.join(RULES)}.")
    return LaneForm(name, RULES[name].values(given))


def _named(item: Mapping[Any, Any]) -> tuple[str, dict[str, float]]:
    """A rule as an object."""
    unknown = [key for key in item if key not in ("rule", "parameters")]
    parameters = item.get("parameters") or {}
    if "rule" not in item or unknown or not isinstance(parameters, Mapping):
        raise ValueError(f'A rule is {_shown(item)}; as an object it has "rule" and "parameters".')
    return read_text(item["rule"], "rule"), {str(key): _number(value, str(key)) for key, value in parameters.items()}


def _written(item: object) -> tuple[str, dict[str, float]]:
    """A rule as text: its name, and its parameters in brackets."""
    found = _RULE.fullmatch(item.strip()) if isinstance(item, str) and len(item) <= _LONGEST_RULE else None
    if found is None:
        raise ValueError(f'A rule is {_shown(item)}; write it like "strict" or "mars(theta=0.9)".')
    given: dict[str, float] = {}
    for part in filter(None, map(str.strip, (found[2] or "").split(","))):
        name, _, value = map(str.strip, part.partition("="))
        given[name] = _number(value, name)
    return found[1], given


def _number(value: object, name: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        return float(value)
    except ValueError:
        raise ValueError(f"{name[:80]} is {_shown(value)}; it must be a number.") from None


def read_drafter(value: object, tree: object, spec: PairSpec) -> dict[str, Any]:
    """Fields of a form: where drafts come from. ``auto``: the first that the pair has. Raises ValueError."""
    kinds = offered(spec)
    kind = kinds[0] if value in (AUTO, "") else read_text(value, "drafter")
    if kind not in kinds:
        raise ValueError(f"drafter is {kind[:80]!r}; the pair {spec.key} has {', '.join((AUTO, *kinds))}.")
    return {"drafter": kind, **_tree(read_text(tree, "tree").strip(), spec)}


def _tree(said: str, spec: PairSpec) -> dict[str, Any]:
    if said == CHAIN:
        return {"shape": CHAIN}
    shape = tree_shape(spec)
    numbers = said.split(",") if said else [str(shape.tokens), str(shape.depth), str(shape.top_k)]
    try:
        tokens, depth, top_k = map(int, numbers)
    except ValueError:
        raise ValueError(
            f"tree is {said[:80]!r}; write drafted tokens, depth and top-k, such as 12,6,2, or {CHAIN}."
        ) from None
    return {"shape": TREE, "tree_tokens": tokens, "tree_depth": depth, "tree_top_k": top_k}


def choose_pair(key: object, catalog: Sequence[PairSpec]) -> PairSpec:
    """The pair of that key; nothing: the first. Raises ValueError."""
    wanted = read_text(key, "pair") or catalog[0].key
    found = next((spec for spec in catalog if spec.key == wanted), None)
    if found is None:
        raise ValueError(f"pair is {wanted[:80]!r}; it must be one of {', '.join(spec.key for spec in catalog)}.")
    return found


def _shown(value: object) -> str:
    return repr(value)[:80]
