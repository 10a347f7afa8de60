"""What the Quality tab shows: studies, and the report of one. Components and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from evaluation.format import displayable
from evaluation.report.example import EXAMPLE
from evaluation.report.values import ALL, Measured, PromptRow, Report
from ui.kit.assets import script
from ui.kit.components import Group, downloads_component, downloads_html, message_strip, strip_component
from ui.kit.panel import panel_component
from ui.result.pair import RunPair
from ui.sharing import share_component
from ui.tabs.study.downloads import EXAMPLE_FILES, FILES
from ui.tabs.study.quality_panels import charts_html, first_html, prompts_html, rest_html
from ui.tabs.study.studies import list_component, study_panel
from ui.token_view.view import LaneView

SCOPE = "quality"
HINT = "Choose a study: its report says whether a rule keeps the answers right, and what it gains."
EVERY = ""  # the choice of everything
RESULT = ["mars-details", "mars-quality"]
Updates = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class QualityView:
    """The components that events change. ``opened`` holds the id of the study that is shown,
    ``share`` the token of the link it is read through; or the empty string."""

    studies: gr.HTML
    strip: gr.HTML
    resume: gr.Button
    stop: gr.Button
    result: gr.Column
    suite: gr.Dropdown
    temperature: gr.Dropdown
    drafts: gr.Dropdown
    downloads: gr.HTML
    sharing: gr.HTML
    first: gr.HTML
    charts: gr.HTML
    prompts: gr.HTML
    texts: gr.HTML
    pair: RunPair  # both runs of the prompt that is read
    rest: gr.HTML
    timer: gr.Timer
    opened: gr.State
    share: gr.State

    @property
    def filters(self) -> list[Any]:
        return [self.suite, self.temperature, self.drafts]

    @property
    def outputs(self) -> list[Any]:
        """All of them."""
        return [getattr(self, name) for name in self.__slots__ if name != "pair"] + self.pair.outputs

    def read(self, html: str = "", runs: Sequence[LaneView] = ()) -> Updates:
        """A prompt with both its runs; without arguments none."""
        return {self.texts: html} | self.pair.show(runs)

    def show(self, report: Report, *filters: object) -> Updates:
        """The part of a report that ``filters`` ask for."""
        part = narrowed(report, *filters)
        return {
            self.first: first_html(part),
            self.charts: charts_html(part),
            self.prompts: prompts_html(part),
            self.rest: rest_html(part),
        }

    def open(self, report: Report, study: str, share: str) -> Updates:
        """A report that was just chosen, whole: filters and downloads are its own."""
        query = f"?study={study}{f'&share={share}' if share else ''}"
        return self.show(report) | {
            self.result: gr.update(elem_classes=RESULT),
            self.suite: _filter(suite_choices(report)),
            self.temperature: _filter(temperature_choices(report)),
            self.drafts: _filter(draft_choices(report)),
            self.downloads: downloads_html(Group("This study:", EXAMPLE_FILES if study == EXAMPLE else FILES, query)),
            **self.read(),
            self.opened: study,
            self.share: share,
        }


def _filter(choices: list[tuple[str, str]]) -> Any:
    """Of what there is only one of, everything is shown: no filter."""
    return gr.update(choices=choices, value=EVERY, visible=len(choices) > 2)


def suite_choices(report: Report) -> list[tuple[str, str]]:
    names = [suite.name for suite in report.plan.suites]
    together = [("together", ALL)] if len(names) > 1 else []
    return [("all suites", EVERY), *((displayable(name), name) for name in names), *together]


def temperature_choices(report: Report) -> list[tuple[str, str]]:
    return [("all", EVERY), *((f"T = {each:g}", f"{each:g}") for each in report.plan.temperatures)]


def draft_choices(report: Report) -> list[tuple[str, str]]:
    return [("all", EVERY), *((displayable(name), name) for name in report.drafts)]


def narrowed(report: Report, suite: object = EVERY, temperature: object = EVERY, drafts: object = EVERY) -> Report:
    """The report with only what the filters ask for, whatever they hold: what it does not have is ignored. The lane ``none`` stays, since
    speed-ups are over it; a suite shows its categories too."""
    plan = report.plan
    suites = [each.name for each in plan.suites]
    group = suite if suite in (*suites, ALL) else None
    degrees = next((each for each in plan.temperatures if f"{each:g}" == temperature), None)
    drafter = drafts if drafts in report.drafts else None

    def shows(row: Measured | PromptRow, groups: list[str], *also: str) -> bool:
        here = plan.lanes[row.lane].drafts
        return group in (None, *groups) and degrees in (None, row.temperature) and here in (drafter or here, *also)

    def groups_of(row: Measured) -> list[str]:
        """The suites that a group belongs to; the name of one may have a slash."""
        return [name for name in suites if f"{row.group}/".startswith(f"{name}/")] or [row.group]

    return replace(
        report,
        measured=tuple(row for row in report.measured if shows(row, groups_of(row), "")),
        prompts=tuple(row for row in report.prompts if shows(row, [ALL, row.suite])),
    )


def build_view() -> QualityView:
    """The components of the tab."""
    studies = list_component("study")
    with gr.Row(elem_classes=["mars-quality-line"]):
        strip = strip_component(message_strip(HINT), scope=SCOPE)
        resume = gr.Button("Resume", visible=False, elem_id="quality-resume", scale=0, min_width=120)
        stop = gr.Button("Stop", variant="stop", visible=False, elem_id="quality-stop", scale=0, min_width=120)
    # not visible=False: Gradio loses the properties of a component that is updated before it was ever mounted
    with gr.Column(elem_classes=[*RESULT, "mars-away"]) as result:
        with gr.Column(elem_classes=["mars-panel"]):
            with gr.Row(elem_classes=["mars-bar", "mars-quality-filters"]):
                suite = gr.Dropdown([("all suites", EVERY)], value=EVERY, label="Suite", elem_id="quality-suite")
                temperature = gr.Dropdown(
                    [("all", EVERY)], value=EVERY, label="Temperature", elem_id="quality-temperature"
                )
                drafts = gr.Dropdown([("all", EVERY)], value=EVERY, label="Drafter", elem_id="quality-drafts")
            downloads = downloads_component("quality-downloads")
            sharing = share_component(SCOPE)
        first = panel_component(elem_id="quality-first", name="")
        charts = gr.HTML(
            value="", html_template="<div></div>", js_on_load=script("morph.js", "panel.js", "chart.js"),
            apply_default_css=False, elem_id="quality-charts",
        )  # fmt: skip
        prompts = study_panel("", "quality-prompts")
        texts = panel_component(elem_id="quality-texts", name="")
        pair = RunPair(SCOPE)
        rest = panel_component(elem_id="quality-rest", name="")
    view = (suite, temperature, drafts, downloads, sharing, first, charts, prompts, texts, pair, rest)
    return QualityView(
        studies, strip, resume, stop, result, *view, gr.Timer(5.0, active=False), gr.State(""), gr.State("")
    )
