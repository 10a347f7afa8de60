"""What scores a suite that does not say it: files as the field writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation.scoring.metrics import metrics_of, scores
from evaluation.suites.item import Item
from evaluation.suites.read import read_suite
from tests.unit.evaluation.suites.files import field_file, row, write

WORKED = ("exact_match,strict-match", "exact_match,flexible-extract")
WORKED_UNASKED = WORKED[::-1]
NUMBERS, BOXED, PHRASES = ("exact_match,flexible-extract",), ("exact_match,boxed",), ("contains,none",)
TRANSLATION, SUMMARY, GENERIC = ("bleu,none", "chrf,none"), ("rougeL,none",), ("rougeL,none", "bleu,none", "chrf,none")
GERMAN, ENGLISH = "Der Hund schläft heute den ganzen Tag im Garten.", "The dog sleeps in the garden all day today."
LONG = "The committee met on Tuesday and agreed on a plan. It will be published next week, a speaker said."

FILES: dict[str, tuple[str, list[dict[str, Any]], tuple[str, ...]]] = {
    "boxed solution": ("x", [row(1, "Solve.", ["We have $x=\\boxed{\\frac{3}{5}}$."], "algebra")], BOXED),
    "boxed solution, as lines": ("x", [row(1, "Solve.", ["First $a$.", "So $\\boxed{2}$.", "Done."], "math")], BOXED),
    "LaTeX answers among numbers": ("x", [row(n, "?", a, "math") for n, a in enumerate(("2", "11", "\\frac12", "7"))], BOXED),
    "LaTeX answers by subject": (
        "math500",
        [row(1, "?", "\\pi", "Geometry"), row(2, "?", "12", "Prealgebra"), row(3, "?", "\\text{Evelyn}", "Algebra")],
        BOXED,
    ),
    "LaTeX answers by subject, no name": ("x", [row(1, "?", "\\pi", "Geometry"), row(2, "?", "12", "Prealgebra")], BOXED),
    "LaTeX without a word of mathematics": ("x", [row(1, "?", "$\\frac{1}{2}$"), row(2, "?", "\\sqrt{3}")], BOXED),
    "numbers in a box": ("x", [row(n, "Put the answer in \\boxed{}.", n) for n in range(3)], (*BOXED, *NUMBERS)),
    "numbers": ("x", [row(n, "How many?", [f"{n},000"]) for n in range(1, 4)], NUMBERS),
    "shares": ("x", [row(1, "How much?", "45%"), row(2, "How much?", "45,5 %")], PHRASES),
    "GSM8K's answers": ("x", [row(1, "End in ####.", ["2+2=4", "#### 4"])], WORKED),
    "GSM8K's answers, not asked for": ("x", [row(1, "How many?", "2+2=4\n#### 4")], WORKED_UNASKED),
    "translation by category": ("x", [row(1, "Translate German to English: Hund.", "Dog.", "translation")], TRANSLATION),
    "translation by prompt": ("x", [row(1, f"Translate into German: {ENGLISH}", GERMAN)], TRANSLATION),
    "translation by Chinese prompt": ("x", [row(1, f"请把下面的句子翻译成中文。\n{ENGLISH}", "狗今天整天在花园里睡觉。")], TRANSLATION),
    "translation by language pair": ("x", [row(1, ENGLISH, GERMAN, "eng_Latn-deu_Latn")], TRANSLATION),
    "translation by file name": ("wmt14_de_en", [row(1, GERMAN, [ENGLISH])], TRANSLATION),
    "translation by pair in the file name": ("flores.en-ja", [row(1, ENGLISH, "犬は今日一日中庭で寝ている。")], TRANSLATION),
    "translation by script": ("x", [row(1, ENGLISH, "犬は今日一日中庭で寝ている。")], TRANSLATION),
    "summaries": ("x", [row(1, f"{LONG} " * 9, [LONG], "summarization")], SUMMARY),
    "summaries by prompt": ("x", [row(1, f"Summarize: {LONG}", LONG)], SUMMARY),
    "phrases": ("x", [row(1, "Who?", ["Ada Lovelace", "Lovelace"], "qa"), row(2, "When?", "10 December 1815", "qa")], PHRASES),
    "passages": ("x", [row(1, f"{LONG}\nQuestion: When?", "On Tuesday", "rag")], PHRASES),
    "long answers": ("x", [row(1, "Why?", [LONG])], GENERIC),
    "letters": ("x", [row(1, "Which? (A) a (B) b", "B")], ("contains,none", "exact_match,custom-extract")),
    "nothing to hold against": ("x", [row(1, "Who?", None, "qa")], ()),
    "MT-bench": ("x", [row(1, ["a", "b"], ["4", "5"], "math")], ()),
    "long answers about code": ("x", [row(1, "Why?", [LONG], "coding")], GENERIC),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_metrics_follow_from_what_a_file_is_and_find_its_reference_right(tmp_path: Path, case: str) -> None:
    name, rows, metrics = FILES[case]
    suite = read_suite(write(tmp_path / f"{name}.jsonl", rows))
    assert suite.metrics == metrics
    for item in suite.items:
        assert metrics_of(suite, item) == metrics
        found = scores(suite, item, item.references[-1:], execute_code=False)
        found.pop("exact_match,custom-extract", None)  # wants a sentence
        assert set(found.values()) == ({1.0} if metrics else set())
        wrong = scores(suite, item, ["I cannot say."], execute_code=False)
        assert all(value < 0.5 for value in wrong.values())


def test_item_out_of_the_store_is_the_item() -> None:
    assert Item("1", ("?",), metrics=["bleu,none"]) == Item("1", ("?",), metrics=("bleu,none",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("gsm8k", WORKED),
        ("humaneval", ("pass@1,none",)),
        ("mt_bench", ()),
        ("alpaca", GENERIC),
        ("qa", ()),  # the file has no references
        ("sum", SUMMARY),
    ],
)
def test_files_of_the_field_are_known(name: str, metrics: tuple[str, ...]) -> None:
    assert read_suite(field_file(name)).metrics == metrics


def test_categories_of_a_mixed_file_have_metrics_of_their_own(tmp_path: Path) -> None:
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
    found = {item.category: metrics_of(suite, item) for item in suite.items}
    graded = {"translation": TRANSLATION, "summarization": SUMMARY, "math_reasoning": WORKED_UNASKED}
    assert found == {"writing": (), "math": (), "qa": PHRASES, "rag": PHRASES} | graded
    assert {name for metrics in found.values() for name in metrics} == set(suite.metrics)


def test_lines_of_a_solution_are_one_reference_and_answers_stay_several(tmp_path: Path) -> None:
    rows = [
        row(1, "?", ["1+1=2", "#### 2"]),
        row(2, "?", ["#### 2", "#### 3"]),
        row(3, "?", ["So", "$\\boxed{1}$"]),
        row(4, "?", ["\\boxed{1}", "\\boxed{2}"]),
        row(5, "?", ["Ada", "", "Lovelace"]),
        row(6, ["?", "?"], ["", "#### 2"]),
    ]
    suite = read_suite(write(tmp_path / "x.jsonl", rows))
    assert [item.references for item in suite.items] == [
        ("1+1=2\n#### 2",),
        ("#### 2", "#### 3"),
        ("So\n$\\boxed{1}$",),
        ("\\boxed{1}", "\\boxed{2}"),
        ("Ada", "Lovelace"),
        ("", "#### 2"),
    ]
