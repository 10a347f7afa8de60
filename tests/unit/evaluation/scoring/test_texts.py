"""When a text counts as a right answer: by our own comparison, and by lm-eval's; overlap of two
texts, in every script."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from evaluation.scoring.answer import score
from evaluation.scoring.graders import boxed, exact_match, library
from evaluation.scoring.instructions import INSTRUCTIONS, follows, is_instruction
from evaluation.scoring.overlap import bleu, chrf, rouge_l, words

RIGHT = [
    ("Start with 26. 26 + 8 = 34.\n#### 34", "34"),
    ("So the answer is 34.", "34"),
    ("34", "Adding 8 we get 34.\n#### 34"),
    ("She has $1,234.50 left.", "1234.5"),
    ("#### 1234", "$1,234"),
    ("It is −3.", "-3"),
    ("\uff11\uff12 apples", "12"),
    ("About 90%", "90 %"),
    ("the answer is 12.0", "12"),
    ("It is Paris, of course.", "paris"),
    ("The  New-York Times", "new york"),
    ("首都は東京です", "東京"),
    ("1, 2, 3", "3"),
    ("#### -7\n", "-7"),
]
WRONG = [
    ("34 and then 35", "34"),  # only the last number counts
    ("#### 35\n#### 36 is 34 + 2", "36"),  # what follows the last mark ends in another number
    ("34 ####", "34"),  # cut off before the answer
    ("no number", "3"),
    ("", "3"),
    ("134", "34"),
    ("3.4", "34"),
    ("Parisian", "paris"),
    ("", "paris"),
]


def test_right_answers_and_no_others_are_right() -> None:
    for right, pairs in ((True, RIGHT), (False, WRONG)):
        for text, reference in pairs:
            assert score(text, reference) is right, (text, reference)


STRICT, FLEXIBLE = "strict-match", "flexible-extract"


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    [
        ("2 + 2 = 4\n#### 1234", True, True),
        ("#### $1,234.", False, True),  # the filter takes no currency sign
        ("The answer is 1,234.", False, True),
        ("#### 1234\n\nQuestion: 5", True, False),
        ("1234 apples and 3 pears", False, False),
        ("", False, False),
    ],
)
def test_numbers_are_right_where_gsm8k_says_so(text: str, strict: bool, flexible: bool) -> None:
    for reference in ("1234", "We add.\n<<1000+234=1234>>\n#### 1,234"):
        assert exact_match(text, reference, STRICT) is strict
        assert exact_match(text, reference, FLEXIBLE) is flexible


def test_filters_are_those_of_the_installed_task() -> None:
    """Held against the YAML itself, read by other means."""
    yaml = importlib.import_module("yaml")
    folder = Path(library("lm_eval.tasks").__file__).parent
    task = yaml.safe_load((folder / "gsm8k" / "gsm8k.yaml").read_text(encoding="utf-8"))
    patterns = {entry["name"]: entry["filter"][0]["regex_pattern"] for entry in task["filter_list"]}
    assert set(patterns) == {STRICT, FLEXIBLE}
    regex = importlib.import_module("lm_eval.filters.extraction").RegexFilter(patterns[STRICT])
    assert regex.apply([["#### 7 or #### 8"]], [{}]) == [["7"]]
    assert exact_match("#### 7 or #### 8", "7", STRICT)


@pytest.mark.parametrize(
    ("text", "right"),
    [("The answer is (B).", True), ("the answer is b", False), ("answer is A", False)],
)
def test_letters_are_right_where_mmlu_pro_says_so(text: str, right: bool) -> None:
    assert exact_match(text, "B", "custom-extract") is right


BOXED = [
    ("So \\boxed{\\dfrac{3}{5}}.", "\\frac35"),
    ("\\[\\boxed{0.5}\\]", "$\\frac{1}{2}$"),
    ("\\boxed{2\\text{ cm}}", "First $\\boxed{3}$, then $\\boxed{2}$."),
    ("\\boxed{x=5}", "\\fbox{x}\\boxed{5}"),
    ("\\boxed{3}, no, \\boxed{5}", "5"),
    (
        "The answer is $\\sqrt3$.",
        "\\sqrt{3}",
    ),  # no box: what stands between dollars, as lm-eval's task takes it
    ("\\sqrt3", "\\sqrt{3}"),
]
NOT_BOXED = [
    ("\\boxed{3}", "5"),
    ("\\boxed{5} or \\boxed{3}", "5"),
    ("\\boxed{5", "5"),  # cut off
    ("5 \\boxed{}", "5"),
    ("", "5"),
    ("\\fbox{5}", "6"),
    ("}}}{{{", "\\boxed{5}"),
    ("5", "{5"),  # a reference that closes nothing
    ("\\boxed{" * 3000, "5"),
]


def test_boxed_answers_are_compared_as_latex_and_broken_ones_are_wrong() -> None:
    for right, pairs in ((True, BOXED), (False, NOT_BOXED)):
        for text, reference in pairs:
            assert boxed(text, reference) is right, (text, reference)


ENGLISH = "The quick brown fox jumps over the lazy dog, doesn't it?"
OTHER = "A quick brown fox jumped over that lazy old dog."
CHINESE, CHINESE_OTHER = "今天天气很好\uff0c我们去公园。", "今天天气不好\uff0c我们不去公园。"
JAPANESE, JAPANESE_OTHER = "今日はとても天気がいいです。", "今日は天気がよくないです。"


@pytest.mark.parametrize(
    ("text", "reference", "tokenizer"),
    [(OTHER, ENGLISH, "13a"), (CHINESE_OTHER, CHINESE, "zh"), (JAPANESE_OTHER, JAPANESE, "char")],
)
def test_bleu_and_chrf_are_sacrebleus(text: str, reference: str, tokenizer: str) -> None:
    sacrebleu = importlib.import_module("sacrebleu")
    expected = (
        sacrebleu.sentence_bleu(
            text, [reference], tokenize=tokenizer, use_effective_order=True
        ).score
        / 100
    )
    assert bleu(text, [reference]) == pytest.approx(expected, abs=1e-12)
    assert chrf(text, [reference]) == pytest.approx(
        sacrebleu.sentence_chrf(text, [reference]).score / 100, abs=1e-12
    )


def test_rouge_is_that_of_rouge_score_where_it_can_read_the_text() -> None:
    scorer = importlib.import_module("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    assert rouge_l(OTHER, [ENGLISH]) == pytest.approx(
        scorer.score(ENGLISH, OTHER)["rougeL"].fmeasure, abs=1e-12
    )
    tokenize = importlib.import_module("rouge_score.tokenize").tokenize
    assert words(ENGLISH + " a_b 3.5") == tokenize(ENGLISH + " a_b 3.5", None)


def test_nearest_of_several_references_counts() -> None:
    for share in (bleu, chrf, rouge_l):
        assert share(OTHER, [ENGLISH, OTHER]) == 1.0
        assert share(OTHER, ["Nothing of this.", ENGLISH]) >= share(OTHER, ["Nothing of this."])


FOLLOWED = {  # instruction → texts that follow it, texts that do not
    "is: yes, no": (("Yes.", ' "no"'), ("Yes, it can.", "", "yes no")),
    "includes: fox, blue stone": (("A Fox on a blue  stone!",), ("A foxy blue stone", "fox")),
    "includes: 5": (("At 5 o'clock.",), ("At 15 o'clock.",)),
    "excludes: fox, river": (("foxes", ""), ("The river", "FOX")),
    "begins: Once a year": (("once a year, we",), ("It is once a year", "")),
    "ends: Good night.": (("So: good night.\n",), ("Good night. Bye.",)),
    "words: 3": (("one two-three four", "a"), ("a b c d", "", " ")),
    "points: 2": (("- a\n  * b", "Two:\n1. a\n2) b"), ("- a", "-a\n-b", "- a\n- b\n- c")),
    "case: lower": (("all 3 lower",), ("One", "123")),
    "case: upper": (("ALL.",), ("aLL",)),
    "keys: name, age": (
        ('{"age": 5, "name": "Mia"}', 'Here:\n```json\n{"name": 1, "age": 2}\n```\nIt is'),
        (
            '{"name": 1}',
            '[["name", "age"]]',
            "name, age",
            "[" * 100_000,
            '{"name": 1, "age": 2} ok',
        ),
    ),
    "no instruction": (("It is no instruction.",), ("It is one.",)),
    "words: many": (("words: many",), ("many words",)),  # none either
}


@pytest.mark.parametrize("reference", FOLLOWED)
def test_an_instruction_is_followed_or_not(reference: str) -> None:
    right, wrong = FOLLOWED[reference]
    assert all(follows(text, reference) for text in right)
    assert not any(follows(text, reference) for text in wrong)


def test_every_instruction_is_tried_and_has_a_value() -> None:
    tried = {reference.partition(":")[0] for reference in FOLLOWED if is_instruction(reference)}
    assert tried == INSTRUCTIONS.keys()
    for wrong in ("words:", "words: -1", "points: 1.5", "case: __class__", "sing: aloud", "42", ""):
        assert not is_instruction(wrong)
