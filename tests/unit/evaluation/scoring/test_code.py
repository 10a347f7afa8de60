"""Which answers to a programming task pass: continuations, complete functions, prose around them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from evaluation.item import Item
from evaluation.scoring import code
from evaluation.scoring.code import has_tests, passes

PROMPT = (
    "Complete the code I provided.\n\nfrom typing import List\n\n\ndef add(a: int, b: int) -> int:\n"
    '    """ Adds.\n    >>> add(1, 2)\n    3\n    >>> add(2, 2) == 4\n    >>> add("", 1)\n    Traceback (most recent call last):\n'
    '    TypeError: no\n    """\n'
)
FUNCTION = "def add(a, b):\n    return a + b\n"
TASK = Item("1", (PROMPT,))
RIGHT = (
    "    return a + b\n",
    "return a + b",  # the tokenizer lost the indent
    "    return a + b\n\nprint(add(1,2)\n",  # lm-eval's stop strings end a continuation
    "    return a + b\n\ndef next(",
    f"```python\n{FUNCTION}```",
    f"Sure!\n\n```python\nimport math\n\n{FUNCTION}\nprint(add(1, 2))\n```\nIt adds.\n```\nadd(1,2)\n```",
    f"Here is the code:\n\n{FUNCTION}\nThis function adds two numbers.",
    "```\nreturn a + b\n```",
    "```python\n    c = a\n    return c + b",  # cut off
    f"def helper(x):\n    return x\n\n{FUNCTION}",
    "c = a\n    return c + b\n\nif __name__ == '__main__':\n    broken(",
)
WRONG = (
    "",
    "    return a - b\n",
    "I do not know.",
    "def add(",
    "\x00",
    "(" * 5000,
    "x" * 200_000,
    f"```python\n{FUNCTION.replace('add', 'sub')}```",
    "    import sys; sys.exit(0)",
    "    import os; os._exit(0)",
)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    """The sandbox's processes run beside each other."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_correct_answers_pass_in_every_form(pool: ThreadPoolExecutor) -> None:
    assert list(pool.map(lambda text: passes(TASK, text), RIGHT)) == [True] * len(RIGHT)


def test_answers_that_do_not_fail(pool: ThreadPoolExecutor) -> None:
    assert list(pool.map(lambda text: passes(TASK, text), WRONG)) == [False] * len(WRONG)


def test_tests_of_a_row_come_before_the_examples_of_the_prompt() -> None:
    # as in HumanEval's file
    check = "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate(1, 1) == 3\n\n\ncheck(add)\n"
    stricter = Item("1", (PROMPT,), (), tests=check)
    assert passes(stricter, "    return a + b + 1\n") is True
    assert passes(stricter, "    return a + b\n") is False
    bare = Item("2", ("Write a function double(x).",), (), tests="assert double(2) == 4")
    assert passes(bare, "Here:\n```python\ndouble = lambda x: 2 * x\n```") is True
    assert passes(bare, "Of course:\n\ndef double(x):\n    return x + x\n\nThat is all.") is True
    assert passes(bare, "def double(x):\n    return x\n") is False


def test_without_tests_and_examples_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "runs", lambda _: pytest.fail("was run"))
    for prompt in (
        "Write a function.",
        'def f():\n    """Does it."""\n',
        "def f(:\n    >>> f()\n    1\n",
        'def f():\n    """\n    >>>f()\n    """',
    ):
        item = Item("1", (prompt,))
        assert not has_tests(item) and passes(item, "    return 1") is None


def test_examples_that_the_reference_solution_fails_test_nothing() -> None:
    wrong = PROMPT.replace("3\n", "4\n")
    assert passes(Item("1", (wrong,), ("    return a + b\n",)), "    return a + b\n") is None
    assert passes(Item("1", (wrong,)), "    return a + b\n") is False
