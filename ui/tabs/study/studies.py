"""Studies in a list, and how far a study has come, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

import gradio as gr

from evaluation.format import about, count, displayable, number, plural
from evaluation.report.example import EXAMPLE
from storage import StorageError, StudyHead, StudyProgress
from ui.jobs.services import Services
from ui.kit.components import Strip, message_strip
from ui.kit.panel import panel_component, render

LOOKED_AT = 5  # unfinished studies of which is looked up whether they run
COMMAND = "mars eval run --suite demo_arithmetic --limit 60 --rules none,strict,mars --theta 0.84,0.9,0.96 --seeds 3"
BADGES = {"done": "done", "running": "running", "stopped": "unfinished"}


class StudyRow(NamedTuple):
    """One entry. ``created``: ISO time; ``state``: done, running or stopped; ``share``: of its
    tasks, 0 to 1."""

    id: str
    created: str
    name: str
    done: str
    state: str
    badge: str
    share: float


EXAMPLE_ROW = StudyRow(
    EXAMPLE,
    "2026-11-21T08:25:00+00:00",
    "Example: the bundled pair on 300 problems",
    "1,800 of 1,800 tasks",
    "done",
    "example",
    1.0,
)


def list_component(name: str) -> gr.HTML:
    """``name``: as the address of the page has it. Its event ``select`` carries an id, and the
    token of a link."""
    return study_panel("", f"{name}-list", address=name)


def study_panel(html: str, element: str, *, address: str = "") -> gr.HTML:
    """A panel with study.js. ``address``: the word of the page's address for what is open here; a
    trusted string."""
    return panel_component(
        html, elem_id=element, scripts=("study.js",), constants={"address": address}
    )


def studies_html(services: Services, selected: str, share: str = "") -> str:
    """The latest studies, and the example, which is opened where there is no other. ``share``:
    token of the link through which the selected one is read."""
    try:
        heads, message = services.store.studies(), ""
        unfinished = [head.id for head in heads if head.done < head.tasks][:LOOKED_AT]
        running = {
            study_id for study_id in unfinished if services.store.study_progress(study_id).working
        }
        rows = [*(_row(head, running=head.id in running) for head in heads), EXAMPLE_ROW]
    except StorageError as error:
        rows, message, selected = [], services.sentence(error), ""
    return render(
        "tabs/study/studies.html.jinja",
        title="Studies",
        rows=rows,
        message=message,
        selected=selected,
        share=share,
        command="" if services.public else COMMAND,
        first=EXAMPLE if rows == [EXAMPLE_ROW] and not selected else "",
    )


def _row(head: StudyHead, *, running: bool = False) -> StudyRow:
    state = "done" if head.done == head.tasks else "running" if running else "stopped"
    done = f"{count(head.done)} of {plural(head.tasks, 'task')}"
    return StudyRow(
        head.id,
        head.created_at.isoformat(),
        head.name,
        done,
        state,
        BADGES[state],
        head.done / head.tasks,
    )


def progress_strip(
    name: str, study_id: str, progress: StudyProgress, lanes: int, *, public: bool = False
) -> Strip:
    """How far a study has come: done, at work with an estimate, or stopped, with the command that
    goes on where it can be used."""
    title = f"{displayable(name)}: " if name else ""
    if progress.done == progress.tasks:
        return message_strip(
            f"{title}all {plural(progress.tasks, 'task')} done, {plural(progress.results, 'result')}.",
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
