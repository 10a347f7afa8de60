"""The table beside other programs is that of the result that it cites, and every measurement is
documented."""

from __future__ import annotations

import re

from bench.common.command import ROOT

ROW = re.compile(r"^\|.*\|$", re.MULTILINE)


def test_every_row_of_the_table_is_in_the_result_that_its_section_cites() -> None:
    text = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    section = text.partition("\n## The default pair on a CPU\n")[2].partition("\n## ")[0]
    cited = re.search(r"\]\(\.\./(bench/results/[^)]+\.md)\)", section)
    assert cited is not None
    result = (ROOT / cited[1]).read_text(encoding="utf-8")
    rows = ROW.findall(section)
    assert len(rows) > 6 and not {*rows} - {*ROW.findall(result)}


def test_the_documents_name_every_measurement() -> None:
    commands = (ROOT / "docs/speed.md").read_text(encoding="utf-8").partition("\n## Commands\n")[2]
    modules = {
        path.stem for path in (ROOT / "bench").glob("*.py") if "def main(" in path.read_text()
    }
    modules |= {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")}
    assert {*re.findall(r"bench\.(\w+)", commands)} == modules - {"__main__"}
