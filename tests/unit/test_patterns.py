"""No pattern of the code rescans a text: on long repeats of what it names, its time grows as the
text does. Texts of strangers reach them in requests, files and models' answers."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import re._parser as parser
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement, pairwise, permutations
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("mars_core", "storage", "display", "evaluation", "ui", "hosting", "mars_playground")
SCANS = ("search", "finditer", "findall", "sub", "subn", "split")
WAYS = (*SCANS, "match", "fullmatch")
SIZES = (250, 1_000, 4_000)
LEAST_S = 0.004  # below it no growth is measured, and none would matter
MOST_GROWTH = 9.0  # fourfold where time is linear, sixteenfold where it is quadratic
IN_CATEGORY = {"DIGIT": "1", "SPACE": " \n", "WORD": "a", "NOT_SPACE": "x", "NOT_WORD": "!"}


class Used(NamedTuple):
    """``way``: search, match or fullmatch."""

    where: str
    pattern: re.Pattern[Any]
    way: str


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """Of an expression of constants of its module; another name stands for a word."""
    inside = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    local = {name: "word" for name in inside if name not in names | vars(builtins)}
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), names | local)


def _ways(trees: Iterable[ast.AST]) -> dict[str, set[str]]:
    """How the pattern of each name is used."""
    ways = defaultdict(set)
    for node in (each for tree in trees for each in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and node.attr in WAYS:
            name = node.value.id if isinstance(node.value, ast.Name) else ""
            ways[name].add("search" if node.attr in SCANS else node.attr)
    return ways


def patterns() -> Iterator[Used]:
    """All of the code, in each way that it is used; ``search`` where that is not known."""
    paths = [path for each in PACKAGES for path in sorted((ROOT / each).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    anywhere = _ways(trees.values())
    for path, tree in trees.items():
        here = _ways([tree])
        named = {
            node.value: node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(ast.Name("re"), way), [first, *more], keywords):
                    pass
                case _:
                    continue
            if way not in (*WAYS, "compile"):
                continue
            relative = path.relative_to(ROOT)
            names = vars(importlib.import_module(".".join(relative.with_suffix("").parts)))
            flags = [each.value for each in keywords if each.arg == "flags"]
            flags += more[:1] if way == "compile" else []
            pattern = re.compile(_value(first, names), *(_value(each, names) for each in flags[:1]))
            name = named.get(node, "")
            ways = (here if name.startswith("_") else anywhere).get(name, {"search"})
            ways = ways if way == "compile" else {"search" if way in SCANS else way}
            yield from (Used(f"{relative}:{node.lineno}", pattern, each) for each in ways)


def _named(parsed: Any) -> Iterator[str]:
    """The characters that a pattern names, one of each class, and its longer literals."""
    literal = ""
    for code, value in parsed:
        literal = f"{literal}{chr(value)}" if str(code) == "LITERAL" else ""
        yield literal
        match str(code):
            case "NOT_LITERAL" | "ANY":
                yield "x"
            case "RANGE":
                yield chr(value[0])
            case "CATEGORY":
                yield from IN_CATEGORY[str(value).removeprefix("CATEGORY_")]
            case "IN":
                yield from _named(value)
            case _ if isinstance(value, tuple | list | parser.SubPattern):
                for part in value if isinstance(value, tuple | list) else [value]:
                    parts = part if isinstance(part, list) else [part]
                    for each in parts:
                        if isinstance(each, parser.SubPattern):
                            yield from _named(each)


def hostile(pattern: re.Pattern[Any], length: int) -> Iterator[Any]:
    """Repeats of what the pattern names, of two in turns, and of one after the other."""
    text = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    units = dict.fromkeys(filter(None, (each[:20] for each in _named(parser.parse(text, flags)))))
    single = [each for each in units if len(each) == 1][:10]
    several = sorted((each for each in units if len(each) > 1), key=len)[-4:]
    in_turns = combinations_with_replacement((*single, *several), 2)
    for unit, other in (*((a + b, "") for a, b in in_turns), *permutations((*single, *several), 2)):
        body = unit * (length // len(unit)) + other * (length // max(1, len(other)))
        for end in ("", "\x01"):
            made = f"{body}{end}"
            yield made if isinstance(pattern.pattern, str) else made.encode("utf-8")


def seconds(used: Used, text: Any) -> float:
    begun = thread_time()
    if used.way == "search":
        for _ in used.pattern.finditer(text):
            pass
    else:
        getattr(used.pattern, used.way)(text)
    return thread_time() - begun


def rescans(used: Used) -> bool:
    """Whether the time of any hostile text grows faster than the text."""
    for short, long in pairwise(SIZES):
        for few, many in zip(
            hostile(used.pattern, short), hostile(used.pattern, long), strict=True
        ):
            if seconds(used, many) > LEAST_S * long / SIZES[-1]:
                taken = min(seconds(used, many) for _ in range(3))
                if taken > MOST_GROWTH * min(seconds(used, few) for _ in range(3)) > 0:
                    return True
    return False


def test_no_pattern_of_the_code_rescans_a_text() -> None:
    used = list(patterns())
    assert len(used) > 60
    assert [
        f"{each.where} {each.pattern.pattern!r} ({each.way})" for each in used if rescans(each)
    ] == []


@pytest.mark.parametrize("pattern", [r"\s*:\s*", r"\d.*[-+*/=].*\d", "<call>(.*?)</call>"])
def test_a_pattern_that_rescans_is_found(pattern: str) -> None:
    assert rescans(Used("here", re.compile(pattern, re.DOTALL), "search"))
