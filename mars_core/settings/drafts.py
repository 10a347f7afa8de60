"""Where drafts come from, and the lanes: rules, each with drafts of its own where it has some."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mars_core.drafting import DRAFTERS, drafter_kind, offered
from mars_core.drafting.model import MODEL
from mars_core.models import PairSpec
from mars_core.numbers import check_lanes, quoted, read_number
from mars_core.rules import PLAIN, RULES, Rule, split_values
from mars_core.settings.kind import CHAIN, Text, Tree, Whole, Words
from mars_core.settings.setting import checked, kinds, setting
from mars_core.types import (
    MAX_DRAFT,
    SERVER,
    DrafterConfig,
    DraftMode,
    Parameters,
    RuleConfig,
    TreeShape,
    number_text,
)

_RULE = re.compile(r"([a-z0-9-]+)\s*(?:\((.*)\))?", re.DOTALL)
AUTO = "auto"  # the drafter that the pair begins with
SERVED = ("server", "server_model")  # fields of a lane that is a server
_LONGEST_RULE = 1000  # characters, of several expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """A default leaves it to the pair. ``drafter`` may name a model: ``eagle3:ID``."""

    drafter: str = setting(
        "",
        Text(
            f"{', '.join(each.option or name for name, each in DRAFTERS.items())} (default: the "
            "pair's)",
            section="run",
            title="Drafts from",
        ),
    )
    k: int | None = setting(
        None,
        Whole(
            "drafted tokens a step, for chains (default: the pair's)",
            *(1, MAX_DRAFT),
            section="run",
            title="K, drafted tokens",
        ),
    )
    draft_mode: str = setting(
        DraftMode.COUPLED.value,
        Text(
            "drafts drawn with the target's own noise (coupled), the likeliest ones "
            "(greedy), or drawn with other noise (sampled)",
            tuple(DraftMode),
            section="mode",
        ),
    )
    tree: TreeShape | str = setting(
        "",
        Tree(
            "eagle3: drafted nodes, longest path and nodes expanded per depth of a tree, or a chain "
            "of K (default: the pair's)",
            metavar=f"N/D/K|{CHAIN}",
            section="run",
            title="Tree, or chain",
        ),
    )

    def __post_init__(self) -> None:
        checked(self)

    def config(self, spec: PairSpec) -> DrafterConfig:
        """Return the drafter of runs on a pair; one without drafts or chains ignores ``k``. Raises
        ValueError."""
        kind = drafter_kind(named_drafter(self.drafter)[0] or offered(spec)[0])
        if kind.name == PLAIN:
            return DrafterConfig(PLAIN, k=0)
        if isinstance(self.tree, TreeShape) and not kind.trees:
            raise ValueError(
                f"tree is {kinds(Drafts)['tree'].text(self.tree)}; drafter {kind.name} drafts chains only."
            )
        tree = (self.tree or spec.tree) if kind.trees else None
        return DrafterConfig(
            kind.name,
            k=spec.k if self.k is None else self.k,
            mode=DraftMode(self.draft_mode),
            tree=tree if isinstance(tree, TreeShape) else None,
        )


def drafts_of(drafter: DrafterConfig) -> dict[str, Any]:
    """Return the settings of a run's drafter."""
    kind = DRAFTERS.get(drafter.kind)
    chain = kind is None or not kind.chains or drafter.tree is not None
    found = Drafts(
        drafter=drafter.kind,
        k=None if chain else drafter.k,
        draft_mode=drafter.mode.value,
        tree=(drafter.tree or CHAIN) if kind and kind.trees else "",
    )
    values = {name: getattr(found, name) for name in kinds(Drafts)}
    return {name: value for name, value in values.items() if value not in (None, "")}


