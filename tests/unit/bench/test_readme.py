"""The README's part about speed is what its result gives, and nothing else of the README is touched."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.common.command import ROOT
from bench.document import read
from bench.readme import END, START, generated, main, newest, part, replaced
from tests.unit.bench.documents import stored, write

LINK = re.compile(r"\[full result\]\((bench/results/[^)]+)\.md\)")


def test_the_readme_tells_what_its_result_gives() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = LINK.search(text.split(START)[1].split(END)[0])
    assert found is not None
    result = ROOT / f"{found[1]}.json"
    assert result.with_suffix(".md").exists()
    expected = part(read(result), f"{found[1]}.md")
    assert text == replaced(text, expected), "run: python -m bench.readme"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a README with markers and one result."""
    (tmp_path / "README.md").write_text(f"# Title\n\n{START}old\n{END}\nAfter it.\n", encoding="utf-8")
    write(tmp_path / "results" / "2026-01-02-bundled-cpu.json", stored())
    return tmp_path


def test_only_the_part_is_replaced_and_check_tells(project: Path) -> None:
    readme, result = project / "README.md", project / "results" / "2026-01-02-bundled-cpu.json"
    arguments = [str(result), "--readme", str(readme)]
    before = readme.read_text(encoding="utf-8")
    assert main([*arguments, "--check"]) == 1
    assert readme.read_text(encoding="utf-8") == before
    assert main(arguments) == 0
    new = readme.read_text(encoding="utf-8")
    assert new.startswith(f"# Title\n\n{START}Bundled pair, A CPU, K = 5,")
    assert new.endswith(f".\n{END}\nAfter it.\n")
    assert "[full result](results/2026-01-02-bundled-cpu.md)" in new
    assert main([*arguments, "--check"]) == 0


def test_numbers_and_sentences_are_those_of_the_document() -> None:
    lines = part(stored(), "x.md").splitlines()
    assert "| temperature 0 | × `generate` | τ | | temperature 1 | × `none` | τ |" in lines
    assert "| transformers `generate` | 1.00× (1.00–1.00) | – | | `none` | 1.00× (1.00–1.00) | 1.00 |" in lines
    assert "| `none` | 1.25× (1.25–1.25) | 1.00 | | `mars` | 2.00× (2.00–2.00) | 3.00 |" in lines
    assert "| `strict` | 4.00× (4.00–4.00) | 2.00 | |  | |  |" in lines
    assert not any("meter off" in line for line in lines)
    text = "\n".join(lines)
    assert "`generate`, token for token: `none` 2 of 2, transformers assisted generation 2 of 2." in text
    assert "6.0 % to 6.0 % of the wall time; the goal of at most 3.0 % is not reached." in text


TWICE = START + START + END, START + END + START, START + END + END, START + END + START + END


@pytest.mark.parametrize("text", ["none", START, END, END + START, *TWICE])
def test_markers_must_be_there_once_and_in_order(text: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        replaced(text, "new\n")


def test_the_newest_result_is_taken_and_older_formats_are_passed_over(project: Path) -> None:
    results = project / "results"
    later = replace(stored(), machine={**stored().machine, "date": "2026-01-02 23:00 UTC", "hardware": "Later"})
    write(results / "2026-01-02-bundled-a.json", later)
    (results / "2026-09-09-bundled-cpu.json").write_text('{"tables": {}}', encoding="utf-8")
    assert newest(results).name == "2026-01-02-bundled-a.json"
    assert "Bundled pair, Later," in generated(project / "README.md", None, results)


def test_a_folder_without_results_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="holds no result"):
        newest(project)
    assert main([str(project / "none.json"), "--readme", str(project / "README.md")]) == 2
    assert "none.json cannot be read" in capsys.readouterr().err
