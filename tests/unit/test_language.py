"""No two public types have one name."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (
    "mars_core",
    "display",
    "evaluation",
    "storage",
    "hosting",
    "ui",
    "bench",
    "training",
    "mars_playground",
    "integrations/vllm/mars_vllm",
)


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
