"""The bills of materials and the list of licences say what the locks say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SBOM = ROOT / "docs" / "sbom"


@pytest.fixture(scope="module")
def make() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SBOM / "make.py")))


def test_the_list_of_licences_is_that_of_the_locks(make: SimpleNamespace) -> None:
    """Made again from itself it is the same: every locked package has its line, with its version,
    and no other has."""
    assert make.page(make.licences([])) == make.PAGE.read_text(encoding="utf-8"), "run `make sbom`"


def test_a_licence_is_known_for_all_but_what_belongs_to_other_platforms(
    make: SimpleNamespace,
) -> None:
    unknown = {
        name for (name, _), (licence, _) in make.licences([]).items() if licence == make.NOT_SEEN
    }
    assert unknown <= {"appnope", "audioop-lts", "httpx2-jsfetch", "pywin32"}


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_the_bill_of_materials_is_that_of_the_lock(variant: str, make: SimpleNamespace) -> None:
    bill: dict[str, Any] = json.loads(
        (SBOM / f"run-{variant}.cdx.json").read_text(encoding="utf-8")
    )
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "mars-playground",
    )
    named = {
        make.canonical(each["name"]): make.base(each["version"]) for each in bill["components"]
    }
    assert named == make.deployed(variant), "run `make sbom`"
    unsaid = {
        each["name"] for each in bill["components"] if not each.get("licenses")
    }  # packages.md has them
    assert unsaid <= {"transformers", "cuda-toolkit", "nvidia-cusparselt-cu13"}
    refs = {each["bom-ref"] for each in bill["components"]} | {
        bill["metadata"]["component"]["bom-ref"]
    }
    assert {each["ref"] for each in bill["dependencies"]} <= refs
