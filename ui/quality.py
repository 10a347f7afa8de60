"""The Quality tab: studies with their progress, and the report of one: does a rule keep the answers right? Wires components to handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from evaluation.report.form.choose import EVERYTHING
from evaluation.report.form.texts import texts_of
from storage import StorageError
from ui.address import ID
from ui.components import words
from ui.quality_reports import Reports
from ui.quality_studies import list_json, progress_strip, running
from ui.quality_values import find_prompt, texts_json
from ui.quality_view import QualityView, Updates, build_view, read_choice
from ui.workplace import Workplace

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}
MEASURING = "Measuring …"


def build_quality_tab(workplace: Workplace, tab: gr.Tab) -> QualityView:
    """The tab's components and events; its list is read whenever the tab is chosen. Reports are measured in the threads of events."""
    view = build_view()
    reports = Reports(workplace.store)
    store = workplace.store

    def enter(opened: str) -> str:
        return list_json(store, opened)

    def begin() -> str:
        return words(MEASURING, "running").json()

    def choose(event: gr.EventData) -> Updates:
        return opened(reports, view, str(event._data.get("id", "")))

    def narrow(study: str, *filters: Any) -> Updates:
        return filtered(reports, view, study, filters)

    def look(study: str, *filters: Any) -> Updates:
        return looked(reports, view, study, filters)

    def read(study: str, event: gr.EventData) -> str:
        return chosen_texts(reports, study, str(event._data.get("run", "")))

    tab.select(enter, view.opened, view.studies, **PRIVATE)
    view.studies.select(begin, None, view.strip, **PRIVATE)
    view.studies.select(choose, None, view.outputs, **PRIVATE)
    asked = [view.opened, *view.filters]
    gr.on([each.input for each in view.filters], narrow, asked, view.outputs, **PRIVATE)
    view.timer.tick(look, asked, view.outputs, **PRIVATE)
    view.prompts.select(read, view.opened, view.texts, **PRIVATE)
    return view


def opened(reports: Reports, view: QualityView, study_id: str) -> Updates:
    """A study that was chosen in the list or by the address."""
    if not ID.fullmatch(study_id):
        return view.say(words("study must be an id of 32 hexadecimal digits.", "failed"))
    try:
        progress = reports.store.study_progress(study_id)
        report = reports.fresh(study_id)
    except (ValueError, StorageError) as error:
        return view.say(words(str(error), "failed")) | {view.studies: list_json(reports.store, "")}
    strip = progress_strip(report.plan.name, study_id, progress, len(report.plan.lanes))
    return (
        view.show(report, EVERYTHING, study=study_id)
        | view.say(strip)
        | {view.studies: list_json(reports.store, study_id), view.opened: study_id}
        | {view.timer: gr.update(active=running(progress))}
    )


def filtered(reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...]) -> Updates:
    """The part that the filters ask for, of the report that is known."""
    if not study_id:
        return {view.opened: study_id}
    try:
        report = reports.known(study_id)
    except (ValueError, StorageError) as error:
        return view.say(words(str(error), "failed"))
    return view.show(report, read_choice(report, *filters)) | {view.texts: texts_json(None, None, None)}


def looked(reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...]) -> Updates:
    """What a study that runs has come to since; the report where enough is new."""
    if not study_id:
        return {view.timer: gr.update(active=False)}
    try:
        progress = reports.store.study_progress(study_id)
        newer = reports.newer(study_id, progress.done)
        report = newer or reports.known(study_id)
    except (ValueError, StorageError) as error:
        return view.say(words(str(error), "failed")) | {view.timer: gr.update(active=False)}
    changed = view.say(progress_strip(report.plan.name, study_id, progress, len(report.plan.lanes)))
    changed |= {view.studies: list_json(reports.store, study_id), view.timer: gr.update(active=running(progress))}
    return changed | (view.show(newer, read_choice(newer, *filters)) if newer else {})


def chosen_texts(reports: Reports, study_id: str, run: str) -> str:
    """The two texts of a prompt that was chosen."""
    if not study_id:
        return texts_json(None, None, None)
    try:
        report = reports.known(study_id)
    except (ValueError, StorageError):
        return texts_json(None, None, None)
    row = find_prompt(report, run)
    texts = texts_of(reports.store, [row]).get(row.worst) if row else None
    return texts_json(report, row, texts)
