"""A report as the values of the page's components: sections, prompts, two texts. ASCII JSON; knows no component.

What a text is stays one: the scripts write everything with textContent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from typing import Any

from evaluation.report.document.blocks import Opened, Section
from evaluation.report.document.build import facts, plan_section, warning_section
from evaluation.report.document.prompts import HEADS, Texts, opened, prompt_cells
from evaluation.report.document.tables import (
    likeness_section,
    overview_section,
    position_section,
    scores_section,
    speed_section,
    vote_section,
)
from evaluation.report.document.verdicts import verdict_section
from evaluation.report.values import PromptRow, Report
from ui.kit.assets import to_json
from ui.kit.format import count, displayable, plural

LISTED = 200  # prompts on the page; all are in the CSV


def first_json(report: Report | None) -> str:
    """What stands above the charts: facts, verdict, warnings, the paper's table."""
    if report is None:
        return to_json({"facts": [], "sections": []})
    sections = [verdict_section(report), warning_section(report), overview_section(report)]
    return to_json({"facts": list(map(displayable, facts(report))), "sections": _sections(sections)})


def rest_json(report: Report | None) -> str:
    """What stands below the prompts, each to be unfolded."""
    if report is None:
        return to_json({"facts": [], "sections": []})
    makers = (speed_section, scores_section, likeness_section, position_section, vote_section, plan_section)
    return to_json({"facts": [], "sections": _sections(make(report) for make in makers)})


def _sections(sections: Iterable[Section | None]) -> list[Any]:
    return [
        {
            "name": section.name,
            "title": section.title,
            "lead": displayable(section.lead),
            "blocks": [{"block": type(block).__name__.lower(), **_plain(asdict(block))} for block in section.blocks],
        }
        for section in sections
        if section is not None
    ]


def _plain(value: Any) -> Any:
    """Lists and mappings of displayable strings."""
    if isinstance(value, str):
        return displayable(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if is_dataclass(value) or not isinstance(value, list | tuple):
        return value
    return [_plain(each) for each in value]


def prompts_json(report: Report | None) -> str:
    """The prompts, worst first. Each row is chosen by ``run``, the id of the rule's worst run."""
    if report is None:
        return to_json({"heads": [], "rows": [], "note": ""})
    rows = report.prompts[:LISTED]
    total = plural(len(report.prompts), "row")
    note = f"the first {count(LISTED)} of {total}; study-prompts.csv has all" if len(report.prompts) > LISTED else total
    return to_json({
        "heads": _plain([list(head) for head in HEADS]),
        "rows": [{"run": row.worst[1], "cells": _plain(list(map(list, prompt_cells(report.plan, row))))} for row in rows],
        "note": note if rows else "No prompt was run by a rule and by strict yet.",
    })  # fmt: skip


def find_prompt(report: Report, run: str) -> PromptRow | None:
    """The row that was chosen."""
    return next((row for row in report.prompts if row.worst[1] == run), None)


def texts_json(report: Report | None, row: PromptRow | None, texts: Texts | None) -> str:
    """Both texts, parted where they differ; empty where nothing is chosen."""
    if report is None or row is None:
        return to_json(
            {
                "title": "",
                "facts": "",
                "prompt": "",
                "reference": "",
                "note": "",
                "sides": [],
                "comparison": "",
                "runs": (),
            }
        )
    shown = opened(report.plan, row, texts)
    values = {name: displayable(getattr(shown, name)) for name in ("title", "facts", "prompt", "reference", "note")}
    return to_json(
        values
        | {"sides": _sides(shown), "comparison": texts.comparison if texts else "", "runs": texts.runs if texts else ()}
    )


def _sides(shown: Opened) -> list[dict[str, str]]:
    """Cut before anything is spelt out: that changes places."""
    return [
        {
            "title": displayable(side.title),
            "same": displayable(side.text[: side.at]),
            "rest": displayable(side.text[side.at :]),
        }
        for side in shown.sides
    ]
