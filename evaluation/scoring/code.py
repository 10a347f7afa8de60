"""Tests generated code with the item's tests, else with the examples in the docstring at the end of
the prompt.

An answer may be a continuation of the prompt, as HumanEval expects of a base model, or a complete
function, in a Markdown block or bare, as chat models write it. This module only parses code;
``evaluation.scoring.sandbox`` runs it.
"""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from evaluation.item import Item
from evaluation.scoring.sandbox import runs

MAX_TEXT = 100_000  # characters of an answer or a prompt that may be code
_MAX_TRIES = 60  # first or last lines that are tried to find code in prose
# Stop strings of lm-eval's task humaneval: text after the function is removed.
_STOPS = re.compile(r"\n(?:class|def|#|if|print)")
_BLOCK = re.compile(r"```[^\n`]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_BEGINS = re.compile(r"(?:from|import|def|async|class|@|#)(?=\W|\w)|\w+\s*=")
_CHECKED = re.compile(r"^check\((\w+)\)\s*\Z", re.MULTILINE)
_EXAMPLES = """
import ast, contextlib, io, math
def _same(value, want):
    try:
        wanted = ast.literal_eval(want)
    except (ValueError, SyntaxError):
        return False
    return value == wanted or (isinstance(wanted, float) and isinstance(value, (int, float)) and math.isclose(value, wanted))
_names = globals()
for _source, _want, _error in {examples!r}:
    _printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(_printed):
            try:
                _code = compile(_source.strip(), "<example>", "eval")
            except SyntaxError:
                exec(_source, _names)
                continue
            _value = eval(_code, _names)
    except Exception as _raised:
        assert type(_raised).__name__ == _error
        continue
    assert not _error
    if _want:
        _actual = _printed.getvalue().strip() if _value is None and _want != "None" else repr(_value)
        assert _actual == _want or _same(_value, _want)
"""


class _Task(NamedTuple):
    """The code in a prompt. ``entry``: name of the function to write; ``examples``: Python with
    assertions, or empty."""

    code: str = ""
    entry: str = ""
    examples: str = ""


def has_tests(item: Item) -> bool:
    """Return whether the item has tests, or its prompt has examples."""
    return bool(item.tests.strip() or _task(item.turns[-1]).examples)


def passes(item: Item, text: str) -> bool | None:
    """Return whether the answer passes; None without tests. Raises ValueError where code cannot be
    run safely on this machine."""
    return _passes(item, text) if has_tests(item) and _sound(item) else None


@lru_cache(maxsize=1024)
def _sound(item: Item) -> bool:
    """Return whether the examples of a prompt agree with the reference solution; some of
    HumanEval's do not, and are then ignored."""
    alone = item.tests.strip() or not item.references
    return bool(alone) or any(_passes(item, solution) for solution in item.references)


def _passes(item: Item, text: str) -> bool:
    task = _task(item.turns[-1])
    checked = _CHECKED.search(item.tests)
    entry = checked.group(1) if checked else task.entry
    program = next(filter(_parses, _programs(task.code, entry, text[:MAX_TEXT])), None)
    return program is not None and runs(f"{program}\n\n{item.tests or task.examples}\n")


def _programs(prompt: str, entry: str, text: str) -> Iterator[str]:
    """Interpretations of the answer, most likely first: a complete function, a continuation, a
    continuation without its indent."""
    blocks = [match.group(1) for match in _BLOCK.finditer(text)]
    defines = re.compile(rf"^(?:async\s+)?def\s+{entry}\b", re.MULTILINE)
    function = next((body for body in (*blocks, text) if entry and defines.search(body)), None)
    if function is not None or not prompt:
        body = function if function is not None else (blocks or [text])[0]
        yield f"{prompt}\n\n{body}"
        yield body
        yield f"{prompt}\n\n{_code_in(body)}"
        if not prompt:
            return
    body = blocks[0] if blocks else text
    body = body[: stop.start()] if (stop := _STOPS.search(body)) else body
    if body.lstrip("\n")[:1].isspace():
        yield prompt + body
    yield f"{prompt}    {body.lstrip()}"
    yield prompt + textwrap.indent(textwrap.dedent(body), "    ")


@lru_cache(maxsize=1024)
def _task(prompt: str) -> _Task:
    """Return the code at the end of the prompt, as in HumanEval, or in its Markdown block."""
    if "def " not in prompt or len(prompt) > MAX_TEXT:
        return _Task()
    blocks = [match.group(1) + "\n" for match in _BLOCK.finditer(prompt)]
    code = next((body for body in (*blocks, *_ends(prompt)) if _functions(body)), "")
    if not code:
        return _Task()
    function = _functions(code)[-1]
    return _Task(code, function.name, _examples(ast.get_docstring(function) or ""))


def _examples(docstring: str) -> str:
    """Return the ``>>>`` examples as one program; empty if none has an expected result."""
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # a line that resembles an example
        return ""
    rows = [(example.source, _want(example), _error(example)) for example in examples]
    return _EXAMPLES.format(examples=rows) if any(want for _, want, _ in rows) else ""


def _error(example: doctest.Example) -> str:
    """Return the name of an expected exception without its module; empty where none is."""
    return (example.exc_msg or "").partition(":")[0].strip().rpartition(".")[2]


def _want(example: doctest.Example) -> str:
    """Return the expected output. HumanEval also has ``f(1) == 2`` without an output line, which
    must be true."""
    last = tree.body[-1] if (tree := _compiled(example.source, ast.PyCF_ONLY_AST)) else None
    compared = isinstance(last, ast.Expr) and isinstance(last.value, ast.Compare)
    return example.want.strip() or ("True" if compared else "")


def _ends(prompt: str) -> Iterator[str]:
    """Return the rest of the prompt from each line that may begin code."""
    lines = (match.start() for match in re.finditer(r"^", prompt, re.MULTILINE))
    return (
        prompt[start:]
        for start in islice((line for line in lines if _BEGINS.match(prompt, line)), _MAX_TRIES)
    )


def _code_in(text: str) -> str:
    """Return the longest piece of ``text`` that is code: from a line that may begin it, to the end
    or a line at the margin."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _BEGINS.match(line)]
    ends = [
        len(lines),
        *(number for number in range(len(lines) - 1, 0, -1) if lines[number][:1].strip()),
    ]
    for start in starts[:3]:
        for end in ends[:_MAX_TRIES]:
            if end > start and _parses("".join(lines[start:end])):
                return "".join(lines[start:end])
    return ""


def _functions(code: str) -> list[ast.FunctionDef]:
    tree = _compiled(code, ast.PyCF_ONLY_AST)
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []


def _parses(code: str) -> bool:
    """Return whether it is a valid program; compiled, because a ``return`` outside a function
    parses."""
    return _compiled(code, 0) is not None


def _compiled(code: str, flags: int) -> Any:
    """Return the result of ``compile``; None where ``code`` is not valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(code, "<answer>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
