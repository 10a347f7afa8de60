"""The Quality tab: studies with their progress, and the report of one: does a rule keep the answers right? Wires components to handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from evaluation.commands import spec_of_models
from evaluation.format import count, plural
from evaluation.report.example import EXAMPLE
from evaluation.report.texts import texts_of
from evaluation.study.plan import Plan, read_plan
from evaluation.study.sweep import runs_planned
from evaluation.study.worker import Writing
from storage import RunStore, Shared, StorageError
from ui.jobs.admission import job_errors, unbroken
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.components import message_strip
from ui.kit.errors import error_message
from ui.kit.events import PRIVATE, event_data
from ui.result.pair import pair_views
from ui.sharing import READ_ONLY, reading, share_html, wire_share
from ui.tabs.study.quality_form import StudyForm, admitted_study, build_study_fields, estimated, read_fields
from ui.tabs.study.quality_panels import texts_html
from ui.tabs.study.quality_view import SCOPE, QualityView, Updates, build_view
from ui.tabs.study.reports import Reports
from ui.tabs.study.running import Progress, check_size, study_runs, visitor_of_tab, wire_runs
from ui.tabs.study.studies import progress_strip, running, studies_html
from ui.token_view.view import LaneView

MEASURING = "Measuring …"
ABOUT_EXAMPLE = (
    "An example: 300 problems with 3 seeds by the bundled pair, run on two cores. Start a study above to measure your own settings; "
    "the prompts and texts of this one are in the full report, docs/results.md."
)
FAILURES = (ValueError, StorageError)


def build_quality_tab(services: Services, tab: gr.Tab) -> QualityView:
    """The tab's components and events; its list is read whenever the tab is chosen. Reports are measured in the threads of events."""
    fields = build_study_fields(services)
    view = build_view()
    reports_of_all = Reports(services.store)
    public = services.public

    def readable(request: gr.Request, study: str, token: object) -> tuple[Reports, str]:
        """What the visitor may read of a study, and the token of the link it is read through, if it is. Raises StorageError."""
        store, share = reading(services, request, token, lambda own: own.study(study))
        return reports_of_all.of(store), share

    def enter(study: str, share: str, request: gr.Request, value: str | None = None) -> Updates:
        listed = {view.studies: studies_html(services.seen_by(request).store, study, public=public, share=share)}
        return listed | ({fields.note: estimated(services, read_fields(value))} if value else {})

    def failed(error: Exception) -> Updates:
        return {view.strip: message_strip(error_message(error, public=public), "failed").html()}

    def begin() -> str:
        return message_strip(MEASURING, "running").html()

    def choose(event: gr.EventData, request: gr.Request) -> Updates:
        wanted = event_data(event)
        study = str(wanted.get("id", ""))
        try:
            reports, share = readable(request, study, wanted.get("share"))
            changed = opened(reports, view, study, share, public=public)
        except FAILURES as error:
            return failed(error) | enter("", "", request)
        return changed | end(request, study, share)

    def end(request: gr.Request, study: str, share: str) -> Updates:
        """List, link and button of the study that is open."""
        own = services.seen_by(request).store
        sharing = {view.sharing: share_html(own, Shared.STUDY, study, public=public)}
        return enter(study, share, request) | sharing | {view.resume: gr.update(visible=resumable(own, study, share))}

    def narrow(request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        try:
            return filtered(readable(request, study, share)[0], view, study, filters)
        except FAILURES as error:
            return failed(error)

    def look(request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        try:
            changed = looked(readable(request, study, share)[0], view, study, filters, public=public)
        except FAILURES as error:
            return failed(error) | {view.timer: gr.update(active=False)}
        return changed | enter(study, share, request)

    def read(study: str, share: str, event: gr.EventData, request: gr.Request) -> Updates:
        with suppress(*FAILURES):
            run = str(event_data(event).get("run", ""))
            return view.read(*chosen_prompt(readable(request, study, share)[0], study, run))
        return view.read()

    def runs(request: gr.Request, start: Callable[[Services, str], Iterator[Progress]]) -> Iterator[Updates]:
        place = services.seen_by(request)
        events = start(place, visitor_of_tab(place, SCOPE))
        changes = followed(reports_of_all.of(place.store), view, events, public=public)
        yield from unbroken(changes, lambda strip: {view.strip: strip.html()}, "study")

    def start(value: str | None, request: gr.Request) -> Iterator[Updates]:
        yield from runs(request, lambda place, visitor: started(place, visitor, read_fields(value)))

    def resume(request: gr.Request, study: str) -> Iterator[Updates]:
        yield from runs(request, lambda place, visitor: resumed(place, visitor, study))

    chosen = [view.opened, view.share]
    tab.select(enter, [*chosen, fields.panel.component], [view.studies, fields.note], **PRIVATE)
    view.studies.select(begin, None, view.strip, **PRIVATE)
    view.studies.select(choose, None, view.outputs, **PRIVATE)
    shown = [*chosen, *view.filters]
    gr.on([each.input for each in view.filters], narrow, shown, view.outputs, **PRIVATE)
    view.timer.tick(look, shown, view.outputs, **PRIVATE)
    view.prompts.select(read, chosen, [view.texts, *view.pair.outputs], **PRIVATE)
    wire_share(services, view.sharing)
    starts: list[tuple[gr.Button, Callable[..., Iterator[Updates]], list[Any]]]
    starts = [(fields.run, start, [fields.panel.component]), (view.resume, resume, [view.opened])]
    ends = (end, chosen, [view.studies, view.sharing])
    wire_runs(services, SCOPE, starts, view.stop, view.strip, view.outputs, ends, locked=view.filters)
    return view


def started(place: Services, visitor: str, form: StudyForm) -> Iterator[Progress]:
    """Runs a new study. Raises JobError."""
    with job_errors(place):
        spec, plan = admitted_study(place, form)
    yield from study_runs(place, visitor, spec, plan, run_label)


def resumed(place: Services, visitor: str, study_id: str) -> Iterator[Progress]:
    """Goes on with a stored study of the visitor. Raises JobError."""
    with job_errors(place):
        if not resumable(place.store, study_id):
            raise ValueError("This study cannot be resumed here: it is done, running, not yours, or executes code.")
        plan = read_plan(place.store.study(study_id).plan)
        left = max(1, runs_planned(plan) - place.store.study_progress(study_id).results)
        check_size(place, plan, left)
        spec = spec_of_models(plan.models, place.catalog)
    yield from study_runs(place, visitor, spec, plan, run_label, study=study_id, runs=left)


def resumable(store: RunStore, study_id: str, share: str = "") -> bool:
    """Whether whoever reads ``store`` can go on with a study from the page: one without a worker, without code to execute, of models
    here."""
    with suppress(*FAILURES):
        progress, study = store.study_progress(study_id), store.study(study_id)
        busy = any(worker.claimed for worker in progress.workers)
        elsewhere = study.plan.get("execute_code") or study.plan.get("served")
        return not (share or busy or study.done == study.tasks or elsewhere)
    return False


def run_label(plan: Plan, event: Writing) -> str:
    """The lane of a run in words."""
    lane = plan.lanes[event.lane]
    return ", ".join(filter(None, (lane.name, lane.drafts, f"T = {plan.task(event.task).temperature:g}")))


def followed(
    reports: Reports, view: QualityView, events: Iterator[Progress], *, public: bool = False
) -> Iterator[Updates]:
    """A study that runs from here, as updates: the line always, the report where enough is new. Raises as ``opened``."""
    study = ""
    for event in events:
        changed: Updates = {view.strip: event.strip.html()}
        if event.worker and event.status:
            changed = opened(reports, view, study, public=public)
            if event.why:
                changed[view.strip] = message_strip(f"{event.why}. {ended_words(reports, study)}", "cancelled").html()
        elif event.worker and not study:
            study = event.worker.study_id
            still = {view.strip: event.strip.html(), view.timer: gr.update(active=False)}
            changed = opened(reports, view, study, public=public) | still
            changed[view.studies] = studies_html(reports.store, study, public=public)
        elif event.saved and (newer := reports.newer(study, reports.store.study(study).done)):
            changed |= view.show(newer)
        yield changed


def ended_words(reports: Reports, study_id: str) -> str:
    progress = reports.store.study_progress(study_id)
    return f"{count(progress.done)} of {plural(progress.tasks, 'task')} done; Resume goes on."


def opened(reports: Reports, view: QualityView, study_id: str, share: str = "", *, public: bool = False) -> Updates:
    """A study that was chosen in the list or by the address. ``share``: token of the link it is read through.

    Raises StorageError, and ValueError for what is not an id or a study of another version.
    """
    if not ID.fullmatch(study_id):
        raise ValueError("study must be an id of 32 hexadecimal digits.")
    if study_id == EXAMPLE:
        shown = view.open(reports.fresh(study_id), study_id, "")
        return shown | {view.strip: message_strip(ABOUT_EXAMPLE).html(), view.timer: gr.update(active=False)}
    progress = reports.store.study_progress(study_id)
    report = reports.fresh(study_id)
    strip = progress_strip(report.plan.name, study_id, progress, len(report.plan.lanes), public=public or bool(share))
    strip = replace(strip, side=READ_ONLY) if share else strip
    return view.open(report, study_id, share) | {
        view.strip: strip.html(),
        view.timer: gr.update(active=running(progress)),
    }


def filtered(reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...]) -> Updates:
    """The part that the filters ask for, of the report that is known. Raises as ``opened``."""
    if not study_id:
        return {view.opened: study_id}
    return view.show(reports.known(study_id), *filters) | view.read()


def looked(
    reports: Reports, view: QualityView, study_id: str, filters: tuple[Any, ...], *, public: bool = False
) -> Updates:
    """What a study that runs has come to since; the report where enough is new. Raises as ``opened``."""
    if not study_id:
        return {view.timer: gr.update(active=False)}
    progress = reports.store.study_progress(study_id)
    newer = reports.newer(study_id, progress.done)
    plan = (newer or reports.known(study_id)).plan
    changed = {
        view.strip: progress_strip(plan.name, study_id, progress, len(plan.lanes), public=public).html(),
        view.timer: gr.update(active=running(progress)),
    }
    return changed | (view.show(newer, *filters) if newer else {})


def chosen_prompt(reports: Reports, study_id: str, run: str) -> tuple[str, Sequence[LaneView]]:
    """A prompt, by the id of the rule's worst run, and the views of strict's run and of that one while they are stored; nothing where
    there is no such prompt. Raises as ``opened``."""
    report = reports.known(study_id)
    row = next((row for row in report.prompts if row.worst[1] == run), None)
    if row is None:
        return "", ()
    texts = texts_of(reports.store, [row]).get(row.worst)
    traces = reports.store.traces(texts.runs) if texts else {}
    views = pair_views([traces[each] for each in texts.runs], run) if texts else ()
    return texts_html(report, row, texts), views
