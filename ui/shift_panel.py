"""The shift meter on the page: the self-check, the numbers of every run, and the shift at every position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.components import check_component, check_json, table_component, table_json, text_component
from ui.result import Shift


@dataclass(frozen=True, slots=True)
class ShiftPanel:
    check: gr.HTML
    table: gr.HTML
    note: gr.HTML
    plot: gr.Plot

    @property
    def outputs(self) -> list[Any]:
        return [self.check, self.table, self.note, self.plot]

    def show(self, shift: Shift) -> dict[Any, Any]:
        return {
            self.check: check_json(shift.check),
            self.table: table_json(shift.table),
            self.note: shift.note,
            self.plot: shift.figure,
        }


def build_shift_panel(scope: str, heading: str) -> ShiftPanel:
    """``heading`` is HTML of ours."""
    with gr.Column(elem_classes=["mars-panel"], elem_id=f"{scope}-shift"):
        gr.HTML(heading, apply_default_css=False)
        check = check_component()
        with gr.Row(elem_classes=["mars-pair"]):
            with gr.Column(min_width=280):
                table = table_component(scope=f"{scope}-shift")
                note = text_component("mars-footnote")
            plot = gr.Plot(label="TV at every position", show_label=False, container=False, min_width=280)
    return ShiftPanel(check, table, note, plot)
