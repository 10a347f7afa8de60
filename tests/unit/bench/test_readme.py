"""The tables of speed in the documents are those of the results that they cite, and every measurement
is named there."""

from __future__ import annotations

import re

import pytest

from bench.common.command import ROOT

ROW = re.compile(r"^\|.*\|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "heading"), [("README.md", "## Measured"), ("docs/speed.md", "## The bundled pair")]
)
def test_every_row_of_a_table_is_in_the_result_that_its_section_cites(
    page: str, heading: str
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    section = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    cited = re.search(r"\]\(((?:\.\./)?bench/results/[^)]+\.md)\)", section)
    assert cited is not None
    result = ((ROOT / page).parent / cited[1]).read_text(encoding="utf-8")
    rows = ROW.findall(section)
    assert len(rows) > 6 and not {*rows} - {*ROW.findall(result)}


def test_the_documents_name_every_measurement() -> None:
    commands = (ROOT / "docs/speed.md").read_text(encoding="utf-8").partition("\n## Commands\n")[2]
    modules = {
        path.stem for path in (ROOT / "bench").glob("*.py") if "def main(" in path.read_text()
    }
    modules |= {path.parent.name for path in (ROOT / "bench").glob("*/__main__.py")}
    assert {*re.findall(r"bench\.(\w+)", commands)} == modules - {"__main__"}