def named_drafter(text: str) -> tuple[str, str]:
    """Return kind and model; empty ones are the pair's. A draft model has no prefix."""
    named = {name: each.part for name, each in DRAFTERS.items() if each is not MODEL}
    if text in ("", AUTO, MODEL.name) or text in named:
        return text.removeprefix(AUTO), ""
    kind, _, path = text.partition(":")
    return (kind, path) if named.get(kind) and path else (MODEL.name, text)


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """A rule with the parameters that were chosen. ``drafts``: settings of ``Drafts`` that are the
    lane's own. ``server``: the base URL of one that is a server, which no text of it has."""

    rule: RuleConfig
    drafts: Mapping[str, Any] = field(default_factory=dict)
    server: str = ""
    server_model: str = ""

    def config(self, spec: PairSpec) -> RuleConfig:
        """Return the rule, with the pair's θ where it has one that was not chosen."""
        known = any(each.name == "theta" for each in rule_named(self.rule.name).parameters)
        usual: Parameters = {"theta": spec.theta.value} if known else {}
        return replace(self.rule, parameters={**usual, **self.rule.parameters})

    @property
    def text(self) -> str:
        """``mars(theta=0.9,k=7)``."""
        known = kinds(Drafts)
        words = [
            f"{name}={value if isinstance(value, str) else number_text(value)}"
            for name, value in self.rule.parameters.items()
        ]
        words += [f"{name}={known[name].text(value)}" for name, value in self.drafts.items()]
        return f"{self.rule.name}({','.join(words)})" if words else self.rule.name

    @property
    def plain(self) -> str | dict[str, str]:
        """Return the lane as JSON has it."""
        if not self.server:
            return self.text
        return {"rule": SERVER, "server": self.server, "server_model": self.server_model}


EARLIER = {  # names of earlier addresses → those of now; a tree had three
    "mode": "draft_mode",
    **{f"own_{part}": part for part in ("target", "draft", "head")},
    **dict.fromkeys(("shape", "tree_tokens", "tree_depth", "tree_top_k"), "tree"),
}


def renamed(words: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the values by their names of now."""
    sizes = [words[name] for name in EARLIER if name.startswith("tree_") and name in words]
    tree = "/".join(map(str, sizes)) or (CHAIN if words.get("shape") == CHAIN else None)
    named = {EARLIER.get(name, name): each for name, each in words.items()}
    if tree or "shape" in words:
        named["tree"] = tree or words.get("tree", "")
    return named


def rule_named(name: object) -> Rule:
    """Raises ValueError."""
    if not isinstance(name, str) or name not in RULES:
        raise ValueError(f"The rule is {quoted(name)}; it must be one of {', '.join(RULES)}.")
    return RULES[name]


def read_lane(value: object) -> LaneSettings:
    """Read ``"mars(theta=0.9)"``, with the settings of its own drafts beside the parameters,
    ``{"rule": "mars", "parameters": {"theta": 0.9}}``, or ``{"rule": "server", "server": URL}``.
    Raises ValueError."""
    if isinstance(value, LaneSettings):
        return value
    if isinstance(value, RuleConfig):
        value = {"rule": value.name, "parameters": value.parameters}
    elif not isinstance(value, Mapping):
        value = _rule_text(value)
    words = value.get("parameters") or {}
    if not words and value.get("rule") == SERVER and {*value} <= {"rule", "parameters", *SERVED}:
        told = (Text("").read(value.get(name, ""), name) for name in SERVED)
        return LaneSettings(RuleConfig(SERVER), {}, *told)
    if not isinstance(words, Mapping) or set(value) - {"rule", "parameters"}:
        raise ValueError(f'A rule is {quoted(value)}; as an object it has "rule" and "parameters".')
    rule, known, words = rule_named(value.get("rule")), kinds(Drafts), renamed(words)
    drafts = {each: known[each].read(words[each], each) for each in known if each in words}
    chosen = {
        str(each): word if isinstance(word, str) else read_number(word, str(each))
        for each, word in words.items()
        if each not in known
    }
    values = rule.values(chosen)
    return LaneSettings(RuleConfig(rule.name, {each: values[each] for each in chosen}), drafts)


def _rule_text(text: object) -> dict[str, Any]:
    match = (
        _RULE.fullmatch(text.strip())
        if isinstance(text, str) and len(text) <= _LONGEST_RULE
        else None
    )
    if match is None:
        raise ValueError(f'A rule is {quoted(text)}; write it like "strict" or "mars(theta=0.9)".')
    pairs = [part.partition("=") for part in split_values(match[2] or "") if part]
    named = {key.strip(): value.strip() for key, _, value in pairs}
    if len(named) < len(pairs):
        raise ValueError(f"A rule is {quoted(text)}; each parameter can have one value.")
    return {"rule": match[1], "parameters": named}


@dataclass(frozen=True)
class LaneList(Words):
    """The lanes in their order; one stands for a list of one."""

    def items(self, value: Any) -> Any:
        items = value if isinstance(value, list | tuple) else [value]
        check_lanes(len(items))
        return items

    def item(self, value: Any, _name: str) -> LaneSettings:
        return read_lane(value)

    def plain(self, value: Any) -> Any:
        return [each.plain for each in value]
