"""The documents of the tasks beside this file: the items of the bundled pair's suites. lm-eval
imports this by its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evaluation.item import Item
from evaluation.scoring.metrics import scores
from evaluation.suites.read import ARITHMETIC, STORIES, read_suite

if TYPE_CHECKING:
    from datasets import DatasetDict


def arithmetic(**_metadata: Any) -> DatasetDict:
    """Return the documents; lm-eval passes the model's arguments, which are ignored."""
    return _documents(ARITHMETIC)


def stories(**_metadata: Any) -> DatasetDict:
    return _documents(STORIES)


def score_story(document: Mapping[str, Any], answers: Sequence[str]) -> dict[str, float]:
    """Return 1 if every requested word occurs, else 0: the metric ``contains,all`` of our own
    reports."""
    item = Item("", (document["prompt"],), tuple(document["references"]))
    scored = scores(read_suite(STORIES, 1), item, answers, execute_code=False)
    return {name.partition(",")[0]: score for name, score in scored.items()}


def _documents(suite: str) -> DatasetDict:
    from datasets import Dataset, DatasetDict

    rows = [
        {"prompt": item.turns[0], "references": list(item.references)}
        for item in read_suite(suite).items
    ]
    return DatasetDict(test=Dataset.from_list(rows))
