"""What the Quality tab shows: studies, and the report of one. Components and what they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from evaluation.format import displayable
from evaluation.report.document.chart import chart, chart_groups
from evaluation.report.document.choose import Choice, drafts_of, known, narrowed
from evaluation.report.values import ALL, Report
from ui.figures.quality import parameter_plot, tradeoff_plot
from ui.kit.components import Group, Strip, downloads_component, downloads_html, message_strip, strip_component
from ui.kit.figure import figure_component, figure_json
from ui.kit.panel import panel_component
from ui.public.sharing import share_component
from ui.tabs.study.quality_panels import first_html, prompts_html, rest_html, texts_html
from ui.tabs.study.studies import list_component, study_panel

SCOPE = "quality"
HINT = "Choose a study: its report says whether a rule keeps the answers right, and what it gains."
FILES = ("study-report.html", "study.zip", "study-results.csv", "study-measured.csv", "study-prompts.csv")
NO_LINE = "No rule of this part has several values of one parameter, or nothing was scored."
NO_CHART = "There is nothing to draw: no lane has both a speed-up and a recovery."
EVERY = ""  # the choice of everything
Updates = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class QualityView:
    """The components that events change. ``opened`` holds the id of the study that is shown,
    ``share`` the token of the link it is read through; or the empty string."""

    studies: gr.HTML
    strip: gr.HTML
    result: gr.Column
    suite: gr.Dropdown
    temperature: gr.Dropdown
    drafts: gr.Dropdown
    downloads: gr.HTML
    sharing: gr.HTML
    first: gr.HTML
    parameter: gr.HTML
    tradeoff: gr.HTML
    prompts: gr.HTML
    texts: gr.HTML
    rest: gr.HTML
    timer: gr.Timer
    opened: gr.State
    share: gr.State

    @property
    def filters(self) -> list[Any]:
        return [self.suite, self.temperature, self.drafts]

    @property
    def outputs(self) -> list[Any]:
        """What ``opened`` changes."""
        shown = [self.first, self.parameter, self.tradeoff, self.prompts, self.texts, self.rest]
        around = [self.studies, self.strip, self.result, *self.filters, self.downloads, self.sharing]
        return [*around, *shown, self.timer, self.opened, self.share]

    def say(self, strip: Strip) -> Updates:
        return {self.strip: strip.html()}

    def show(self, report: Report, choice: Choice, *, study: str = "", share: str = "") -> Updates:
        """The chosen part of a report. ``study``: its id where it was just opened, so that filters and downloads are its own."""
        part = narrowed(report, choice)
        groups = chart_groups(part)
        drawn = chart(part, groups[0]) if groups else None
        changed: Updates = {
            self.first: first_html(part),
            self.parameter: figure_json(parameter_plot(drawn) if drawn else None),
            self.tradeoff: figure_json(tradeoff_plot(drawn) if drawn else None),
            self.prompts: prompts_html(part),
            self.rest: rest_html(part),
        }
        return changed | (self._opened(report, study, share) if study else {})

    def _opened(self, report: Report, study: str, share: str) -> Updates:
        return {
            self.result: gr.update(visible=True),
            self.suite: gr.update(choices=suite_choices(report), value=EVERY),
            self.temperature: gr.update(choices=temperature_choices(report), value=EVERY),
            self.drafts: gr.update(choices=draft_choices(report), value=EVERY),
            self.downloads: downloads_html(
                Group("This study:", FILES, f"?study={study}{f'&share={share}' if share else ''}")
            ),
            self.texts: texts_html(None, None, None),
        }


def suite_choices(report: Report) -> list[tuple[str, str]]:
    names = [suite.name for suite in report.plan.suites]
    together = [("together", ALL)] if len(names) > 1 else []
    return [("all suites", EVERY), *((displayable(name), name) for name in names), *together]


def temperature_choices(report: Report) -> list[tuple[str, str]]:
    return [("all", EVERY), *((f"T = {each:g}", f"{each:g}") for each in report.plan.temperatures)]


def draft_choices(report: Report) -> list[tuple[str, str]]:
    return [("all", EVERY), *((displayable(name), name) for name in drafts_of(report))]


def read_choice(report: Report, suite: object, temperature: object, drafts: object) -> Choice:
    """The values of the filters, whatever they are."""
    temperatures = {f"{each:g}": each for each in report.plan.temperatures}
    return known(report, Choice(_word(suite), temperatures.get(_word(temperature) or ""), _word(drafts)))


def _word(value: object) -> str | None:
    return str(value) if isinstance(value, str) and value != EVERY else None


def build_view() -> QualityView:
    """The components of the tab."""
    with gr.Column(elem_classes=["mars-panel"]):
        studies = list_component("study")
    strip = strip_component(message_strip(HINT), scope=SCOPE)
    # "hidden", not False: Gradio loses the properties of a component that is updated before it was ever mounted
    with gr.Column(visible="hidden", elem_classes=["mars-details", "mars-quality"]) as result:
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
        with gr.Column(elem_classes=["mars-panel", "mars-quality-charts"]):
            gr.HTML(_CHARTS, apply_default_css=False)
            parameter = figure_component(
                scope=SCOPE, name="parameter", label="Over the parameter", empty=NO_LINE, wide=True
            )
            tradeoff = figure_component(
                scope=SCOPE, name="tradeoff", label="Speed-up against recovery", empty=NO_CHART, wide=True
            )
        with gr.Column(elem_classes=["mars-panel"]):
            prompts = study_panel("", "quality-prompts")
            texts = panel_component(elem_id="quality-texts", name="")
        rest = panel_component(elem_id="quality-rest", name="")
    view = (suite, temperature, drafts, downloads, sharing, first, parameter, tradeoff, prompts, texts, rest)
    return QualityView(studies, strip, result, *view, gr.Timer(5.0, active=False), gr.State(""), gr.State(""))


_CHARTS = (
    '<div class="mars-heading"><h2>What speed costs</h2><p>Bars are 95 % intervals; shape says the drafter, filled or hollow the '
    "temperature. In the second chart, upper right is better.</p></div>"
)
