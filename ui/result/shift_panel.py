"""The shift meter on the page: the self-check, the numbers of every run, the shift at every position and its sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.kit.components import check_component, check_html, table_component, table_html, text_component
from ui.kit.figure import figure_component, figure_json
from ui.result.result import Shift


@dataclass(frozen=True, slots=True)
class ShiftPanel:
    check: gr.HTML
    table: gr.HTML
    note: gr.HTML
    plot: gr.HTML
    cumulative: gr.HTML

    @property
    def outputs(self) -> list[Any]:
        return [self.check, self.table, self.note, self.plot, self.cumulative]

    def show(self, shift: Shift) -> dict[Any, Any]:
        return {
            self.check: check_html(shift.check),
            self.table: table_html(shift.table),
            self.note: shift.note,
            self.plot: figure_json(shift.plot),
            self.cumulative: figure_json(shift.cumulative),
        }


def build_shift_panel(scope: str) -> ShiftPanel:
    with gr.Column(elem_id=f"{scope}-shift"):
        check = check_component()
        with gr.Row(elem_classes=["mars-pair"]):
            with gr.Column(min_width=280):
                table = table_component(scope=f"{scope}-shift")
                note = text_component("mars-footnote")
            cumulative = figure_component(scope=scope, name="tv-cumulative", label="Cumulative TV")
        plot = figure_component(scope=scope, name="tv", label="TV at every position")
    return ShiftPanel(check, table, note, plot, cumulative)
