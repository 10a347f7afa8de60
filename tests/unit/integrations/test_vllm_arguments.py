"""What a request to vLLM may contain, and the refusal of what it may not."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mars_core.rules import RULES
from mars_core.rules.expression import Span
from mars_vllm.arguments import GREEDY_ONLY, RequestRule, conflict, defaults, resolve
from mars_vllm.served import Served

COINS = {"mars_rule": "threshold", "mars_accumulated": 0.5}


class Tokenizer:
    """It has the tokens <a> and </a>."""

    def encode(self, text: str, **_: bool) -> list[int]:
        return [["<a>", "</a>"].index(text) + 8] if text in ("<a>", "</a>") else [1, 2]


SERVED = Served(traced=True, special=frozenset({3}), tokenizer=Tokenizer())
THINKS = replace(SERVED, phase=Span(5, 6), free=True)


def resolved(
    extra: dict[str, Any] | None, temperature: float = 0.0, served: Served = SERVED, **fields: Any
) -> RequestRule | None:
    return resolve(SimpleNamespace(extra_args=extra, temperature=temperature, **fields), served)


def named(
    extra: dict[str, Any], temperature: float = 0.0, served: Served = SERVED, **fields: Any
) -> RequestRule:
    """Of a request that gets a rule."""
    request = resolved(extra, temperature, served, **fields)
    assert request is not None
    return request


@pytest.mark.parametrize("extra", [None, {}, {"other": 1, 3: 4}])
def test_a_request_without_fields_gets_nothing(extra: dict[str, Any] | None) -> None:
    assert resolved(extra) is None


def test_a_parameter_alone_means_mars_and_a_trace_alone_strict() -> None:
    request, traced = named({"mars_theta": 0.85}), named({"mars_trace": 1})
    assert (request.rule.name, request.values, request.trace) == ("mars", {"theta": 0.85}, False)
    assert (traced.rule.name, traced.trace) == ("strict", True)


PROTECT = r"mars_protect must be none or token ids in .{1,90}\."


@pytest.mark.parametrize(
    ("extra", "temperature", "message"),
    [
        *(
            ({"mars_theta": value}, 0.0, r"theta is .{1,40}; rule mars takes 0 to 1\.")
            for value in (2, math.nan, 10**400)
        ),
        *(
            ({"mars_theta": value}, 0.0, r"mars_theta must be a number, not .{1,40}\.")
            for value in ("0.9", None, True, [0.9])
        ),
        ({"mars_rule": "block"}, 0.0, r"mars_rule must be one of strict, mars, .*, not 'block'\."),
        (
            {"mars_\n\x1b" * 30: 1},
            0.0,
            r"Rule mars has no parameter \\n\\x1b.*; its parameters: .*\.",
        ),
        ({"mars_where": 1}, 0.0, "mars_where is an expression, which a request cannot have."),
        ({"mars_trace": 2}, 0.0, r"mars_trace must be 0 or 1, not 2\."),
        ({"mars_trace": True}, 0.0, r"mars_trace must be 0 or 1, not True\."),
        (
            {"mars_rule": "x\n\x1b[2J" * 30},
            0.0,
            r"mars_rule must be one of .*, not 'x\\n\\x1b\[2J.*\.\.\.\.",
        ),
        *(
            ({"mars_protect": words}, 0.0, PROTECT)
            for words in ("42", "[-1]", "[1, x]", [True], 7, None, "[" + "1, " * 400, [1] * 999)
        ),
        *(
            ({"mars_scope": words}, 0.0, rf"mars_scope {message}.*\.")
            for words, message in (
                (1, "must be all, thinking, answer or an expression of position and thinking, not"),
                ("position <", "is 'position <'; it takes a number or an expression"),
                ("position" * 40, "has 320 characters; an expression has 200 at most"),
                ("entropy < 1", "reads entropy; in vLLM position and thinking are known only"),
                ("thinking", "reads thinking, and '<think>' and '</think>' are not two tokens of "),
                ("thinking('<a>', '<a>')", "reads thinking, and '<a>' and '<a>' are not two "),
            )
        ),
        *(
            ({"mars_rule": name}, 0.7, rf"temperature must be 0 with mars_rule {name}, not 0\.7\.")
            for name in sorted(GREEDY_ONLY)
        ),
        (COINS, 1.0, r"mars_accumulated must be 1 above temperature 0, not 0\.5\."),
    ],
)
def test_an_invalid_request_is_refused_in_one_sentence(
    extra: dict[str, Any], temperature: float, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        resolved(extra, temperature)
    assert not temperature or named(extra).group.greedy


def test_a_trace_without_a_file_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^mars_trace is 1, but vLLM was started without MARS_TRACE, the path of"
    ):
        named({"mars_trace": 1}, served=Served())


def test_ends_and_special_tokens_are_protected_unless_that_is_switched_off() -> None:
    def protected(**extra: Any) -> tuple[int, ...]:
        request = named(extra or {"mars_theta": 0.9}, all_stop_token_ids={9})
        assert request.rule.name == "mars"
        return request.group.protected

    assert protected() == protected(mars_theta=1) == (3, 9)
    assert protected(mars_protect="[7, 42, 7]") == protected(mars_protect=[42, 7]) == (3, 7, 9, 42)
    assert protected(mars_protect="none") == protected(mars_protect="[]") == ()
    assert protected(mars_protect=[]) == ()
    assert resolved({"mars_protect": ""}) is None


def test_a_scope_reads_the_thinking_of_vllms_parser_or_of_tokens_that_it_names() -> None:
    thinking, answer = (
        named({"mars_scope": scope}, 0.0, THINKS) for scope in ("thinking", "answer")
    )
    assert (thinking.group.scope, answer.group.scope) == ("thinking", "1 - thinking")
    assert thinking.span == answer.span == (5, 6) and thinking.rule.name == "mars"
    assert named({"mars_scope": "thinking('<a>', '</a>')"}, 0.0, THINKS).span == (8, 9)
    later = named({"mars_scope": "position >= 8"})
    assert later.span is None and later.group.placed
    assert not named({"mars_scope": "all"}).group.placed


def test_under_a_grammar_a_rule_decides_in_the_thinking_before_it_only() -> None:
    def span(served: Served, scope: str = "all") -> Any:
        request = named({"mars_scope": scope}, 0.0, served, structured_outputs=object())
        assert request.group.guarded and request.group.placed
        return request.span

    assert span(THINKS) == span(THINKS, "thinking") == span(THINKS, "position < 9") == (5, 6)
    # Without a reasoning parser a grammar begins at once: nowhere.
    assert span(SERVED) is None and span(replace(THINKS, free=False), "thinking") is None
    assert span(THINKS, "thinking('<a>', '</a>')") is None


def test_the_environment_gives_defaults_of_its_rule() -> None:
    default = defaults({"MARS_THETA": "0.8", "MARS_BROWSER": "x"})
    assert default == {"mars_theta": 0.8}
    extras = (None, {"mars_theta": 0.7}, {"mars_rule": "mars-gap"}, {"mars_trace": 1})
    request = [resolved(each, served=replace(SERVED, default=default)) for each in extras]
    values = [each and (each.rule.name, each.values) for each in request]
    gap = ("mars-gap", RULES["mars-gap"].values({}))
    assert values == [
        ("mars", {"theta": 0.8}),
        ("mars", {"theta": 0.7}),
        gap,
        ("mars", {"theta": 0.8}),
    ]
    where = defaults({"MARS_SCOPE": "position > 3", "MARS_RULE": "mars-gap"})
    assert where == {"mars_rule": "mars-gap", "mars_scope": "position > 3"}
    assert named({}, served=replace(SERVED, default=where)).group.scope == "position > 3"
    assert named({"mars_rule": "mars"}, served=replace(SERVED, default=where)).group.scope == ""


@pytest.mark.parametrize(
    "environment",
    [
        {"MARS_THETA": "high"},
        {"MARS_RULE": "x"},
        {"MARS_RULE": "strict", "MARS_GAP": "1"},
        {"MARS_SCOPE": "thinking"},
    ],
)
def test_invalid_defaults_are_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^(MARS_|mars_|Rule|theta)"):
        named({}, served=Served(defaults(environment)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("presence_penalty", 0.5),
        ("repetition_penalty", 1.1),
        ("logit_bias", {3: 1.0}),
        ("bad_words", ["a"]),
        ("min_tokens", 3),
        ("allowed_token_ids", [1]),
    ],
)
def test_sampling_parameters_that_alter_logits_are_refused(field: str, value: Any) -> None:
    request = named({"mars_theta": 0.9})
    usual = {
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "logit_bias": None,
        "bad_words": [],
        "top_p": 0.9,
        "top_k": 20,
    }
    assert conflict(request, SimpleNamespace(**usual), True) is None
    problem = conflict(request, SimpleNamespace(**usual | {field: value}), False)
    assert problem is not None and problem.startswith(f"{field} must be ")


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [("top_p", 0.9, True), ("top_k", 20, True), ("top_k", -1, False), ("top_k", 0, False)],
)
def test_rules_that_read_p_need_it_unfiltered_where_filters_come_later(
    field: str, value: float, refused: bool
) -> None:
    request = named({"mars_rule": "typical"}, 1.0)
    params = SimpleNamespace(**{field: value})
    assert (conflict(request, params, True) is not None) is refused
    assert conflict(request, params, False) is None
