"""Right and wrong are lm-eval's: its filters and comparisons, with what its tasks say."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from evaluation.scoring.graders import boxed, exact_match, library

STRICT, FLEXIBLE = "strict-match", "flexible-extract"


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    [
        ("2 + 2 = 4\n#### 1234", True, True),
        ("#### $1,234.", False, True),  # the filter takes no currency sign
        ("#### 1,234", True, True),
        ("The answer is 1,234.", False, True),
        ("It is $1234", False, True),
        ("#### 1234\n\nQuestion: 5", True, False),
        ("#### 5\n#### 1234", False, True),
        ("1234 apples and 3 pears", False, False),
        ("#### -1234", False, False),
        ("I do not know.", False, False),
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
    ("text", "right"), [("The answer is (B).", True), ("the answer is b", False), ("answer is A", False)]
)
def test_letters_are_right_where_mmlu_pro_says_so(text: str, right: bool) -> None:
    assert exact_match(text, "B", "custom-extract") is right


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("So \\boxed{\\dfrac{3}{5}}.", "\\frac35"),
        ("It is $\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}$.", "(3,\\frac{\\pi}{2})"),
        ("\\[\\boxed{0.5}\\]", "$\\frac{1}{2}$"),
        ("\\boxed{90^\\circ}", "90"),
        ("\\boxed{10\\%}", "We find $x=\\boxed{10}$."),
        ("\\boxed{2\\text{ cm}}", "First $\\boxed{3}$, then $\\boxed{2}$."),
        ("\\boxed{x=5}", "\\fbox{x}\\boxed{5}"),
        ("\\boxed{3}, no, \\boxed{5}", "5"),
        ("\\boxed{\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
        ("\\(\\boxed{p - q}\\)", "p-q"),
        ("The answer is $\\sqrt3$.", "\\sqrt{3}"),  # no box: what stands between dollars, as lm-eval's task takes it
        ("\\sqrt3", "\\sqrt{3}"),
    ],
)
def test_boxed_answers_are_compared_as_latex(text: str, reference: str) -> None:
    assert boxed(text, reference)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("\\boxed{3}", "5"),
        ("\\boxed{5} or \\boxed{3}", "5"),
        ("\\boxed{5", "5"),  # cut off
        ("5 \\boxed{}", "5"),
        ("", "5"),
        ("\\boxed{(1,2)}", "(2,1)"),
        ("The answer is 5, I think.", "5"),
        ("\\fbox{5}", "6"),
        ("\\frac", "\\frac{1}{2}"),
        ("}}}{{{", "\\boxed{5}"),
        ("5", "{5"),  # a reference that closes nothing
        ("\\boxed{" * 3000, "5"),
    ],
)
def test_wrong_and_broken_answers_are_wrong(text: str, reference: str) -> None:
    assert not boxed(text, reference)


def test_missing_library_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ValueError, match=r"needs lm-eval: install the extra eval"):
        library("lm_eval.api.metrics")
