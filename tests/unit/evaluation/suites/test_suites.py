"""What a suite file may look like, the one sentence for what it may not, and what scores a suite
that does not say it."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.item import Tool
from evaluation.scoring.instructions import is_instruction
from evaluation.scoring.metrics import metrics_of, scores
from evaluation.suites.read import read_suite
from evaluation.suites.typed import split_prompts, typed_suite
from tests.unit.evaluation.suites.files import field_file, row, write
from training.demo.corpus import held_out
from ui.tabs.study.form import StudyForm


def test_arithmetic_has_the_held_out_problems_and_their_solutions_are_right() -> None:
    suite = read_suite("demo_arithmetic")
    assert [item.turns[0] for item in suite.items] == [problem.question for problem in held_out()]
    for item, problem in zip(suite.items, held_out(), strict=True):
        assert set(scores(suite, item, [problem.solution], execute_code=False).values()) == {1.0}
        assert set(
            scores(suite, item, [f"#### {problem.answer + 1}"], execute_code=False).values()
        ) == {0.0}


CODE = (
    "Explain this JavaScript: const add = (a, b) => a + b",
    "xs.map(x =>",
    "=> 2",
    "match x { Some(y) => y, None => 0 }",
    "---\ntitle: Front matter\n---\n# Text",
    "A rule in Markdown:\n\n---\n\nand text after it",
    "A document of YAML\n---\na: 1\n...",
    "--- a/file.py\n+++ b/file.py\n@@ -1 +1 @@\n-x => 1\n+x => 2",
    "| a | b |\n|---|---|\n| => | --- |",
    "Heading\n=======\n===\n=>",
    "def f():\n    return 1\n\n\nprint(f())",
    "    indented\n\twith a tab  ",
    "SQL -- a comment\n-- ---\nSELECT 1 >= 0;",
    "1 => 2 => 3 ==> 4",
)


@pytest.mark.parametrize("prompt", CODE)
def test_no_part_of_a_typed_prompt_is_an_answer_or_ends_it(prompt: str) -> None:
    """Neither as an option nor between lines of a separator; nor in a line of its own."""
    lines = prompt.split("\n")
    asked = {
        (prompt, "Hi."): typed_suite([prompt, "Hi."]),
        ("Hi.", prompt): StudyForm(
            {"suite": "prompts", "prompts": f"Hi.\n%%\n{prompt}", "separator": "%%"}
        ).chosen_suite(),
        tuple(filter(str.strip, lines)): StudyForm(
            {"suite": "prompts", "prompts": prompt}
        ).chosen_suite(),
    }
    for prompts, suite in asked.items():
        assert [item.turns[0] for item in suite.items] == [*prompts]
        assert suite.metrics == () and not any(item.references for item in suite.items)


def test_answers_of_typed_prompts_are_those_beside_them() -> None:
    for prompts, separator in (("a\n\nb\nc", ""), ("a\n---\n\n---\nb\n --- \n\nc\n---\n", "---")):
        suite = typed_suite(split_prompts(prompts, separator), ["", " 2 "])
        assert [(item.turns, item.references) for item in suite.items] == [
            (("a",), ()),
            (("b",), ("2",)),
            (("c",), ()),
        ]
        assert suite.metrics == ("answer,none",)
    for wrong, answers, words in (
        ([], [], "There is no prompt"),
        (["a", " "], [], "Prompt 2 is empty"),
        (["a"], ["1", "2"], "There are 2 right answers and 1 prompt; give at most one for each"),
    ):
        with pytest.raises(ValueError, match=words):
            typed_suite(wrong, answers)


def test_stories_require_all_requested_words() -> None:
    suite = read_suite("demo_stories")
    assert len({item.turns for item in suite.items}) == len(suite.items) > 200
    item = next(
        item for item in suite.items if item.turns[0] == "A story about Hana in a village, please."
    )
    assert item.references == ("Hana", "village")
    for text, right in (
        ("Hana left the village.", 1.0),
        ("Hana left.", 0.0),
        ("Hanako saw villages.", 0.0),
        ("", 0.0),
    ):
        assert scores(suite, item, [text], execute_code=False) == {"contains,all": right}
    going_on = [item for item in suite.items if item.turns[0].startswith("Continue")]
    assert going_on and all(len(item.references) == 1 for item in going_on)  # of its hero


def test_instructions_are_distinct_gradable_and_of_no_other_suite() -> None:
    suite = read_suite("instructions")
    assert suite == read_suite("instructions")  # the same in every process: see its first prompts
    digest = hashlib.sha256("\n".join(item.turns[0] for item in suite.items).encode()).hexdigest()
    assert digest[:12] == "c009f60a952b"
    prompts = {item.turns for item in suite.items}
    others = {
        item.turns
        for name in ("demo_arithmetic", "demo_stories")
        for item in read_suite(name).items
    }
    assert len(prompts) == len(suite.items) == 360 and not prompts & others
    for category in ("reading", "order"):
        items = [item for item in suite.items if item.category == category]
        assert len(items) == 180
        for item in items:
            assert item.references and not re.search(
                r"[{}]", " ".join((*item.turns, *item.references))
            )
            assert all(":" not in each or is_instruction(each) for each in item.references)
            assert scores(suite, item, ["?"], execute_code=False)["follows,none"] == 0.0


WORKED = ("exact_match,strict-match", "exact_match,flexible-extract")
WORKED_UNASKED = WORKED[::-1]
NUMBERS, BOXED, PHRASES = (
    ("exact_match,flexible-extract",),
    ("exact_match,boxed",),
    ("contains,none",),
)
TRANSLATION, SUMMARY, GENERIC = (
    ("bleu,none", "chrf,none"),
    ("rougeL,none",),
    ("rougeL,none", "bleu,none", "chrf,none"),
)
GERMAN, ENGLISH = (
    "Der Hund schläft heute den ganzen Tag im Garten.",
    "The dog sleeps in the garden all day today.",
)
LONG = "The committee met on Tuesday and agreed on a plan. It will be published next week, a speaker said."

FILES: dict[str, tuple[str, list[dict[str, Any]], tuple[str, ...]]] = {
    "boxed solution": (
        "x",
        [row(1, "Solve.", ["We have $x=\\boxed{\\frac{3}{5}}$."], "algebra")],
        BOXED,
    ),
    "LaTeX answers by subject": (
        "math500",
        [
            row(1, "?", "\\pi", "Geometry"),
            row(2, "?", "12", "Prealgebra"),
            row(3, "?", "\\text{Evelyn}", "Algebra"),
        ],
        BOXED,
    ),
    "instructions": (
        "x",
        [row(1, "Write of a fox.", ["words: 9", "includes: 9"])],
        ("follows,none",),
    ),
    "numbers": ("x", [row(n, "How many?", [f"{n},000"]) for n in range(1, 4)], NUMBERS),
    "translation by category": (
        "x",
        [row(1, "Translate German to English: Hund.", "Dog.", "translation")],
        TRANSLATION,
    ),
    "translation by prompt": (
        "x",
        [row(1, f"Translate into German: {ENGLISH}", GERMAN)],
        TRANSLATION,
    ),
    "translation by file name": ("wmt14_de_en", [row(1, GERMAN, [ENGLISH])], TRANSLATION),
    "summaries": ("x", [row(1, f"{LONG} " * 9, [LONG], "summarization")], SUMMARY),
    "phrases": (
        "x",
        [
            row(1, "Who?", ["Ada Lovelace", "Lovelace"], "qa"),
            row(2, "When?", "10 December 1815", "qa"),
        ],
        PHRASES,
    ),
    "letters": (
        "x",
        [row(1, "Which? (A) a (B) b", "B")],
        ("contains,none", "exact_match,custom-extract"),
    ),
    "nothing to hold against": (
        "x",
        [row(1, "Who?", None, "qa"), row(2, "a", ""), row(3, "b", ["", " "]), row(4, "c", [])],
        (),
    ),
    "MT-bench": ("x", [row(1, ["a", "b"], ["4", "5"], "math")], ()),
}


@pytest.mark.parametrize("case", FILES)
def test_metrics_follow_from_what_a_file_is_and_find_its_reference_right(
    tmp_path: Path, case: str
) -> None:
    name, rows, metrics = FILES[case]
    suite = read_suite(write(tmp_path / f"{name}.jsonl", rows))
    assert suite.metrics == metrics
    for item in suite.items:
        assert metrics_of(suite, item) == metrics
        by_metric = scores(suite, item, item.references[-1:], execute_code=False)
        by_metric.pop("exact_match,custom-extract", None)  # wants a sentence
        assert set(by_metric.values()) == ({1.0} if metrics else set())
        wrong = scores(suite, item, ["I cannot say."], execute_code=False)
        assert all(value < 0.5 for value in wrong.values())


def test_files_of_the_field_are_known() -> None:
    """That of qa has no references."""
    expected = {
        "gsm8k": WORKED,
        "humaneval": ("pass@1,none",),
        "mt_bench": (),
        "alpaca": GENERIC,
        "qa": (),
        "sum": SUMMARY,
    }
    assert {name: read_suite(field_file(name)).metrics for name in expected} == expected


def test_categories_of_a_mixed_file_have_separate_metrics(tmp_path: Path) -> None:
    """As Spec-Bench's one file."""
    rows = [
        row(81, ["Write.", "Again."], None, "writing"),
        row(121, ["2+2?", "And 3 more?"], ["4, since 2 and 2 are 4.", "7."], "math"),
        row(161, f"Translate German to English: {GERMAN}", [ENGLISH], "translation"),
        row(241, f"Summarize: {LONG}", [LONG], "summarization"),
        row(321, "Who?", ["Ada Lovelace"], "qa"),
        row(401, "How many?", ["1+1=2", "#### 2"], "math_reasoning"),
        row(481, f"{LONG}\nWhen?", ["Tuesday"], "rag"),
    ]
    suite = read_suite(write(tmp_path / "spec_bench" / "question.jsonl", rows))
    metrics_by_category = {item.category: metrics_of(suite, item) for item in suite.items}
    graded = {
        "translation": TRANSLATION,
        "summarization": SUMMARY,
        "math_reasoning": WORKED_UNASKED,
    }
    assert (
        metrics_by_category == {"writing": (), "math": (), "qa": PHRASES, "rag": PHRASES} | graded
    )
    assert {name for metrics in metrics_by_category.values() for name in metrics} == set(
        suite.metrics
    )


