"""The Quality tab: studies with their progress, and the report of one: does a rule keep the answers right? Wires components to handlers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from evaluation.report.document.choose import EVERYTHING
from evaluation.report.texts import texts_of
from storage import Shared, StorageError
from ui.kit.address import ID
from ui.kit.components import message_strip
from ui.kit.errors import error_message
from ui.kit.events import event_data
from ui.public.sharing import READ_ONLY, reading, share_html, wire_share
from ui.services import Services
from ui.tabs.study.quality_panels import find_prompt, texts_html
from ui.tabs.study.quality_view import QualityView, Updates, build_view, read_choice
from ui.tabs.study.reports import Reports
from ui.tabs.study.studies import progress_strip, running, studies_html

PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}
MEASURING = "Measuring …"


def build_quality_tab(services: Services, tab: gr.Tab) -> QualityView:
    """The tab's components and events; its list is read whenever the tab is chosen. Reports are measured in the threads of events."""
    view = build_view()
    reports_of_all = Reports(services.store)
    public = services.public

    def readable(request: gr.Request, study: str, token: object) -> tuple[Reports, str]:
        """What the visitor may read of a study, and the token of the link it is read through, if it is. Raises StorageError."""
        store, share = reading(services, request, token, lambda own: own.study(study))
        return reports_of_all.of(store), share

    def listed(request: gr.Request, study: str, share: str) -> Updates:
        own = services.seen_by(request).store
        return {view.studies: studies_html(own, study, public=public, share=share)}

    def enter(study: str, share: str, request: gr.Request) -> Updates:
        return listed(request, study, share)

    def begin() -> str:
        return message_strip(MEASURING, "running").html()

    def choose(event: gr.EventData, request: gr.Request) -> Updates:
        asked = event_data(event)
        study, share = str(asked.get("id", "")), ""
        try:
            reports, share = readable(request, study, asked.get("share"))
            changed = opened(reports, view, study, public=public, share=share)
        except StorageError as error:
            return view.say(message_strip(error_message(error, public=public), "failed")) | listed(request, "", "")
        own = services.seen_by(request).store
        sharing = {view.sharing: share_html(own, Shared.STUDY, study, public=public)}
        return changed | (listed(request, changed[view.opened], share) | sharing if view.opened in changed else {})

    def narrow(request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        try:
            return filtered(readable(request, study, share)[0], view, study, filters, public=public)
        except StorageError as error:
            return view.say(message_strip(error_message(error, public=public), "failed"))

    def look(request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        try:
            changed = looked(readable(request, study, share)[0], view, study, filters, public=public)
        except StorageError as error:
            return view.say(message_strip(error_message(error, public=public), "failed")) | {
                view.timer: gr.update(active=False)
            }
        return changed | (listed(request, study, share) if view.studies in changed else {})

    def read(study: str, share: str, event: gr.EventData, request: gr.Request) -> str:
        with suppress(StorageError):
            return chosen_texts(readable(request, study, share)[0], study, str(event_data(event).get("run", "")))
        return texts_html(None, None, None)

    tab.select(enter, [view.opened, view.share], view.studies, **PRIVATE)
    view.studies.select(begin, None, view.strip, **PRIVATE)
    view.studies.select(choose, None, view.outputs, **PRIVATE)
    asked = [view.opened, view.share, *view.filters]
    gr.on([each.input for each in view.filters], narrow, asked, view.outputs, **PRIVATE)
    view.timer.tick(look, asked, view.outputs, **PRIVATE)
    view.prompts.select(read, [view.opened, view.share], view.texts, **PRIVATE)
    wire_share(services, view.sharing)
    return view


def opened(reports: Reports, view: QualityView, study_id: str, *, public: bool = False, share: str = "") -> Updates:
    """A study that was chosen in the list or by the address. ``share``: token of the link it is read through."""
    if not ID.fullmatch(study_id):
        return view.say(message_strip("study must be an id of 32 hexadecimal digits.", "failed"))
    try:
        progress = reports.store.study_progress(study_id)
        report = reports.fresh(study_id)
    except (ValueError, StorageError) as error:
        return view.say(message_strip(error_message(error, public=public), "failed")) | {
            view.studies: studies_html(reports.store, "", public=public)
        }
    strip = progress_strip(report.plan.name, study_id, progress, len(report.plan.lanes))
    strip = replace(strip, side=READ_ONLY) if share else strip
    return (
        view.show(report, EVERYTHING, study=study_id, share=share)
        | view.say(strip)
        | {view.studies: studies_html(reports.store, study_id, public=public), view.opened: study_id, view.share: share}
        | {view.timer: gr.update(active=running(progress))}
    )


def filtered(
    reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...], *, public: bool = False
) -> Updates:
    """The part that the filters ask for, of the report that is known."""
    if not study_id:
        return {view.opened: study_id}
    try:
        report = reports.known(study_id)
    except (ValueError, StorageError) as error:
        return view.say(message_strip(error_message(error, public=public), "failed"))
    return view.show(report, read_choice(report, *filters)) | {view.texts: texts_html(None, None, None)}


def looked(
    reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...], *, public: bool = False
) -> Updates:
    """What a study that runs has come to since; the report where enough is new."""
    if not study_id:
        return {view.timer: gr.update(active=False)}
    try:
        progress = reports.store.study_progress(study_id)
        newer = reports.newer(study_id, progress.done)
        report = newer or reports.known(study_id)
    except (ValueError, StorageError) as error:
        return view.say(message_strip(error_message(error, public=public), "failed")) | {
            view.timer: gr.update(active=False)
        }
    changed = view.say(progress_strip(report.plan.name, study_id, progress, len(report.plan.lanes)))
    changed |= {
        view.studies: studies_html(reports.store, study_id, public=public),
        view.timer: gr.update(active=running(progress)),
    }
    return changed | (view.show(newer, read_choice(newer, *filters)) if newer else {})


def chosen_texts(reports: Reports, study_id: str, run: str) -> str:
    """The two texts of a prompt that was chosen."""
    if not study_id:
        return texts_html(None, None, None)
    try:
        report = reports.known(study_id)
    except (ValueError, StorageError):
        return texts_html(None, None, None)
    row = find_prompt(report, run)
    texts = texts_of(reports.store, [row]).get(row.worst) if row else None
    return texts_html(report, row, texts)
