"""The Quality tab: studies with their progress, and the report of one: does a rule keep the answers
right, and what does it gain? The handlers of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from display.format import count, plural
from display.sources import to_json
from evaluation.plan.plan import Plan
from evaluation.report.example import EXAMPLE
from evaluation.report.texts import texts_of
from evaluation.report.values import Report
from storage import RunStore, Shared, StorageError
from ui.jobs.admission import errors_as_frames
from ui.jobs.queue import COMPUTES
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.components import Strip, downloads_html, message_strip
from ui.kit.events import LATEST, PRIVATE, QUEUED, Updates, event_data
from ui.result.view import pair_views
from ui.settings.values import EnteredValues, parse
from ui.sharing import READ_ONLY, reading, share_of, wire_share
from ui.tabs.study.estimate import estimated
from ui.tabs.study.form import read_study
from ui.tabs.study.layout import RESULT, QualityLayout
from ui.tabs.study.panels import (
    first_html,
    prompts_html,
    rest_html,
    texts_html,
    typed_html,
)
from ui.tabs.study.reports import EXAMPLE_FILES, FILES, StudyReports
from ui.tabs.study.running import StudyFrame, resumable, resumed, started
from ui.tabs.study.studies import progress_strip, studies_html
from ui.token_view.view import LaneView

MEASURING = message_strip("Measuring …", "running")
STARTING = message_strip("Starting; if something else is running, this waits for it …", "running")
BROKE = message_strip("The job could not begin; check the fields, then try again.", "failed")
ABOUT_EXAMPLE = message_strip(
    "An example: 300 questions and instructions to SmolLM2 135M, in batches on a CPU; its prompts "
    "and texts are in docs/results.md. Start a study above to measure your own settings."
)
FAILURES = (ValueError, StorageError)


class QualityTab(QualityLayout):
    """Reports are measured in the threads of events."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.reports = StudyReports(services.store)

    def wire(self, tab: gr.Tab) -> None:
        """Have the list read whenever ``tab`` is chosen."""
        form = self.panel.component
        self._wire_job(self.run, self.start, form)
        self._wire_job(self.resume, self.go_on, self.opened[0])
        self.stop.wire()
        before = [self.note, self.typed]
        entered = [self.studies, *before, form, self.form, self.wanted]
        tab.select(self.enter, [*self.opened, form, self.wanted], entered, **PRIVATE)
        form.change(lambda value: self.before(self.services, value), form, before, **LATEST)
        self.studies.select(lambda: self.say(MEASURING), None, [self.strip], **PRIVATE)
        self.studies.select(self.choose, None, self.outputs, **LATEST)
        self.timer.tick(self.look, self.opened, self.outputs, **PRIVATE)
        self.prompts.select(self.read, self.opened, [self.texts, *self.pair.outputs], **LATEST)
        self.panel.wire()
        wire_share(self.services, self.sharing)

    def follow_up(self, asked: gr.HTML, tabs: gr.Tabs) -> None:
        """Have the event ``submit`` of another tab choose this one, with the values that it sends in
        the form: once the form is there, as nothing may be sent to it before."""

        def want(event: gr.EventData) -> Updates:
            values = parse(to_json({"values": dict(event_data(event))}))
            return {self.wanted: values, tabs: gr.update(selected="quality")}

        asked.submit(want, None, [self.wanted, tabs], **PRIVATE)

    def _wire_job(
        self, button: gr.Button, work: Callable[..., Iterator[Updates]], inputs: Any
    ) -> None:
        buttons = [self.run, self.resume, self.stop.button]
        pressed = button.click(
            self.begin, None, [*buttons, self.strip], trigger_mode="once", **PRIVATE
        )
        running = pressed.then(work, inputs, self.outputs, **COMPUTES, **QUEUED)
        running.failure(lambda: self.say(BROKE), None, [self.strip], **PRIVATE)
        running.then(self.ended, self.opened, [*buttons, self.studies, self.sharing], **PRIVATE)

    def begin(self, request: gr.Request) -> Updates:
        changed: Updates = self.stop.begin(request) | self.say(STARTING)
        return changed | dict.fromkeys((self.run, self.resume), gr.update(visible=False))

    def ended(self, request: gr.Request, study: str, share: str) -> Updates:
        again: Updates = {self.run: gr.update(visible=True)} | self.stop.end()
        return again | self.surroundings(request, study, share)

    def enter(
        self,
        request: gr.Request,
        study: str,
        share: str,
        value: str | None,
        wanted: EnteredValues | None,
    ) -> Updates:
        services, changed = self.services.for_visitor(request), dict[Any, Any]()
        if wanted:
            value = self.panel.value(wanted)
            changed = {self.panel.component: value, self.form: gr.update(open=True)}
        note, typed = self.before(services, value)
        said = {self.studies: studies_html(services, study, share), self.note: note}
        return changed | said | {self.typed: typed, self.wanted: None}

    def before(self, services: Services, value: str | None) -> tuple[str, str]:
        """Return what is said of a study before its start."""
        form = read_study(value)
        return estimated(services, form), typed_html(form)

    def start(self, value: str | None, request: gr.Request) -> Iterator[Updates]:
        form = read_study(value)
        yield from self.follow(request, lambda services: started(services, form))

    def go_on(self, request: gr.Request, study: str) -> Iterator[Updates]:
        yield from self.follow(request, lambda services: resumed(services, study))

    def follow(
        self, request: gr.Request, job: Callable[[Services], Iterator[StudyFrame]]
    ) -> Iterator[Updates]:
        """Return the updates of a job for a visitor."""
        services = self.services.for_visitor(request)
        updates = self.progress(services, job(services))
        yield from errors_as_frames(updates, self.say, Shared.STUDY)

    def say(self, strip: Strip) -> Updates:
        return {self.strip: strip.html()}

    def failed(self, error: Exception) -> Updates:
        return self.say(message_strip(self.services.sentence(error), "failed"))

    def surroundings(self, request: gr.Request, study: str, share: str) -> Updates:
        """Return the list, the link of the study that is open, and whether it can be resumed."""
        services = self.services.for_visitor(request)
        return {
            self.studies: studies_html(services, study, share),
            self.sharing: share_of(services, Shared.STUDY, study).html(),
            self.resume: gr.update(visible=resumable(services.store, study, share)),
        }

    def readable(self, request: gr.Request, study: str, token: object) -> tuple[StudyReports, str]:
        """Return what the visitor may read of a study, and the token of the link it is read
        through, if it is. Raises StorageError."""

        def read(store: RunStore) -> StudyReports:
            if study != EXAMPLE:
                store.study(study)
            return self.reports.of(store)

        return reading(self.services.for_visitor(request).store, token, read)

    def choose(self, event: gr.EventData, request: gr.Request) -> Updates:
        wanted = event_data(event)
        study = str(wanted.get("id", ""))
        try:
            reports, share = self.readable(request, study, wanted.get("share"))
            return self.open(reports, study, share) | self.surroundings(request, study, share)
        except FAILURES as error:
            services = self.services.for_visitor(request)
            return self.failed(error) | {self.studies: studies_html(services, "")}

    def look(self, request: gr.Request, study: str, share: str) -> Updates:
        """Show what a study that runs has come to since; the report where enough is new. Where none
        is open, or it cannot be read, nothing is looked at again."""
        if not study:
            return {self.timer: gr.update(active=False)}
        try:
            news = self.news(self.readable(request, study, share)[0], study, share)
            studies = studies_html(self.services.for_visitor(request), study, share)
            return news | {self.studies: studies}
        except FAILURES as error:
            return self.failed(error) | {self.timer: gr.update(active=False)}

    def news(self, reports: StudyReports, study: str, share: str = "") -> Updates:
        """Raises as ``open``."""
        newer = reports.newer(study)
        plan = (newer or reports.known(study)).plan
        return self.state(reports, study, plan, share) | (self.report(newer) if newer else {})

    def state(self, reports: StudyReports, study: str, plan: Plan, share: str) -> Updates:
        """Say how far a study is, and look again where it may go on."""
        if study == EXAMPLE:
            return self.say(ABOUT_EXAMPLE) | {self.timer: gr.update(active=False)}
        progress, public = reports.store.study_progress(study), self.services.public or bool(share)
        strip = progress_strip(plan.name, study, progress, len(plan.lanes), public=public)
        strip = replace(strip, side=READ_ONLY) if share else strip
        return self.say(strip) | {self.timer: gr.update(active=progress.done < progress.tasks)}

    def read(self, study: str, share: str, event: gr.EventData, request: gr.Request) -> Updates:
        with suppress(*FAILURES):
            run = str(event_data(event).get("run", ""))
            return self.opened_prompt(
                *chosen_prompt(self.readable(request, study, share)[0], study, run)
            )
        return self.opened_prompt()

    def progress(self, services: Services, events: Iterator[StudyFrame]) -> Iterator[Updates]:
        """Follow a study that runs from here: the line always, the report where enough is new.
        Raises as ``open``."""
        study, reports = "", self.reports.of(services.store)
        for event in events:
            changed = self.say(event.strip)
            if event.study and event.status:
                changed = self.open(reports, study)
                if event.why:
                    progress = reports.store.study_progress(study)
                    done = f"{count(progress.done)} of {plural(progress.tasks, 'task')} done; Resume goes on."
                    changed |= self.say(message_strip(f"{event.why}. {done}", "cancelled"))
            elif event.study and not study:
                study = event.study
                changed = (
                    self.open(reports, study)
                    | changed
                    | {self.timer: gr.update(active=False)}
                    | {self.studies: studies_html(services, study)}
                )
            elif event.saved and (newer := reports.newer(study)):
                changed |= self.report(newer)
            yield changed

    def opened_prompt(self, html: str = "", runs: Sequence[LaneView] = ()) -> Updates:
        """Show a prompt with both its runs; without arguments none."""
        return {self.texts: html} | self.pair.show(runs)

    def report(self, report: Report) -> Updates:
        panels = {self.first: first_html, self.prompts: prompts_html, self.rest: rest_html}
        return {panel: html(report) for panel, html in panels.items()}

    def open(self, reports: StudyReports, study: str, share: str = "") -> Updates:
        """Open a study that was chosen in the list or by the address. ``share``: token of the link it is
        read through. Raises StorageError, and ValueError for what is not an id or a study of another
        version."""
        if not ID.fullmatch(study):
            raise ValueError("study must be an id of 32 hexadecimal digits.")
        report = reports.measured_again(study)
        query = f"?study={study}{f'&share={share}' if share else ''}"
        return {
            **self.state(reports, study, report.plan, share),
            **self.report(report),
            **self.opened_prompt(),
            self.result: gr.update(elem_classes=[RESULT, "mars-quality"]),
            self.downloads: downloads_html(
                ("This study:", EXAMPLE_FILES if study == EXAMPLE else FILES, query)
            ),
            **dict(zip(self.opened, (study, share), strict=True)),
        }


def chosen_prompt(reports: StudyReports, study_id: str, run: str) -> tuple[str, Sequence[LaneView]]:
    """Return a prompt, by the id of the rule's worst run, and the views of strict's run and of that
    one while they are stored; nothing where there is no such prompt. Raises as ``QualityTab.open``."""
    report = reports.known(study_id)
    row = next((row for row in report.prompts if row.worst[1] == run), None)
    if row is None:
        return "", ()
    texts = texts_of(reports.store, [row]).get(row.worst)
    traces = reports.store.traces(texts.runs) if texts else {}
    views = pair_views([traces[each] for each in texts.runs], run) if texts else ()
    return texts_html(report, row, texts), views
