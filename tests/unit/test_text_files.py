"""Every reader of a text that a person wrote ends lines at LF and CRLF only, leaves a byte-order mark
out, and says of what it cannot read the file and the line."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evaluation.lossless.command import read_prompts
from evaluation.records.read import MAX_BYTES, read_records
from evaluation.suites.read import MAX_FILE, read_suite
from evaluation.suites.typed import split_prompts
from mars_core.settings.command_line import read_prompt
from mars_core.text import files
from tests.unit.test_architecture import ROOT
from ui.settings.values import read_settings, settings_values

LINE = "one\u2028two\x0cthree\x85four\rfive\u2029six\x1cseven"
BOM = b"\xef\xbb\xbf"
Reader = Callable[[Path], Sequence[str]]


def row(text: str) -> str:
    choice = {"text": text, "finish_reason": "stop"}
    return json.dumps({"prompt": text, "choices": [choice], "id": text}, ensure_ascii=False)


def json_text(text: str) -> str:  # JSON has no control characters in a text
    return row("".join(each for each in text if each >= " "))


def standard_input(path: Path) -> Sequence[str]:
    with pytest.MonkeyPatch.context() as patch, path.open() as stream:
        patch.setattr(sys, "stdin", stream)
        return read_prompt("-").split("\n")


READERS: dict[str, tuple[Callable[[str], str], Reader, int]] = {
    "--prompt-file": (
        str,
        lambda path: read_prompt(path).split("\n"),
        files.MAX_BYTES,
    ),
    "--prompt -": (str, standard_input, files.MAX_BYTES),
    "mars check --prompts": (str, read_prompts, files.MAX_BYTES),
    "--suite": (
        json_text,
        lambda path: [item.turns[0] for item in read_suite(str(path)).items],
        MAX_FILE,
    ),
    "mars import, lines": (
        json_text,
        lambda path: [each.trace.text for each in read_records(path)],
        MAX_BYTES,
    ),
    "mars import, a stream": (
        lambda text: f"data: {json_text(text)}",
        lambda path: [each.trace.text for each in read_records(path)],
        MAX_BYTES,
    ),
}
over_readers = pytest.mark.parametrize(("write", "read", "most"), READERS.values(), ids=READERS)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", BOM])
def test_only_line_feeds_end_a_line_and_a_mark_is_no_text(
    name: str, end: str, mark: bytes, tmp_path: Path
) -> None:
    write, read, _ = READERS[name]
    path, known = tmp_path / "texts", [*(write(text) for text in (LINE, "b"))]
    path.write_bytes(mark + end.join(known).encode())
    texts = [LINE, "b"] if write is str else ["".join(c for c in LINE if c >= " "), "b"]
    assert [*read(path)] == texts


@over_readers
def test_what_is_not_utf_8_or_too_large_is_one_sentence(
    write: Callable[[str], str], read: Reader, most: int, tmp_path: Path
) -> None:
    path = tmp_path / "texts"
    path.write_bytes(write("a").encode() + b"\n" + write("caf").encode() + b"\xe9\n")
    with pytest.raises(ValueError, match=f"{path}, line 2: byte [0-9]+ is not UTF-8; save") as bad:
        read(path)
    assert str(bad.value).endswith(".") and "\n" not in str(bad.value)
    with path.open("wb") as file:
        file.truncate(most + 1)  # sparse
    with pytest.raises(ValueError, match=f"has more than {most:,} bytes"):
        read(path)


@pytest.mark.parametrize("name", ["none", "."])
def test_a_file_that_cannot_be_opened_is_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be read: .*\.$") as caught:
        files.read_text(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path))


def test_an_endless_file_is_refused_at_its_limit() -> None:
    with pytest.raises(ValueError, match="/dev/zero has more than 1,000 bytes"):
        files.read_text(Path("/dev/zero"), 1000)
    with pytest.raises(ValueError, match="/dev/zero, line 1: the line has more than 10 bytes"):
        next(files.read_lines(Path("/dev/zero"), 1000, 10))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_a_field_are_those_that_a_person_typed(end: str) -> None:
    text = LINE.replace("\r", "")  # a browser sends no other line ends
    lines = end.join((text, "", "b"))
    assert split_prompts(lines) == [text, "b"]
    typed = {"stop": lines, "protect": lines, "logit_bias": f"{text}=1{end}b=2"}
    read = read_settings(typed, "", *typed)
    assert read.stop == read.protect == (text, "b")
    assert read.logit_bias == ((text, 1), ("b", 2))
    assert read_settings(settings_values(read), "", *typed) == read


OWN = {  # what the program wrote, or the system, or an error says
    "splitlines": {
        "mars_core/models/eagle/checkpoint.py",
        "evaluation/scoring/code.py",
        "mars_core/accelerators/__init__.py",
        "mars_core/models/errors.py",
        "mars_core/models/memory.py",
        "storage/errors.py",
        "storage/export/columns.py",
        "storage/opening.py",
    },
    "read_text": {
        "hosting/backup/service.py",
        "hosting/deploy/__main__.py",
        "ui/public/preview.py",
        "mars_core/models/memory.py",
        "display/sources.py",
        "mars_core/demo/words.py",
        "ui/kit/responses.py",
    },
    "FileType": set[str](),
}


@pytest.mark.parametrize("method", OWN)
def test_text_of_people_has_one_reader(method: str) -> None:
    packages = ("mars_core", "storage", "display", "evaluation", "ui", "hosting", "mars_playground")
    paths = [path for name in packages for path in (ROOT / name).rglob("*.py")]
    users = {
        str(path.relative_to(ROOT))
        for path in paths
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Attribute) and node.attr == method
    }
    assert users == OWN[method]
