"""What is measured together: every suite, every category of a suite that has several, and all suites. Knows no results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evaluation.report.grid import Mask
from evaluation.report.values import ALL
from evaluation.study.plan import Plan


class Group(NamedTuple):
    """Items by name. ``items``: whether each item of the plan belongs to it, [I]."""

    name: str
    items: Mask
    suite: bool  # a whole suite


def groups(plan: Plan) -> tuple[Group, ...]:
    """A suite, then its categories in order of appearance; ``ALL`` last where there are several suites."""
    found: list[Group] = []
    first = 0
    for suite in plan.suites:
        last = first + len(suite.items)
        every = np.zeros(plan.items, dtype=np.bool_)
        every[first:last] = True
        found.append(Group(suite.name, every, True))
        categories = dict.fromkeys(item.category for item in suite.items)
        for category in categories if len(categories) > 1 else ():
            part = every.copy()
            part[first:last] = [item.category == category for item in suite.items]
            found.append(Group(f"{suite.name}/{category or 'other'}", part, False))
        first = last
    if len(plan.suites) > 1:
        found.append(Group(ALL, np.ones(plan.items, dtype=np.bool_), False))
    return tuple(found)
