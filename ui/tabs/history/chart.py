"""Any two numbers of the runs that the list has, drawn against each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from display.format import shorten
from display.plot import Plot
from mars_core.types import numbers
from storage import RunRecord, RunStore
from ui.figures.scatter import RunPoint, scatter_plot
from ui.kit.address import Address, to_search
from ui.kit.labels import lane_label, model_title
from ui.kit.panel import render
from ui.tabs.history.runs import MEASURES

MOST_DRAWN = 500  # comparisons, the first of the list


NUMBERS: Mapping[str, tuple[str, Callable[[RunRecord], float]]] = {
    "theta": ("θ", lambda run: numbers(run.config.rule.parameters).get("theta", math.nan)),
    "k": ("K", lambda run: math.nan if run.config.drafter.tree else run.config.drafter.k),
    "temperature": ("Temperature", lambda run: run.config.sampling.temperature),
    **{
        each.field: (each.name, lambda run, read=each.read: read(run.summary))  # type: ignore[misc]
        for each in MEASURES
    },
}
GROUPS: Mapping[str, tuple[str, Callable[[RunRecord], str]]] = {
    "rule": ("Rule", lambda run: lane_label(run.config)),
    "target": ("Model", lambda run: model_title(run.config.target.name)),
}


def chart_form() -> str:
    numbers = [(name, title) for name, (title, _) in NUMBERS.items()]
    choosers = (
        ("x", "Draw", numbers, "tau"),
        ("y", "against", numbers, "tokens_per_s"),
        ("by", "Colour by", [(name, title) for name, (title, _) in GROUPS.items()], "rule"),
    )
    return render("tabs/history/chart.html.jinja", choosers=choosers)


def run_chart(store: RunStore, view: Address, fields: Mapping[str, Any]) -> Plot | None:
    """``fields``: of the form, untrusted. Raises StorageError."""
    (x, x_of), (y, y_of) = (
        NUMBERS.get(str(fields.get(name)), NUMBERS["tau"]) for name in ("x", "y")
    )
    _, group = GROUPS.get(str(fields.get("by")), GROUPS["rule"])
    matches = store.find(to_search(view, limit=MOST_DRAWN, offset=0)).frame
    ids = [run for runs in matches["run_ids"] for run in runs]
    runs = store.records(ids, existing=True)
    points = [RunPoint(x_of(run), y_of(run), group(run), _name(run)) for run in runs]
    return scatter_plot(points, x, y)


def _name(run: RunRecord) -> str:
    return f"{lane_label(run.config)}: {run.name or shorten(run.config.prompt.text, 80)}"
