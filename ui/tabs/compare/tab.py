"""The Compare tab: prompt and settings, lanes side by side, and what came of them, put together
from their parts."""

from __future__ import annotations

import gradio as gr

from evaluation.report.verdicts import Verdicts
from ui.jobs.services import Services
from ui.kit.assets import asset
from ui.kit.components import message_strip
from ui.result.view import ResultView
from ui.settings.values import MOST_LANES
from ui.sharing import wire_share
from ui.tabs.compare.arrange import Arrangement, CompareParts, empty_lane
from ui.tabs.compare.opening import Opening, example_result, request_of
from ui.tabs.compare.prompt_panel import FollowUp, PromptPanel
from ui.tabs.compare.running import Running


class CompareTab(CompareParts):
    def __init__(self, services: Services, address: gr.HTML) -> None:
        self.services, self.prompt_panel = services, PromptPanel(services)
        self.verdicts = Verdicts()
        self.note = gr.HTML(
            request_of(0),
            html_template='<p class="mars-request" role="status" hidden></p>',
            js_on_load=asset("request.js", "tabs/compare"),
            apply_default_css=False,
            elem_id="compare-request",
        )
        self.follow_up = FollowUp()
        self.view = ResultView(
            "compare",
            message_strip(""),
            tuple(map(empty_lane, range(MOST_LANES))),
            asks=self.follow_up.row,
        )
        self.view.begin_with(example_result(self, 0))
        self.displayed = gr.State(None)
        self.address = address

    def wire(self) -> None:
        self.prompt_panel.wire()
        for part in (Arrangement, Running, Opening):
            part(**vars(self)).wire()
        wire_share(self.services, self.view.sharing)
