"""Locks, bills of materials, licences and what is installed agree; every locked package has hashes
and is in one file."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LOCKS = ROOT / "locks"
FILES = sorted(path.stem for path in LOCKS.glob("*.txt"))


def locked(name: str) -> dict[str, set[str]]:
    """Package → versions of one lock file."""
    versions: dict[str, set[str]] = {}
    for line in (LOCKS / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", line):
            versions.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return versions


ALL = {name: locked(name) for name in FILES}
# Packages that are needed under a condition alone, such as a platform.
CONDITIONAL = {
    canonicalize_name(name)
    for file in FILES
    for name in re.findall(
        r"^([\w.-]+)==\S+ ;", (LOCKS / f"{file}.txt").read_text("utf-8"), re.MULTILINE
    )
}


def test_every_import_of_the_program_is_a_requirement() -> None:
    """What comes along with another package today may be gone or another version tomorrow."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, contracts = config["project"], config["tool"]["importlinter"]
    optional = (project["optional-dependencies"][name] for name in ("eval", "ray"))
    names = {Requirement(line).name for line in chain(project["dependencies"], *optional)}
    files = chain(*(importlib.metadata.files(name) or () for name in names))
    known = {file.parts[0].removesuffix(".py") for file in files}
    graph = grimp.build_graph(*contracts["root_packages"], include_external_packages=True)
    imported = {each for each in graph.modules if graph.is_module_squashed(each)}
    assert imported - sys.stdlib_module_names - known == {"triton"}  # which torch for CUDA brings


@pytest.mark.parametrize("name", FILES)
def test_every_locked_package_has_hashes(name: str) -> None:
    text = (LOCKS / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.split(
        r"^(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE
    )
    for entry in filter(None, entries):
        first, *hashes = entry.replace(" \\\n", "\n").splitlines()
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", first), first
        assert hashes and all(
            re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", each) for each in hashes
        )


@pytest.mark.parametrize("variant", ["cpu", "cuda"])
def test_the_bill_of_materials_is_that_of_the_lock(variant: str) -> None:
    """Run `make sbom`. Packages of other platforms have a condition in the lock and may be
    absent."""
    text = (ROOT / "docs/sbom" / f"run-{variant}.cdx.json").read_text(encoding="utf-8")
    bill = json.loads(text)
    root = bill["metadata"]["component"]
    assert (bill["bomFormat"], root["name"]) == ("CycloneDX", "mars-playground")
    named = {
        (canonicalize_name(each["name"]), each["version"].partition("+")[0])
        for each in bill["components"]
        if each["name"] != "pip"  # of the environment that was read
    }
    locks = ("run", f"torch-{variant}")
    assert named <= {(name, *each) for lock in locks for name, each in ALL[lock].items()}
    assert {name for lock in locks for name in ALL[lock]} - dict(named).keys() <= CONDITIONAL
    refs = {each["bom-ref"] for each in [root, *bill["components"]]}
    assert {each["ref"] for each in bill["dependencies"]} <= refs


def test_the_list_of_licences_is_that_of_the_locks() -> None:
    """Run `make sbom`. The bill of materials has the licences of what CUDA alone needs."""
    text = (ROOT / "docs/reference/packages.md").read_text(encoding="utf-8")
    rows = [
        [*map(str.strip, row.split("|"))] for row in re.findall(r"^\|(.+)\|$", text, re.MULTILINE)
    ]
    listed = {
        (canonicalize_name(name), version.partition("+")[0]) for name, version, *_ in rows[2:]
    }
    locked = {
        (name, version) for lock in ALL.values() for name, all in lock.items() for version in all
    }
    assert listed <= locked
    assert {name for name, _ in locked} - dict(listed).keys() <= CONDITIONAL | ALL[
        "torch-cuda"
    ].keys()


def test_what_is_tested_here_is_what_is_locked() -> None:
    """Else the tests would tell nothing about what others install. Other builds of a version
    (2.13.0+cpu) are the same version."""
    pins = {name: versions for lock in ALL.values() for name, versions in lock.items()}
    for distribution in importlib.metadata.distributions():
        versions = pins.get(canonicalize_name(distribution.metadata["Name"]))
        if versions is not None:
            version = distribution.version.partition("+")[0]
            assert version in versions, (
                f"{distribution.metadata['Name']} {version} is installed; locked: {versions}"
            )
