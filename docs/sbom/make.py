"""Writes docs/sbom/*.cdx.json (CycloneDX) and docs/reference/packages.md from installed packages:
``make sbom``.

    python docs/sbom/make.py .venv/bin/python [more pythons]

What is read is what is installed, so a list of the CUDA libraries needs an environment with them:
``make sbom WITH=…/bin/python``. What no given environment has keeps its line in packages.md as long
as its version is the locked one. cyclonedx-py and pip-licenses must be installed beside this
python.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
PAGE = ROOT / "docs" / "reference" / "packages.md"
PARTS: Mapping[str, str] = {
    "run": "The page and the command line",
    "torch-cuda": "torch for CUDA (for CPUs torch alone)",
    "mcp": "Extra `mcp`",
    "postgres": "Extra `postgres`",
    "eval": "Extra `eval`",
    "dev": "Extra `dev` (never deployed)",
}
PLATFORM = {
    "python_version": "3.12",
    "python_full_version": "3.12.12",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
NOT_SEEN = "of other platforms"
LINE = re.compile(r"^\* \*\*(.+)\*\*: (.+)$", re.MULTILINE)
PACKAGE = re.compile(r"\[?([^\[\]\s]+?)==([^\]\s,]+)\]?(?:\((\S*)\))?(?:, |$)")


def canonical(name: str) -> str:
    return str(canonicalize_name(name))


def locked(*locks: str) -> Iterator[Requirement]:
    """The packages of lock files, each with its one version."""
    for lock in locks:
        text = (LOCKS / f"{lock}.txt").read_text(encoding="utf-8")
        yield from map(Requirement, re.findall(r"^[A-Za-z0-9][^\\\n]*", text, re.MULTILINE))


def version_of(requirement: Requirement) -> str:
    (pin,) = requirement.specifier
    return pin.version


def deployed(variant: str) -> dict[str, str]:
    """Package → version of what a deployment on Linux installs: variant cpu or cuda."""
    return {
        canonical(each.name): version_of(each)
        for each in locked("run", f"torch-{variant}")
        if each.marker is None or each.marker.evaluate(PLATFORM)
    }


def tool(name: str, *arguments: str) -> Any:
    command = [str(Path(sys.executable).parent / name), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def base(version: str) -> str:
    """2.13.0+cpu is a build of 2.13.0."""
    return version.partition("+")[0]


def licences(pythons: Iterable[str]) -> dict[tuple[str, str], tuple[str, str]]:
    """(package, version) → licence and address: what the page has, and over it what is
    installed."""
    licences_of: dict[tuple[str, str], tuple[str, str]] = {}
    _, _, lists = PAGE.read_text(encoding="utf-8").partition("\n## ")
    for licence, packages in LINE.findall(lists):
        for name, version, address in PACKAGE.findall(packages):
            licences_of[canonical(name), version] = licence, address
    for python in pythons:
        options = (
            "--python",
            python,
            "--from=mixed",
            "--with-urls",
            "--with-system",
            "--format=json",
        )
        for row in tool("pip-licenses", *options):
            address = row["URL"] if re.fullmatch(r"https?://[^\s()|]+", row["URL"]) else ""
            first, *_ = row["License"].strip().splitlines() or [
                "UNKNOWN"
            ]  # some packages put the full text there
            licences_of[canonical(row["Name"]), base(row["Version"])] = (
                first.strip().replace("|", "/")[:100],
                address,
            )
    return licences_of


def page(licences_of: Mapping[tuple[str, str], tuple[str, str]]) -> str:
    """The introduction stays as it is in the page: all before its first section."""
    parts = [re.split(r"^## ", PAGE.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]]
    for lock, title in PARTS.items():
        lines: dict[str, list[str]] = {}
        for name, version in sorted(
            {canonical(each.name): version_of(each) for each in locked(lock)}.items()
        ):
            licence, address = licences_of.get((name, version), (NOT_SEEN, ""))
            lines.setdefault(licence, []).append(
                f"[{name}=={version}]({address})" if address else f"{name}=={version}"
            )
        text = "".join(
            f"* **{licence}**: {', '.join(packages)}\n"
            for licence, packages in sorted(lines.items())
        )
        parts.append(f"## {title}\n\n{text}")
    return parts[0] + "\n".join(parts[1:])


def sbom(python: str) -> None:
    """One file for what a deployment has of this environment: run-cpu or run-cuda by the torch that
    is in it."""
    options = ("--output-reproducible", "--of", "JSON", "--pyproject", str(ROOT / "pyproject.toml"))
    document = tool("cyclonedx-py", "environment", *options, python)
    variant = (
        "cuda"
        if any(canonical(each["name"]) == "triton" for each in document["components"])
        else "cpu"
    )
    wanted = deployed(variant)
    components = [each for each in document["components"] if canonical(each["name"]) in wanted]
    refs = {each["bom-ref"] for each in components} | {document["metadata"]["component"]["bom-ref"]}
    document["components"] = [
        {key: value for key, value in each.items() if key != "externalReferences"}
        for each in components
    ]
    document["dependencies"] = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", []) if ref in refs]}
        for each in document["dependencies"]
        if each["ref"] in refs
    ]
    target = ROOT / "docs" / "sbom" / f"run-{variant}.cdx.json"
    target.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(pythons: list[str]) -> int:
    PAGE.write_text(page(licences(pythons)), encoding="utf-8")
    for python in pythons:
        sbom(python)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
