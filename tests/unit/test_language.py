"""Names are plain technical English: identifiers outside tests do not contain banned words, and no
two public types have one name."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "mars_core",
    "evaluation",
    "storage",
    "hosting",
    "ui",
    "bench",
    "training",
    "mars_playground",
    "integrations/vllm/mars_vllm",
)
BANNED = frozenset(
    {
        "ask",
        "asked",
        "asks",
        "beware",
        "deed",
        "deeds",
        "door",
        "doors",
        "forgave",
        "forgive",
        "forgiven",
        "forgives",
        "found",
        "house",
        "law",
        "laws",
        "listed",
        "made",
        "mine",
        "place",
        "placed",
        "places",
        "ruler",
        "said",
        "shown",
        "still",
        "told",
        "untold",
        "whole",
        "workplace",
    }
)
ALLOWED = frozenset(
    {
        "connection_made",  # asyncio.Protocol
        "forgiveness",  # column of database and exports
        "made_for",  # a key of an EAGLE-3 head's config.json
    }
)


def words(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions, classes, parameters and assigned names, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def banned(source: str, path: str) -> list[str]:
    """``path:line name`` of every identifier of a file with a banned word, and ``path`` if its own
    name has one."""
    found_at = [(path, 0) for part in Path(path).with_suffix("").parts if BANNED & set(words(part))]
    found_at += [
        each
        for each in names(ast.parse(source))
        if BANNED & set(words(each[0])) and each[0] not in ALLOWED
    ]
    return [f"{path}:{line} {name}" for name, line in found_at]


@pytest.mark.parametrize("folder", [*SOURCES, "app.py"])
def test_no_identifier_has_a_banned_word(folder: str) -> None:
    root = ROOT / folder
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    assert files
    assert not [
        name
        for file in files
        for name in banned(file.read_text("utf-8"), str(file.relative_to(ROOT)))
    ]


@pytest.mark.parametrize(
    "source",
    [
        "target_law = 1",
        "def said(): ...",
        "class TheHouse: ...",
        "lambda mine: 0",
        "self.told = 1",
        "for made in (): ...",
    ],
)
def test_banned_words_are_detected(source: str) -> None:
    assert banned(source, "mars_core/rules.py")


def types_of(node: ast.stmt) -> Iterator[str]:
    """The name of a class or of another type in a module; not of a type variable."""
    match node:
        case ast.ClassDef(name):
            yield name
        case ast.Assign([ast.Name(name)], value) if re.fullmatch("[A-Z]+[a-z]+[A-Za-z]*", name):
            if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"):
                yield name


def test_public_types_have_different_names() -> None:
    files = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    types = [
        name
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.stmt)
        for name in types_of(node)
        if not name.startswith("_")
    ]
    assert len(types) > 400
    assert not [name for name, count in Counter(types).items() if count > 1]


def test_names_of_files_are_checked_and_parts_of_words_are_not() -> None:
    assert banned("", "mars_core/house_rules.py")
    assert not banned("flaw = lawful = remade = forgiveness = 1", "warehouse.py")
