"""What an item scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from evaluation.item import Item, Suite, Tool
from evaluation.scoring.metrics import METRICS, check_libraries, scores
from evaluation.suites.read import read_suite


def score(
    metrics: tuple[str, ...], item: Item, *texts: str, execute_code: bool = False
) -> dict[str, float]:
    return scores(Suite("s", (item,), metrics=metrics), item, texts, execute_code=execute_code)


@pytest.mark.parametrize(
    ("prompt", "text", "scored"),
    [
        ("As JSON, please", '{"a": [1]}', {"json,none": 1.0}),
        ("Write json.", "Here:\n```json\n[1, 2]\n```", {"json,none": 1.0}),
        ("Write JSON.", '{"a": 1', {"json,none": 0.0}),
        ("Write JSON.", "1", {"json,none": 0.0}),
        ("Write a poem.", "{}", {}),
    ],
)
def test_answers_to_prompts_that_ask_for_json_are_checked(
    prompt: str, text: str, scored: dict[str, float]
) -> None:
    assert score((), Item("1", (prompt,)), text) == scored


TOOLS = (Tool("add", ("a", "b"), ("a", "b")), Tool("now"))
ADD = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
NOW = '{"name": "now", "parameters": {}}'


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (ADD, True),
        (NOW, True),  # Llama
        (f"```json\n[{ADD}, {NOW}]\n```", True),
        (f"<|python_tag|>{NOW}", True),
        (f"[TOOL_CALLS][{ADD}]", True),  # Mistral
        ("[add(a=1, b=2), now()]", True),  # Llama
        ("[add(1, 2)]", False),
        ("[now(**{})]", False),
        ("[add(a=1, b=open('x'))]", False),
        (f"<think>{{</think>\n\n{ADD}", True),
        (f"Sure.\n<tool_call>\n{ADD}\n</tool_call>\n<tool_call>{NOW}</tool_call>", True),
        ('{"type": "function", "function": {"name": "now", "arguments": "{}"}}', True),
        (f"<tool_call>{ADD}</tool_call><tool_call>{NOW}", False),  # not closed
        (f"<tool_call>{ADD}</tool_call><tool_call>{{</tool_call>", False),
        (f"<tool_call>[{NOW}]</tool_call>", False),
        (f"[{ADD}, 1]", False),
        ("[]", False),
        ('{"name": "now"}', False),
        ('{"name": "now", "arguments": 5}', False),
        ('{"name": "now", "arguments": {"zone": 1}}', False),
        ('{"name": "add", "arguments": {"a": 1}}', False),
        ('{"name": "sub", "arguments": {}}', False),
        ("It is three.", False),
        ("", False),
    ],
)
def test_calls_of_offered_tools_are_checked(text: str, right: bool) -> None:
    assert score((), Item("1", ("Add.",), tools=TOOLS), text) == {"calls,none": float(right)}


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "integer"}, (2, 2.0), (2.5, "2", True, None)),
        ({"type": ["string", "null"]}, ("", None), (0,)),
        (
            {"type": "string", "format": "date"},
            ("2028-02-29",),
            ("2027-02-29", "20270228", "1 May"),
        ),
        ({"enum": ["a", 1]}, ("a", 1.0), ("A", True)),
        ({"minimum": 1, "maximum": 3}, (1, 3), (0, 4)),
        ({"type": "array", "items": {"type": "number"}, "minItems": 1}, ([1, 2.5],), ([], ["1"])),
        (
            {"properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            ({"a": False, "b": 1},),
            ({}, {"a": 0}),
        ),
        ({"properties": {"a": {}}, "additionalProperties": False}, ({}, {"a": 1}), ({"b": 1},)),
    ],
)
def test_an_answer_fits_the_schema_that_a_prompt_asks_for(
    schema: dict[str, Any], right: tuple[Any, ...], wrong: tuple[Any, ...]
) -> None:
    form = {"type": "object", "properties": {"x": schema}}
    item = Item("1", ("Write it.",), schema=json.dumps(form))
    for value in (*right, *wrong):
        text = json.dumps({"x": value})
        expected = float(any(value is each for each in right))
        assert score((), item, text) == {"json,none": expected}, value


def others(value: Any) -> Iterator[Any]:
    """Yield a JSON value with each of its names and single values changed in turn."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield {f"{key}s" if key == name else key: kept for key, kept in value.items()}
            yield from (value | {name: other} for other in others(each))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield value[:number] + value[number + 1 :]
            yield from ([*value[:number], other, *value[number + 1 :]] for other in others(each))
    else:
        yield f"{value} or so" if isinstance(value, str) else not value


