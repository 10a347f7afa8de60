"""docs/architecture.md is true: contracts, order of modules, tabs, readers of the environment, and
the functions of the sequence diagram."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LINES = dict(re.findall(r"^\* `(\w+)`: (.+)$", PAGE.partition("## Modules")[2], re.MULTILINE))
FILES = dict(re.findall(r"participant (\w) as (\S+)", PAGE))
Node = ast.ClassDef | ast.FunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources(folder: str) -> list[Path]:
    path = ROOT / folder
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Full names; ``from a import b`` gives a and a.b."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{each.name}" for each in node.names))


def graph(folder: str) -> dict[str, set[str]]:
    """Module or folder of a package → those that it imports."""
    package = folder.replace("/", ".") + "."
    edges: dict[str, set[str]] = {}
    for path in sources(folder):
        name = path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
        if not name.startswith("__"):
            edges.setdefault(name, set()).update(
                each.removeprefix(package).partition(".")[0]
                for each in imports(path)
                if each.startswith(package)
            )
    return {name: others & edges.keys() - {name} for name, others in edges.items()}


def test_layers_are_those_of_import_linter() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (layers,) = re.findall(r"^\* `layers`: (.+),", PAGE, re.MULTILINE)
    assert [re.findall(r"\w+", part) for part in layers.split("→")] == [
        part.split(" | ") for part in linter["contracts"][0]["layers"]
    ]


@pytest.mark.parametrize(
    "package", ["mars_core", "storage", "display", "evaluation", "ui", "hosting"]
)
def test_modules_import_those_before_them_only(package: str) -> None:
    edges, order = graph(package), re.findall(r"`(\w+)`", LINES[package])
    assert sorted(order) == sorted(edges)
    above = [
        (name, other)
        for name in order
        for other in edges[name]
        if order.index(other) > order.index(name)
    ]
    assert above == []


def test_the_environment_is_read_where_the_page_says() -> None:
    (sentence,) = re.findall(r"`os\.environ` is read in (.+);", PAGE)
    readers = {
        str(path.relative_to(ROOT))
        for package in (*LINES, "mars_playground")
        for path in sources(package)
        if any(
            isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
            for node in ast.walk(tree(path))
        )
    }
    named = re.findall(r"`([\w/.]+)`", sentence)
    assert [path for path in readers if not path.startswith(tuple(named))] == []
    assert [name for name in named if not any(path.startswith(name) for path in readers)] == []


def test_the_sequence_diagram_names_functions_and_classes_where_they_are() -> None:
    called = re.findall(r"^ +\w->>(\w): ([\w, ]+)", PAGE, re.MULTILINE)
    answered = re.findall(r"^ +(\w)-->>\w: (\w+)", PAGE, re.MULTILINE)
    assert len(called) > 10 and len(answered) > 5
    missing = [
        (FILES[file], name)
        for file, names in called
        for name in names.split(", ")
        if name not in defined(FILES[file])
    ]
    everything = {name for path in (*FILES.values(), "mars_core/jobs.py") for name in defined(path)}
    assert missing == [] and {name for _, name in answered} <= everything


@cache
def defined(folder: str) -> set[str]:
    return {
        node.name
        for path in sources(folder)
        for node in ast.walk(tree(path))
        if isinstance(node, Node)
    }
