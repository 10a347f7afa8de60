"""What a suite file may look like, and the one sentence for what it may not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from evaluation.suites import read
from evaluation.suites.read import read_suite
from tests.unit.evaluation.suites.files import row, write


def test_every_line_is_an_item_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", [row(7, ["Hi.", "And?"], category="chat"), {"prompt": "Say a."}])
    suite = read_suite(path)
    assert [(item.id, item.turns, item.category) for item in suite.items] == [
        ("7", ("Hi.", "And?"), "chat"),
        ("2", ("Say a.",), ""),  # without an id: its line
    ]
    assert (suite.name, suite.source, suite.metrics) == ("mine", path, ())
    assert suite.sha256 == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_byte_order_mark_empty_lines_and_carriage_returns_make_no_difference(tmp_path: Path) -> None:
    plain, dressed = tmp_path / "a" / "s.jsonl", tmp_path / "b" / "s.jsonl"
    rows = [row(1, "One\u2028line\x85of\x0ctext"), row(2, "Zwei")]
    write(plain, rows)
    dressed.parent.mkdir()
    dressed.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n\r\n").rstrip())
    assert read_suite(str(plain)).items == read_suite(str(dressed)).items


def test_question_file_is_named_after_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "flores" / "question.jsonl", [row(1, "Hi.")])
    assert read_suite(path).name == "flores"
    assert read_suite(str(tmp_path / "flores")).items == read_suite(path).items


def test_limit_takes_the_first_items_and_changes_no_metric(tmp_path: Path) -> None:
    rows = [row(1, "x?", "4"), row(2, "y?", "\\frac{1}{2}"), row(3, "z?", "\\sqrt{2}")]
    path = write(tmp_path / "some.jsonl", rows)
    whole, part = read_suite(path), read_suite(path, 1)
    assert part.items == whole.items[:1]
    assert part.metrics == whole.metrics == ("exact_match,boxed",)
    assert read_suite(path, 99) == whole


def test_limit_of_a_mixed_suite_keeps_the_metrics_of_what_is_left(tmp_path: Path) -> None:
    rows = [row(1, ["a", "b"], category="writing"), row(2, "c", "word", "qa"), row(3, "d", "#### 3", "math")]
    path = write(tmp_path / "mix.jsonl", rows)
    assert len(read_suite(path).metrics) == 3
    assert read_suite(path, 2).metrics == ("contains,none",)
    assert read_suite(path, 1).metrics == ()


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=r"limit is .* at least 1"):
        read_suite("demo_stories", limit)


@pytest.mark.parametrize(
    "given",
    [
        {"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "    pass\n"},
        {"unique_id": "test/1", "problem": "1+1?", "solution": "\\boxed{2}", "answer": "2", "level": 1},
        {"question": "1+1?", "answer": "#### 2"},
        {"id": "a", "instruction": "Add.", "input": "1 1", "output": "2"},
        {"question_id": 1, "turns": ["a"], "reference": [1, 2.5, "c", None], "category": None},
    ],
)
def test_exports_of_the_field_are_read(tmp_path: Path, given: dict[str, object]) -> None:
    suite = read_suite(write(tmp_path / "x.jsonl", [given]))
    assert suite.items[0].turns[0].strip() and suite.items[0].references


def test_own_tests_of_a_row_call_its_entry_point(tmp_path: Path) -> None:
    given = {
        "prompt": "def f(): ...",
        "test": "def check(candidate):\n    assert candidate() == 1\n",
        "entry_point": "f",
    }
    suite = read_suite(
        write(tmp_path / "x.jsonl", [given, {"text": "Write g.", "test_list": ["assert g()", "assert 1"]}])
    )
    assert suite.items[0].tests.endswith("check(f)\n")
    assert suite.items[1].tests == "assert g()\nassert 1"
    assert suite.metrics == ("pass@1,none",)


HOSTILE = {
    "not JSON": b'{"turns": ["a"]',
    "must be one JSON object, not a list of 1": b'[{"turns": ["a"]}]',
    "must be one JSON object, not null": b"null",
    "is not UTF-8": b'{"turns": ["\xff"]}',
    "NaN is not a JSON number": b'{"turns": ["a"], "reference": NaN}',
    "nested too deeply": b'{"turns": ' + b"[" * 200_000,
    "there are no turns": b'{"question_id": 1}',
    "turns is a list of 0": b'{"turns": []}',
    r"turns\[1\] is an empty text": b'{"turns": ["a", " "]}',
    r"turns\[0\] is 5": b'{"turns": [5]}',
    "turns is an object": b'{"turns": {"a": 1}}',
    "turns is a list of 65": json.dumps({"turns": ["a"] * 65}).encode(),
    "turns has a lone surrogate at character 2": b'{"turns": ["a\\ud800"]}',
    r"reference\[0\] is an object": b'{"turns": ["a"], "reference": [{}]}',
    "reference is true": b'{"turns": ["a"], "reference": true}',
    "reference is inf": b'{"turns": ["a"], "reference": 1e999}',
    "category is a list of 1": b'{"turns": ["a"], "category": ["b"]}',
    "question_id is true": b'{"turns": ["a"], "question_id": true}',
    "tests is 5": b'{"turns": ["a"], "tests": 5}',
    "entry_point is the text": b'{"turns": ["a"], "test": "def check(f): 1", "entry_point": "f()\\n"}',
    "the id '1' is in line 1 already": b'{"turns": ["a"], "question_id": "1"}',
}


@pytest.mark.parametrize(("why", "line"), HOSTILE.items())
def test_bad_line_is_refused_in_one_sentence_with_file_and_line(tmp_path: Path, why: str, line: bytes) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"turns": ["first"], "question_id": 1}\n\n' + line + b"\n")
    with pytest.raises(ValueError, match=why) as caught:
        read_suite(str(path))
    sentence = str(caught.value)
    assert (
        sentence.startswith(f"{path}, line 3: ")
        and sentence.endswith(".")
        and "\n" not in sentence
        and len(sentence) < 400
    )


def test_limits_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "long.jsonl", [row(1, "a"), row(2, "b" * 200)])
    monkeypatch.setattr(read, "MAX_LINE", 150)
    with pytest.raises(ValueError, match="line 2: the line has more than 150 bytes"):
        read_suite(path)
    monkeypatch.setattr(read, "MAX_ITEMS", 0)
    with pytest.raises(ValueError, match="line 1: a suite may have 0 items"):
        read_suite(path)
    monkeypatch.setattr(read, "MAX_FILE", 100)
    with pytest.raises(ValueError, match="bytes; a suite may have 100"):
        read_suite(path)


def test_empty_file_and_no_file_are_said(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n \n")
    with pytest.raises(ValueError, match="has no item"):
        read_suite(str(tmp_path / "empty.jsonl"))
    for name in ("nowhere.jsonl", "", "a\x00b", str(tmp_path), "x" * 5000):
        with pytest.raises(ValueError, match="demo_arithmetic, demo_stories"):
            read_suite(name)


def test_empty_references_are_none(tmp_path: Path) -> None:
    suite = read_suite(write(tmp_path / "x.jsonl", [row(1, "a", ""), row(2, "b", ["", " "]), row(3, "c", [])]))
    assert [item.references for item in suite.items] == [(), (), ()]
    assert suite.metrics == ()