def test_lines_of_a_solution_are_one_reference_and_answers_stay_several(tmp_path: Path) -> None:
    expected: list[tuple[str | list[str], list[str], tuple[str, ...]]] = [
        ("?", ["1+1=2", "#### 2"], ("1+1=2\n#### 2",)),
        ("?", ["#### 2", "#### 3"], ("#### 2", "#### 3")),
        ("?", ["\\boxed{1}", "\\boxed{2}"], ("\\boxed{1}", "\\boxed{2}")),
        ("?", ["Ada", "", "Lovelace"], ("Ada", "Lovelace")),
        (["?", "?"], ["", "#### 2"], ("", "#### 2")),
    ]
    rows = [row(number, turns, lines) for number, (turns, lines, _) in enumerate(expected)]
    suite = read_suite(write(tmp_path / "x.jsonl", rows))
    assert [item.references for item in suite.items] == [references for *_, references in expected]


@pytest.mark.parametrize(
    "line",
    [
        {"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "    pass\n"},
        {
            "unique_id": "test/1",
            "problem": "1+1?",
            "solution": "\\boxed{2}",
            "answer": "2",
            "level": 1,
        },
        {"question": "1+1?", "answer": "#### 2"},
        {"id": "a", "instruction": "Add.", "input": "1 1", "output": "2"},
        {"question_id": 1, "turns": ["a"], "reference": [1, 2.5, "c", None], "category": None},
    ],
)
def test_exports_of_the_field_are_read(tmp_path: Path, line: dict[str, object]) -> None:
    suite = read_suite(write(tmp_path / "x.jsonl", [line]))
    assert suite.items[0].turns[0].strip() and suite.items[0].references


@pytest.mark.parametrize("as_text", [False, True])
def test_tools_of_a_row_are_read(tmp_path: Path, as_text: bool) -> None:
    schema = {"properties": {"city": {"type": "string"}, "days": {}}, "required": ["city"]}
    bare = {"name": "weather", "parameters": schema}
    tools: object = [{"type": "function", "function": bare}, bare | {"name": "now"}, {"name": "x"}]
    row = {"prompt": "Call.", "tools": json.dumps(tools) if as_text else tools}
    item = read_suite(write(tmp_path / "x.jsonl", [row])).items[0]
    known = ("city", "days"), ("city",)
    assert [replace(tool, function="") for tool in item.tools] == [
        *(Tool("weather", *known), Tool("now", *known), Tool("x"))
    ]
    assert item.tools[0].schema == schema
    assert json.loads(item.structure)["tools"][0] == {"type": "function", "function": bare}


def test_the_suite_of_tools_offers_four_functions_or_a_schema() -> None:
    suite = read_suite("tools")
    assert [len(item.tools) for item in suite.items if not item.schema] == [4] * 80
    first = Counter(item.category for item in suite.items[:24])
    assert len(suite.items) == 120 and min(first.values()) > 3 and len(first) == 3


HOSTILE = {
    "not JSON": b'{"turns": ["a"]',
    "must be one JSON object, not a list of 1": b'[{"turns": ["a"]}]',
    "is not UTF-8": b'{"turns": ["\xff"]}',
    "NaN is not a JSON number": b'{"turns": ["a"], "reference": NaN}',
    "nested too deeply": b'{"turns": ' + b"[" * 200_000,
    "there are no turns": b'{"question_id": 1}',
    r"turns\[1\] is an empty text": b'{"turns": ["a", " "]}',
    "turns is an object": b'{"turns": {"a": 1}}',
    "turns is a list of 65": json.dumps({"turns": ["a"] * 65}).encode(),
    "turns has a lone surrogate at character 2": b'{"turns": ["a\\ud800"]}',
    r"reference\[0\] is an object": b'{"turns": ["a"], "reference": [{}]}',
    "reference is inf": b'{"turns": ["a"], "reference": 1e999}',
    "category is a list of 1": b'{"turns": ["a"], "category": ["b"]}',
    "entry_point is the text": b'{"turns": ["a"], "test": "def check(f): 1", "entry_point": "f()\\n"}',
    "tools is a list of 1; it must": b'{"turns": ["a"], "tools": [{"parameters": {}}]}',
    "schema is an object; it": b'{"turns": ["a"], "schema": {"properties": {"b": {"type": 1}}}}',
    "tools is a list of 2": b'{"turns": ["a"], "tools": [{"name": "a"}, {"name": "\\ud800"}]}',
    "the id '1' is in line 1 already": b'{"turns": ["a"], "question_id": "1"}',
}


@pytest.mark.parametrize(("why", "line"), HOSTILE.items())
def test_bad_line_is_refused_in_one_sentence_with_file_and_line(
    tmp_path: Path, why: str, line: bytes
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"turns": ["first"], "question_id": 1}\n\n' + line + b"\n")
    with pytest.raises(ValueError, match=why) as caught:
        read_suite(str(path))
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}, line 3: ") and sentence.endswith(".")
    assert "\n" not in sentence and len(sentence) < 400


def test_prompts_made_of_one_text_name_the_same_template(tmp_path: Path) -> None:
    orders: dict[str, set[str]] = {}
    for item in read_suite("instructions", None).items:
        orders.setdefault(item.template, set()).add(item.turns[0].split()[0])
    assert 15 < len(orders) < 25 and "" not in orders
    assert orders["Name exactly 3 things of {topic}, as a list with “-”."] == {"Name"}
    sums = read_suite("demo_arithmetic", None).items
    assert {item.template for item in sums} >= {"+", "* -"} and all(item.template for item in sums)
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "1 + 1 =", "template": " sum "}\n{"prompt": "Hi"}\n', "utf-8")
    assert [item.template for item in read_suite(str(path), None).items] == ["sum", ""]
