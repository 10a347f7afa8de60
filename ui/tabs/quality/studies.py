"""The studies of the database in a list, and how far one has come, in words. Plain values; knows no component."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from evaluation.study.progress import rate
from storage import RunStore, StorageError
from storage.studies import StudyHead, StudyProgress
from ui.kit.assets import to_json
from ui.kit.components import Strip, words
from ui.kit.format import about, count, displayable, number, plural
from ui.kit.told import told

LOOKED_AT = 5  # unfinished studies of which the workers are asked for
NO_STUDY = "No study has been planned yet. The command above plans one and runs it; its report appears here."
NOT_HERE = "Studies are planned and run on one’s own machine, from the command line; here none of yours is kept."
COMMAND = "python -m evaluation run --suite demo_arithmetic --limit 60 --rules none,strict,mars --theta 0.84,0.9,0.96 --seeds 3"


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One study in the list. ``state``: done, running or stopped; ``share``: of its tasks, 0 to 1."""

    id: str
    created: str
    name: str
    tasks: str
    state: str
    words: str
    share: float


def list_json(store: RunStore, selected: str, *, public: bool = False, share: str = "") -> str:
    """The latest studies, as the list's value. ``share``: token of the link through which the selected one is read.

    Strangers plan none: on a public page the list is for what was shared.
    """
    command, nothing = ("", NOT_HERE) if public else (COMMAND, NO_STUDY)
    try:
        heads = store.studies()
        asked = [head.id for head in heads if head.done < head.tasks][:LOOKED_AT]
        progress = {study_id: store.study_progress(study_id) for study_id in asked}
    except StorageError as error:
        message = displayable(told(error, public=public))
        return to_json({"rows": [], "message": message, "selected": "", "command": command, "share": ""})
    rows = [asdict(_row(head, progress.get(head.id))) for head in heads]
    message = "" if rows else nothing
    return to_json({"rows": rows, "message": message, "selected": selected, "command": command, "share": share})


def _row(head: StudyHead, progress: StudyProgress | None) -> StudyRow:
    active = [worker for worker in progress.workers if worker.claimed] if progress else []
    state = "done" if head.done == head.tasks else "running" if active else "stopped"
    told = plural(len(active), "worker") if active else "" if state == "done" else "unfinished"
    return StudyRow(
        head.id, head.created_at.isoformat(), displayable(head.name), f"{count(head.done)} of {count(head.tasks)} tasks", state,
        told or state, head.done / head.tasks,
    )  # fmt: skip


def progress_strip(name: str, study_id: str, progress: StudyProgress, lanes: int) -> Strip:
    """How far a study has come: done, at work with an estimate, or stopped with the command that goes on."""
    title = f"{displayable(name)}: " if name else ""
    if progress.done == progress.tasks:
        return words(f"{title}all {plural(progress.tasks, 'task')} done, {plural(progress.results, 'result')}.", "done")
    part = progress.done / progress.tasks
    done = f"{title}{count(progress.done)} of {plural(progress.tasks, 'task')} done"
    active = [worker for worker in progress.workers if worker.claimed]
    if not active:
        return words(
            f"{done}; nobody works on it. Go on with: python -m evaluation resume {study_id}",
            "cancelled",
            progress=part,
        )
    rates = [rate(worker) for worker in active]
    pace = sum(each for each in rates if not math.isnan(each))
    each = ", ".join(number(one) for one in rates if not math.isnan(one))
    told = f"{done}, {plural(len(active), 'worker')}{f', {each} results/s' if each else ''}. The report below holds what has ended."
    left = f"{about((progress.tasks * lanes - progress.results) / pace)} to go" if pace > 0 else ""
    return words(told, "running", side=left, progress=part)


def running(progress: StudyProgress) -> bool:
    """Whether it is worth looking again soon."""
    return progress.done < progress.tasks
