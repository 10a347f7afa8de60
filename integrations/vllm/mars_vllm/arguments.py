"""What a request specifies: the rule, its parameters and where it decides, read from
``SamplingParams.extra_args`` and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mars_core.rules import RULES, Rule
from mars_core.rules.expression import SCOPES, Span, parse
from mars_core.types import numbers
from mars_vllm.served import Served

# Rules that vLLM's rejection sampler follows exactly once the relaxed rows are forced; those of
# ``GREEDY_ONLY`` at temperature 0 only, since above it they draw a random number, or replace the
# token that vLLM draws.
OFFERED = (
    "strict",
    "mars",
    "mars-algorithm1",
    "mars-gap",
    "always",
    "cascade-token",
    "lenience",
    "random",
    "threshold",
    "topk-delta",
    "topk-ratio",
    "typical",
)
GREEDY_ONLY = frozenset({"mars-algorithm1", "lenience", "topk-delta", "topk-ratio"})
_IDS = re.compile(r"\[\d{1,9}(, *\d{1,9})*\]")
_KNOWN = {"position", "thinking"}  # of a scope's variables
COUNT = "n"  # the parameter of the top-k rules that must be an int on the host
# Sampling parameters that change the logits before a V2 logits processor sees them, or exclude
# tokens: value when unused.
_ALTERING = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
    "min_tokens": 0,
}


class RuleGroup(NamedTuple):
    """Requests whose rows are judged in one call of a rule."""

    rule: str
    greedy: bool
    top: int  # the value of ``COUNT``; 0 for rules without it
    protected: tuple[int, ...] = ()  # ids that are not relaxed
    scope: str = ""  # an expression; strict decides where it is 0
    guarded: bool = False  # it has a grammar, under which strict decides

    @property
    def placed(self) -> bool:
        """Whether it is decided by the place in the output."""
        return bool(self.scope) or self.guarded

    @property
    def tempered(self) -> bool:
        """Whether the rule reads p above temperature 0; other groups are judged on raw logits."""
        return not self.greedy and needs_p(self.rule)


@dataclass(frozen=True, slots=True)
class RequestRule:
    """A rule with all its parameters, checked, at the temperature of the request."""

    rule: Rule
    values: Mapping[str, float]
    trace: bool
    group: RuleGroup
    span: Span | None = None  # of the thinking phase, where it is known


def defaults(environment: Mapping[str, str]) -> dict[str, Any]:
    """Read the ``mars_*`` arguments of requests that give none, from MARS_RULE, MARS_SCOPE,
    MARS_THETA, MARS_GAP … Raises ValueError."""
    names = sorted({parameter.name for rule in OFFERED for parameter in RULES[rule].parameters})
    fields: dict[str, Any] = {}
    for name in names:
        if text := environment.get(f"MARS_{name.upper()}"):
            try:
                fields[f"mars_{name}"] = float(text)
            except ValueError:
                raise ValueError(
                    f"MARS_{name.upper()} must be a number, not {_quoted(text)}."
                ) from None
    words = {name: environment.get(f"MARS_{name.upper()}") for name in ("rule", "scope")}
    return fields | {f"mars_{name}": text for name, text in words.items() if text}


def default_rule(default: Mapping[str, Any]) -> str:
    """Return the rule of requests that name none, for display."""
    return str(default.get("mars_rule", "mars" if default else "none"))


def resolve(params: Any, served: Served) -> RequestRule | None:
    """Return the rule a request specifies; None if neither it nor the defaults name one.

    The defaults' parameters and scope apply to requests of the same rule. Raises ValueError: one
    sentence with field, value and range.
    """
    extra, default = params.extra_args or {}, served.default
    fields = {key: value for key, value in extra.items() if str(key).startswith("mars_")}
    words = fields.pop("mars_protect", "")
    ends = getattr(params, "all_stop_token_ids", ())
    protected = _protected(words, {*served.special, *ends})
    trace = fields.pop("mars_trace", 0)
    if type(trace) is not int or trace not in (0, 1):
        raise ValueError(f"mars_trace must be 0 or 1, not {_quoted(trace)}.")
    if trace and not served.traced:
        raise ValueError(
            "mars_trace is 1, but vLLM was started without MARS_TRACE, the path of the trace file."
        )
    if not fields and not trace and words == "" and not default:
        return None
    usual = default.get("mars_rule", "mars" if fields or words != "" or default else "strict")
    name = fields.pop("mars_rule", usual)
    if not isinstance(name, str) or name not in OFFERED:
        raise ValueError(f"mars_rule must be one of {', '.join(OFFERED)}, not {_quoted(name)}.")
    rule, greedy = RULES[name], params.temperature < 1e-5  # vLLM's limit of greedy sampling
    if name == usual:
        fields = {key: value for key, value in default.items() if key != "mars_rule"} | fields
    scope = _scope(fields.pop("mars_scope", "all"))
    values = _values(rule, fields)
    if not greedy and name in GREEDY_ONLY:
        raise ValueError(
            f"temperature must be 0 with mars_rule {name}, not {params.temperature:g}."
        )
    if not greedy and values.get("accumulated", 1) != 1:
        raise ValueError(
            f"mars_accumulated must be 1 above temperature 0, not {values['accumulated']:g}."
        )
    guarded = getattr(params, "structured_outputs", None) is not None
    group = RuleGroup(name, greedy, int(values.get(COUNT, 0)), protected, scope, guarded)
    return RequestRule(rule, values, bool(trace), group, served.span(scope, guarded))


def _protected(words: object, usual: set[int]) -> tuple[int, ...]:
    """Return the ids of ``mars_protect`` and the usual ones; none at all for "none" and an empty
    list."""
    text = str(words) if isinstance(words, list) and len(words) <= 1000 else words
    if text in ("none", "[]"):
        return ()
    ids = "[]" if text == "" else text
    if not isinstance(ids, str) or len(ids) > 1000 or (ids != "[]" and not _IDS.fullmatch(ids)):
        raise ValueError(
            "mars_protect must be none or token ids in at most 1000 characters, such as "
            f"'[42, 7]', not {_quoted(words)}."
        )
    return tuple(sorted({*usual, *map(int, re.findall(r"\d+", ids))}))


def _scope(words: object) -> str:
    """Return the expression of ``mars_scope``, empty for all positions."""
    if words == "all":
        return ""
    if not isinstance(words, str):
        raise ValueError(
            "mars_scope must be all, thinking, answer or an expression of position and thinking, "
            f"not {_quoted(words)}."
        )
    scope = SCOPES.get(words, words)
    try:
        unknown = parse(scope).names - _KNOWN
    except ValueError as error:
        raise ValueError(f"mars_scope {error}.") from None
    if unknown:
        raise ValueError(
            f"mars_scope reads {', '.join(sorted(unknown))}; in vLLM position and thinking are "
            "known only."
        )
    return scope


def _values(rule: Rule, fields: Mapping[str, Any]) -> dict[str, float]:
    """Read them as everywhere else, but expressions, for which a request has no position."""
    named = {ascii(field)[6:-1]: value for field, value in fields.items()}  # after 'mars_
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"mars_{name} must be a number, not {_quoted(value)}.")
    values = numbers(rule.values(named))
    if expressions := ", ".join(named.keys() - values.keys()):
        raise ValueError(f"mars_{expressions} is an expression, which a request cannot have.")
    return values


def conflict(wanted: RequestRule, params: Any, filtered_later: bool) -> str | None:
    """Return a sentence if other sampling parameters would make the rule judge altered logits; else
    None.

    ``filtered_later``: top-k, top-p and min-p are applied after the rule (runner V2).
    """
    fields = dict(_ALTERING)
    if filtered_later and wanted.group.tempered:
        fields |= {"top_p": 1, "top_k": 0, "min_p": 0}
    for field, unused in fields.items():
        value = getattr(params, field, unused)
        if value and value != unused and not (field == "top_k" and value < 0):
            return (
                f"{field} must be {unused} with mars_rule {wanted.rule.name}, not {_quoted(value)}."
            )
    return None


def needs_p(rule: str) -> bool:
    """Return whether the rule reads a distribution; the others read the two best logits and the
    drafted token only."""
    return rule not in ("strict", "mars", "mars-algorithm1", "mars-gap", "random", "always")


def _quoted(value: object) -> str:
    """Return the value as an escaped literal of at most 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
