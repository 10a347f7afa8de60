"""The Quality tab: studies with their progress, and the report of one: does a rule keep the answers
right? Wires components to handlers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gradio as gr

from evaluation.commands import spec_of_models
from evaluation.format import count, plural
from evaluation.report.example import EXAMPLE
from evaluation.report.texts import texts_of
from evaluation.report.values import Report
from evaluation.study.check import check_sampler
from evaluation.study.plan import Plan, read_plan
from evaluation.study.sweep import runs_planned
from evaluation.study.worker import Writing
from storage import RunStore, Shared
from ui.jobs.admission import job_errors
from ui.jobs.services import Services
from ui.kit.address import ID
from ui.kit.components import (
    downloads_component,
    downloads_html,
    message_strip,
    strip_component,
    text_panel,
)
from ui.kit.events import PRIVATE, event_data
from ui.kit.panel import panel_component
from ui.result.pair import RunPair, pair_views
from ui.settings.panel import SettingsPanel
from ui.sharing import READ_ONLY, reading, share_component
from ui.tabs.study.downloads import EXAMPLE_FILES, FILES
from ui.tabs.study.filters import EVERY, filter_choices, narrowed
from ui.tabs.study.lists import admitted, check_size
from ui.tabs.study.quality_form import StudyForm, describe, read_study, thresholds
from ui.tabs.study.quality_panels import (
    charts_html,
    first_html,
    prompts_html,
    rest_html,
    texts_html,
)
from ui.tabs.study.reports import Reports
from ui.tabs.study.running import Progress, study_runs
from ui.tabs.study.studies import list_component, progress_strip, studies_html, study_panel
from ui.tabs.study.tab import FAILURES, RESULT, Starts, StoredTab, Updates
from ui.token_view.view import LaneView

SCOPE = "quality"
HINT = "Choose a study: its report says whether a rule keeps the answers right, and what it gains."
MEASURING = message_strip("Measuring …", "running")
ABOUT_EXAMPLE = message_strip(
    "An example: 300 problems with 3 seeds by the bundled pair, run on two cores. Start a study above to measure your own settings; "
    "the prompts and texts of this one are in the full report, docs/results.md."
)


class QualityTab(StoredTab):
    """Reports are measured in the threads of events."""

    def __init__(self, services: Services) -> None:
        super().__init__(services, SCOPE, Shared.STUDY, studies_html, read_study)
        self.reports = Reports(services.store)
        with gr.Accordion(
            "Start a study", open=False, elem_id="study-start", elem_classes=["mars-panel"]
        ):
            self.panel = SettingsPanel(services, "study", describe, thresholds=thresholds)
            with gr.Row(elem_classes=["mars-ask-line"]):
                self.note = text_panel("mars-page mars-sweep-estimate")
                self.run = gr.Button(
                    "Start the study",
                    variant="primary",
                    elem_id="study-run",
                    min_width=150,
                    scale=0,
                )
        self.listed = list_component("study")
        with gr.Row(elem_classes=["mars-quality-line"]):
            self.strip = strip_component(message_strip(HINT), scope=SCOPE)
            self.resume = gr.Button(
                "Resume", visible=False, elem_id="quality-resume", scale=0, min_width=120
            )
            self.stop = gr.Button(
                "Stop",
                variant="stop",
                visible=False,
                elem_id="quality-stop",
                scale=0,
                min_width=120,
            )
        # not visible=False: Gradio loses the properties of a component that is updated before it
        # was ever mounted
        with gr.Column(elem_classes=[RESULT, "mars-quality", "mars-away"]) as self.result:
            with gr.Column(elem_classes=["mars-panel"]):
                with gr.Row(elem_classes=["mars-bar", "mars-quality-filters"]):
                    self.filters = [
                        gr.Dropdown(
                            [(every, EVERY)], value=EVERY, label=label, elem_id=f"quality-{name}"
                        )
                        for label, name, every in (
                            ("Suite", "suite", "all suites"),
                            ("Temperature", "temperature", "all"),
                            ("Drafter", "drafts", "all"),
                        )
                    ]
                self.downloads = downloads_component("quality-downloads")
                self.sharing = share_component(SCOPE)
            self.first = panel_component(elem_id="quality-first")
            self.charts = panel_component(elem_id="quality-charts", scripts=("chart.js",))
            self.prompts = study_panel("", "quality-prompts")
            self.texts = panel_component(elem_id="quality-texts")
            self.pair = RunPair(SCOPE)  # both runs of the prompt that is read
            self.rest = panel_component(elem_id="quality-rest")
        self.timer = gr.Timer(5.0, active=False)
        self.fields = [self.panel.component]
        line = [
            self.listed,
            self.strip,
            self.resume,
            self.stop,
            self.result,
            *self.filters,
            self.downloads,
        ]
        parts = [
            self.sharing,
            self.first,
            self.charts,
            self.prompts,
            self.texts,
            *self.pair.outputs,
            self.rest,
        ]
        self.outputs = [*line, *parts, self.timer, *self.shown]

    def wire_all(self, tab: gr.Tab) -> None:
        """The list is read whenever ``tab`` is chosen."""
        starts: Starts = [
            (self.run, self.start, self.fields),
            (self.resume, self.go_on, self.shown[:1]),
        ]
        self.wire(tab, starts, locked=self.filters)
        shown = [*self.shown, *self.filters]
        self.listed.select(lambda: self.say(MEASURING), None, [self.strip], **PRIVATE)
        self.listed.select(self.choose, None, self.outputs, **PRIVATE)
        gr.on([each.input for each in self.filters], self.narrow, shown, self.outputs, **PRIVATE)
        self.timer.tick(self.look, shown, self.outputs, **PRIVATE)
        self.prompts.select(self.read, self.shown, [self.texts, *self.pair.outputs], **PRIVATE)

    def around(self, request: gr.Request, selected: str, share: str) -> Updates:
        store = self.services.seen_by(request).store
        return super().around(request, selected, share) | {
            self.resume: gr.update(visible=resumable(store, selected, share))
        }

    def readable(self, request: gr.Request, study: str, token: object) -> tuple[Reports, str]:
        """What the visitor may read of a study, and the token of the link it is read through, if it
        is. Raises StorageError."""
        store, share = reading(self.services, request, token, lambda own: own.study(study))
        return self.reports.of(store), share

    def choose(self, event: gr.EventData, request: gr.Request) -> Updates:
        wanted = event_data(event)
        study = str(wanted.get("id", ""))
        try:
            reports, share = self.readable(request, study, wanted.get("share"))
            return self.open(reports, study, share) | self.around(request, study, share)
        except FAILURES as error:
            place = self.services.seen_by(request)
            return self.failed(error) | {self.listed: studies_html(place, "")}

    def narrow(self, request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        """The part that the filters ask for, of the report that is known."""
        if not study:
            return self.still
        try:
            return (
                self.report(self.readable(request, study, share)[0].known(study), *filters)
                | self.opened_prompt()
            )
        except FAILURES as error:
            return self.failed(error)

    def look(self, request: gr.Request, study: str, share: str, *filters: Any) -> Updates:
        """What a study that runs has come to since; the report where enough is new."""
        if not study:
            return self.still
        try:
            changed = self.news(self.readable(request, study, share)[0], study, filters)
        except FAILURES as error:
            return self.failed(error) | self.still
        return changed | {self.listed: studies_html(self.services.seen_by(request), study, share)}

    def news(self, reports: Reports, study: str, filters: Sequence[Any]) -> Updates:
        """Raises as ``open``."""
        progress = reports.store.study_progress(study)
        newer = reports.newer(study, progress.done)
        plan = (newer or reports.known(study)).plan
        strip = progress_strip(
            plan.name, study, progress, len(plan.lanes), public=self.services.public
        )
        changed = self.say(strip) | {self.timer: gr.update(active=progress.done < progress.tasks)}
        return changed | (self.report(newer, *filters) if newer else {})

    def read(self, study: str, share: str, event: gr.EventData, request: gr.Request) -> Updates:
        with suppress(*FAILURES):
            run = str(event_data(event).get("run", ""))
            return self.opened_prompt(
                *chosen_prompt(self.readable(request, study, share)[0], study, run)
            )
        return self.opened_prompt()

    def start(self, value: str | None, request: gr.Request) -> Iterator[Updates]:
        form = read_study(value)
        yield from self.follow(
            request, lambda place, visitor: self.progress(place, started(place, visitor, form))
        )

    def go_on(self, request: gr.Request, study: str) -> Iterator[Updates]:
        yield from self.follow(
            request, lambda place, visitor: self.progress(place, resumed(place, visitor, study))
        )

    def progress(self, place: Services, events: Iterator[Progress]) -> Iterator[Updates]:
        """A study that runs from here: the line always, the report where enough is new. Raises as
        ``open``."""
        study, reports = "", self.reports.of(place.store)
        for event in events:
            changed = self.say(event.strip)
            if event.worker and event.status:
                changed = self.open(reports, study)
                if event.why:
                    progress = reports.store.study_progress(study)
                    done = f"{count(progress.done)} of {plural(progress.tasks, 'task')} done; Resume goes on."
                    changed |= self.say(message_strip(f"{event.why}. {done}", "cancelled"))
            elif event.worker and not study:
                study = event.worker.study_id
                changed = (
                    self.open(reports, study)
                    | changed
                    | self.still
                    | {self.listed: studies_html(place, study)}
                )
            elif event.saved and (newer := reports.newer(study, reports.store.study(study).done)):
                changed |= self.report(newer)
            yield changed

    @property
    def still(self) -> Updates:
        """Nothing is looked at again."""
        return {self.timer: gr.update(active=False)}

    def opened_prompt(self, html: str = "", runs: Sequence[LaneView] = ()) -> Updates:
        """A prompt with both its runs; without arguments none."""
        return {self.texts: html} | self.pair.show(runs)

    def report(self, report: Report, *filters: object) -> Updates:
        part = narrowed(report, *filters)
        panels = {
            self.first: first_html,
            self.charts: charts_html,
            self.prompts: prompts_html,
            self.rest: rest_html,
        }
        return {panel: html(part) for panel, html in panels.items()}

    def open(self, reports: Reports, study: str, share: str = "") -> Updates:
        """A study that was chosen in the list or by the address, whole: filters and downloads are
        its own. ``share``: token of the link it is read through. Raises StorageError, and
        ValueError for what is not an id or a study of another version."""
        if not ID.fullmatch(study):
            raise ValueError("study must be an id of 32 hexadecimal digits.")
        report, strip, active = reports.fresh(study), ABOUT_EXAMPLE, False
        if study != EXAMPLE:
            progress, plan = reports.store.study_progress(study), report.plan
            public = self.services.public or bool(share)
            strip = progress_strip(plan.name, study, progress, len(plan.lanes), public=public)
            strip = replace(strip, side=READ_ONLY) if share else strip
            active = progress.done < progress.tasks
        query = f"?study={study}{f'&share={share}' if share else ''}"
        return {
            **self.say(strip),
            **self.report(report),
            **self.opened_prompt(),
            self.result: gr.update(elem_classes=[RESULT, "mars-quality"]),
            self.downloads: downloads_html(
                ("This study:", EXAMPLE_FILES if study == EXAMPLE else FILES, query)
            ),
            self.timer: gr.update(active=active),
            # of what there is only one of, everything is shown: no filter
            **{
                part: gr.update(choices=choices, value=EVERY, visible=len(choices) > 2)
                for part, choices in zip(self.filters, filter_choices(report), strict=True)
            },
            **dict(zip(self.shown, (study, share), strict=True)),
        }


def started(place: Services, visitor: str, form: StudyForm) -> Iterator[Progress]:
    """Runs a new study. Raises JobError."""
    with job_errors(place):
        spec, plan = admitted(place, form)
    yield from study_runs(place, visitor, spec, plan, run_label)


def resumed(place: Services, visitor: str, study_id: str) -> Iterator[Progress]:
    """Goes on with a stored study of the visitor. Raises JobError."""
    with job_errors(place):
        if not resumable(place.store, study_id):
            raise ValueError(
                "This study cannot be resumed here: it is done, running, not yours, or executes code."
            )
        plan = read_plan(place.store.study(study_id).plan)
        check_sampler(plan, place.store, study_id)
        left = max(1, runs_planned(plan) - place.store.study_progress(study_id).results)
        check_size(place, plan, left)
        spec = spec_of_models(plan.models, place.catalog)
    yield from study_runs(place, visitor, spec, plan, run_label, study=study_id, runs=left)


def resumable(store: RunStore, study_id: str, share: str = "") -> bool:
    """Whether whoever reads ``store`` can go on with a study from the page: one without a worker,
    without code to execute, of models here."""
    with suppress(*FAILURES):
        progress, study = store.study_progress(study_id), store.study(study_id)
        busy = any(worker.claimed for worker in progress.workers)
        elsewhere = study.plan.get("execute_code") or study.plan.get("served")
        return not (share or busy or study.done == study.tasks or elsewhere)
    return False


def run_label(plan: Plan, event: Writing) -> str:
    lane = plan.lanes[event.lane]
    return ", ".join(
        filter(None, (lane.name, lane.drafts, f"T = {plan.task(event.task).temperature:g}"))
    )


def chosen_prompt(reports: Reports, study_id: str, run: str) -> tuple[str, Sequence[LaneView]]:
    """A prompt, by the id of the rule's worst run, and the views of strict's run and of that one
    while they are stored; nothing where there is no such prompt. Raises as ``QualityTab.open``."""
    report = reports.known(study_id)
    row = next((row for row in report.prompts if row.worst[1] == run), None)
    if row is None:
        return "", ()
    texts = texts_of(reports.store, [row]).get(row.worst)
    traces = reports.store.traces(texts.runs) if texts else {}
    views = pair_views([traces[each] for each in texts.runs], run) if texts else ()
    return texts_html(report, row, texts), views