def test_right_calls_and_json_of_the_suite_are_right_and_every_other_value_is_not() -> None:
    for item in read_suite("tools").items:
        (reference,) = item.references
        metric = "calls,none" if item.tools else "json,none"
        expected = ("expected,none",)
        assert score(expected, item, reference) == {"expected,none": 1.0, metric: 1.0}
        assert score(expected, item, "") == {"expected,none": 0.0, metric: 0.0}
        for changed in others(json.loads(reference)):
            assert score(expected, item, json.dumps(changed))["expected,none"] == 0, changed


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "pass@1,none"])
@pytest.mark.parametrize(
    "text", ["", " \n", "\x00", "\\boxed{", "####", "$", "💥" * 50, "(" * 5000]
)
def test_no_answer_breaks_a_metric(metric: str, text: str) -> None:
    for reference in ("5", "\\boxed{\\frac{1}{2}}", "Ada Lovelace", "….", "今日", "(("):
        assert 0 <= score((metric,), Item("1", ("?",), (reference,)), text)[metric] <= 1


@pytest.mark.parametrize(
    ("references", "metric", "right", "wrong"),
    [
        (("1815",), "contains,none", ("In 1815, 3 weeks before.",), ("In 18150 or 1,816.",)),
        (("Ada", "Grace Hopper"), "contains,none", ("It was ada.",), ("It was Grace.",)),
        (("Ada", "Grace Hopper"), "contains,all", ("Grace Hopper and Ada",), ("It was ada.",)),
        (("3",), "contains,none", ("2", "3"), ("3", "2")),  # of the last turn
    ],
)
def test_references_are_matched_in_an_answer(
    references: tuple[str, ...], metric: str, right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    item = Item("1", ("?",) * len(right), references)
    assert (score((metric,), item, *right), score((metric,), item, *wrong)) == (
        {metric: 1.0},
        {metric: 0.0},
    )


def test_turns_with_separate_references_must_all_be_right() -> None:
    item = Item("1", ("?", "?"), ("2", "3"))
    names = ("contains,none", "rougeL,none")
    assert score(names, item, "2", "3") == {"contains,none": 1.0, "rougeL,none": 1.0}
    assert score(names, item, "2", "4") == {"contains,none": 0.0, "rougeL,none": 0.5}
    assert score(names, item, "2") == {
        "contains,none": 0.0,
        "rougeL,none": 0.5,
    }  # a turn that was not reached
    assert score(names, Item("1", ("?", "?"), ("", "3")), "9", "3") == {
        "contains,none": 1.0,
        "rougeL,none": 1.0,
    }


def test_code_is_not_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr("evaluation.scoring.metrics.passes", never)
    item = Item("1", ("def f():\n",), (), tests="assert f()")
    assert score(("pass@1,none",), item, "    return 1") == {}


def test_unknown_metric_of_a_suite_is_refused() -> None:
    with pytest.raises(ValueError, match="The metric is 'accuracy'; it must be one of exact_match"):
        check_libraries([Suite("s", (Item("1", ("?",)),), metrics=("accuracy",))])
    check_libraries([Suite("s", (Item("1", ("?",)),), metrics=tuple(METRICS))])
