"""The Quality tab: studies with their progress, and the report of one: does a rule keep the answers right? Wires components to handlers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from evaluation.report.texts import texts_of
from storage import Shared, StorageError
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.components import message_strip
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE, event_data
from ui.sharing import READ_ONLY, reading, share_html, wire_share
from ui.tabs.study.quality_panels import texts_html
from ui.tabs.study.quality_view import QualityView, Updates, build_view
from ui.tabs.study.reports import Reports
from ui.tabs.study.studies import progress_strip, running, studies_html

MEASURING = "Measuring …"
FAILURES = (ValueError, StorageError)


def build_quality_tab(services: Services, tab: gr.Tab) -> QualityView:
    """The tab's components and events; its list is read whenever the tab is chosen. Reports are measured in the threads of events."""
    view = build_view()
    reports_of_all = Reports(services.store)
    public = services.public

    def readable(request: gr.Request, study: str, token: object) -> tuple[Reports, str]:
        """What the visitor may read of a study, and the token of the link it is read through, if it is. Raises StorageError."""
        store, share = reading(services, request, token, lambda own: own.study(study))
        return reports_of_all.of(store), share

    def enter(study: str, share: str, request: gr.Request) -> Updates:
        return {view.studies: studies_html(services.seen_by(request).store, study, public=public, share=share)}

    def failed(error: Exception) -> Updates:
        return {view.strip: message_strip(error_message(error, public=public), "failed").html()}

    def begin() -> str:
        return message_strip(MEASURING, "running").html()

    def choose(event: gr.EventData, request: gr.Request) -> Updates:
        wanted = event_data(event)
        study = str(wanted.get("id", ""))
        try:
            reports, share = readable(request, study, wanted.get("share"))
            changed = opened(reports, view, study, share)
        except FAILURES as error:
            return failed(error) | enter("", "", request)
        own = services.seen_by(request).store
        sharing = {view.sharing: share_html(own, Shared.STUDY, study, public=public)}
        return changed | enter(study, share, request) | sharing

    def narrow(request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        try:
            return filtered(readable(request, study, share)[0], view, study, filters)
        except FAILURES as error:
            return failed(error)

    def look(request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        try:
            changed = looked(readable(request, study, share)[0], view, study, filters)
        except FAILURES as error:
            return failed(error) | {view.timer: gr.update(active=False)}
        return changed | enter(study, share, request)

    def read(study: str, share: str, event: gr.EventData, request: gr.Request) -> str:
        with suppress(*FAILURES):
            return chosen_texts(readable(request, study, share)[0], study, str(event_data(event).get("run", "")))
        return ""

    tab.select(enter, [view.opened, view.share], view.studies, **PRIVATE)
    view.studies.select(begin, None, view.strip, **PRIVATE)
    view.studies.select(choose, None, view.outputs, **PRIVATE)
    shown = [view.opened, view.share, *view.filters]
    gr.on([each.input for each in view.filters], narrow, shown, view.outputs, **PRIVATE)
    view.timer.tick(look, shown, view.outputs, **PRIVATE)
    view.prompts.select(read, [view.opened, view.share], view.texts, **PRIVATE)
    wire_share(services, view.sharing)
    return view


def opened(reports: Reports, view: QualityView, study_id: str, share: str = "") -> Updates:
    """A study that was chosen in the list or by the address. ``share``: token of the link it is read through.

    Raises StorageError, and ValueError for what is not an id or a study of another version.
    """
    if not ID.fullmatch(study_id):
        raise ValueError("study must be an id of 32 hexadecimal digits.")
    progress = reports.store.study_progress(study_id)
    report = reports.fresh(study_id)
    strip = progress_strip(report.plan.name, study_id, progress, len(report.plan.lanes))
    strip = replace(strip, side=READ_ONLY) if share else strip
    return view.open(report, study_id, share) | {
        view.strip: strip.html(),
        view.timer: gr.update(active=running(progress)),
    }


def filtered(reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...]) -> Updates:
    """The part that the filters ask for, of the report that is known. Raises as ``opened``."""
    if not study_id:
        return {view.opened: study_id}
    return view.show(reports.known(study_id), *filters) | {view.texts: ""}


def looked(reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...]) -> Updates:
    """What a study that runs has come to since; the report where enough is new. Raises as ``opened``."""
    if not study_id:
        return {view.timer: gr.update(active=False)}
    progress = reports.store.study_progress(study_id)
    newer = reports.newer(study_id, progress.done)
    plan = (newer or reports.known(study_id)).plan
    changed = {
        view.strip: progress_strip(plan.name, study_id, progress, len(plan.lanes)).html(),
        view.timer: gr.update(active=running(progress)),
    }
    return changed | (view.show(newer, *filters) if newer else {})


def chosen_texts(reports: Reports, study_id: str, run: str) -> str:
    """The two texts of a prompt that was chosen, by the id of the rule's worst run; empty where there is none. Raises as ``opened``."""
    report = reports.known(study_id)
    row = next((row for row in report.prompts if row.worst[1] == run), None)
    return texts_html(report, row, texts_of(reports.store, [row]).get(row.worst)) if row else ""
