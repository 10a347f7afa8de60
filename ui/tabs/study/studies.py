"""Studies in a list, and how far a study has come, in words."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import UTC, datetime

import gradio as gr

from display.format import about, count, number, plural
from evaluation.report.example import EXAMPLE
from storage import StorageError, StudyHead, StudyProgress
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.kit.panel import panel_component, render

LOOKED_AT = 5  # unfinished studies of which is looked up whether they run

EXAMPLE_HEAD = StudyHead(
    EXAMPLE,
    datetime(2026, 11, 28, 22, 50, tzinfo=UTC),
    "Example: SmolLM2 135M, MARS on 300 prompts",
    300,
    300,
)


def list_component(name: str) -> gr.HTML:
    """``name``: as the address of the page has it. Its event ``select`` carries an id, and the
    token of a link."""
    return study_panel(f"{name}-list", address=name)


def study_panel(element: str, *, address: str = "") -> gr.HTML:
    """Build a panel with study.js. ``address``: the word of the page's address for what is open
    here; a trusted string."""
    return panel_component(
        elem_id=element, scripts=("study.js",), constants={"address": address}, latest=True
    )


def studies_html(services: Services, selected: str, share: str = "") -> str:
    """Return the latest studies, and the example, which is opened where there is no other.
    ``share``: token of the link through which the selected one is read."""
    try:
        heads, message = services.store.studies(), ""
        unfinished = [head.id for head in heads if head.done < head.tasks][:LOOKED_AT]
        working = {each for each in unfinished if services.store.study_progress(each).working}
        rows = [(head, _badge(head, working)) for head in heads] + [(EXAMPLE_HEAD, "example")]
    except StorageError as error:
        rows, message, selected = [], services.sentence(error), ""
    return render(
        "tabs/study/studies.html.jinja",
        rows=rows,
        message=message,
        selected=selected,
        share=share,
        first=EXAMPLE if rows == [(EXAMPLE_HEAD, "example")] and not selected else "",
    )


def _badge(head: StudyHead, working: Collection[str]) -> str:
    if head.done == head.tasks:
        return "done"
    return "running" if head.id in working else "unfinished"


def progress_strip(
    name: str, study_id: str, progress: StudyProgress, lanes: int, *, public: bool = False
) -> Strip:
    """Say how far a study has come: done, at work with an estimate, or stopped, with the command
    that goes on where it can be used."""
    title = f"{name}: " if name else ""
    if progress.done == progress.tasks:
        return message_strip(
            f"{title}all {plural(progress.tasks, 'task')} done, "
            f"{plural(progress.results, 'result')}.",
            "done",
        )
    part = progress.done / progress.tasks
    done = f"{title}{count(progress.done)} of {plural(progress.tasks, 'task')} done"
    if not progress.working:
        resume = "" if public else f" Go on with Resume, or with: mars eval resume {study_id}"
        return message_strip(f"{done}; nobody works on it.{resume}", "cancelled", progress=part)
    known = not math.isnan(pace := progress.pace)
    each = f", {number(pace)} results/s" if known else ""
    message = f"{done}{each}. The report below holds what has ended."
    left = f"{about((progress.tasks * lanes - progress.results) / pace)} to go" if known else ""
    return message_strip(message, "running", side=left, progress=part)
