"""The documents of the tasks beside this file: the items of the bundled pair's suites. lm-eval
imports this by its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evaluation.item import Item, Suite
from evaluation.scoring.metrics import scores
from evaluation.scoring.names import CONTAINS_ALL
from evaluation.suites.read import ARITHMETIC, STORIES, read_suite

if TYPE_CHECKING:
    from datasets import DatasetDict


def arithmetic(**_metadata: Any) -> DatasetDict:
    """``question`` and ``answer``, a number. lm-eval passes the model's arguments, which are
    ignored."""
    return _documents(
        [
            {"question": item.turns[0], "answer": item.references[0]}
            for item in read_suite(ARITHMETIC).items
        ]
    )


def stories(**_metadata: Any) -> DatasetDict:
    """``request``, and ``words``: the names that the story must contain."""
    return _documents(
        [
            {"request": item.turns[0], "words": list(item.references)}
            for item in read_suite(STORIES).items
        ]
    )


def score_story(document: Mapping[str, Any], answers: Sequence[str]) -> dict[str, float]:
    """1 if every requested word occurs, else 0: the metric ``contains,all`` of our own reports."""
    item = Item("", (document["request"],), tuple(document["words"]))
    suite = Suite(STORIES, (item,), metrics=(CONTAINS_ALL,))
    return {
        CONTAINS_ALL.partition(",")[0]: scores(suite, item, answers, execute_code=False)[
            CONTAINS_ALL
        ]
    }


def _documents(rows: list[dict[str, Any]]) -> DatasetDict:
    from datasets import Dataset, DatasetDict

    return DatasetDict(test=Dataset.from_list(rows))
