"""What stands below the lanes of a result, in inner tabs: the numbers, the figures, the shift meter and the draft tree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import gradio as gr

from ui.kit.components import EMPTY_TABLE, table_component, table_html
from ui.kit.figure import figure_component, figure_json
from ui.result.result import Details
from ui.result.shift_panel import ShiftPanel, build_shift_panel
from ui.result.tree_panel import TreePanel, build_tree_panel
from ui.settings.lanes import LANE_NAMES

Updates = dict[Any, Any]  # component → new value or gr.update
UNDRAFTED = "No run drafted anything."


@dataclass(frozen=True, slots=True)
class DetailsView:
    """The components, and how details become updates of them."""

    box: gr.Column
    table: gr.HTML
    margins: tuple[gr.HTML, ...]
    ribbon: gr.HTML
    timeline: gr.HTML
    acceptance: gr.HTML
    ratio: gr.HTML
    shift: ShiftPanel
    tree: TreePanel

    @property
    def outputs(self) -> list[Any]:
        figures = [*self.margins, self.ribbon, self.timeline, self.acceptance, self.ratio]
        return [self.box, self.table, *figures, *self.shift.outputs, *self.tree.outputs]

    def show(self, details: Details | None) -> Updates:
        """None hides all of it."""
        if details is None:
            return {self.box: gr.update(visible=False)} | self.tree.show(None)
        margins = zip_longest(self.margins, details.margins)
        return {
            self.box: gr.update(visible=True),
            self.table: table_html(details.table or EMPTY_TABLE),
            **{component: figure_json(plot) for component, plot in margins},
            self.ribbon: figure_json(details.ribbon),
            self.timeline: figure_json(details.timeline),
            self.acceptance: figure_json(details.acceptance),
            self.ratio: figure_json(details.ratio),
            **self.shift.show(details.shift),
            **self.tree.show(details.traces),
        }


def build_details(scope: str, lanes: int) -> DetailsView:
    """The components, hidden; the tabs' contents are there from the beginning, for a script that starts late misses its value."""
    with (
        gr.Column(visible=False, elem_classes=["mars-details", "mars-panel"]) as box,
        gr.Tabs(elem_id=f"{scope}-details"),
    ):
        with _tab("Numbers"):
            _heading("The numbers of every run, and their ratio to those of the left one where all runs ended.")
            table = table_component(scope=scope)
        with _tab("Margins"):
            _heading(_MARGINS)
            margins = _margins(scope, lanes)
        with _tab("Steps"):
            _heading(_STEPS)
            ribbon = figure_component(scope=scope, name="ribbon", label="Accepted length of every step")
            timeline = figure_component(scope=scope, name="timeline", label="Timeline")
        with _tab("Acceptance"):
            _heading("In how many of the steps that drafted that deep a token was kept there.")
            acceptance = figure_component(scope=scope, name="acceptance", label="Acceptance by depth", empty=UNDRAFTED)
        with _tab("Ratio"):
            _heading(_RATIO)
            ratio = figure_component(scope=scope, name="ratio", label="Histogram of the margin", empty=UNDRAFTED)
        with _tab("Shift"):
            _heading(_SHIFT)
            shift = build_shift_panel(scope)
        with _tab("Tree"):
            _heading(
                "Everything that one step drafted, and what became of it. A click on a token above chooses its step."
            )
            tree = build_tree_panel(scope)
    return DetailsView(box, table, margins, ribbon, timeline, acceptance, ratio, shift, tree)


def _tab(title: str) -> gr.Tab:
    return gr.Tab(title, id=title.lower(), render_children=True)


def _margins(scope: str, lanes: int) -> tuple[gr.HTML, ...]:
    with gr.Row(elem_classes=["mars-maps"]):
        return tuple(
            figure_component(
                scope=scope, name=f"margins-{lane + 1}", label=f"Margins, {name.lower()} lane", empty="", wide=True
            )
            for lane, name in enumerate(LANE_NAMES[:lanes])
        )


_MARGINS = (
    "One cell a token, in rows of 32, all runs on one scale: violet where the target is sure, orange where its two best tokens "
    "nearly tie. The colours part at θ, above which MARS may forgive. The frame is the first difference from the left run. "
    "A click shows the token."
)
_STEPS = (
    "Above: one column a decoding step, its tokens from below in the order of the text. Below: the time of the same steps; the runs "
    "were made one after the other and are shown on one clock. Drag to look closer, double-click to go back."
)
_RATIO = (
    "How nearly the target’s two best tokens tied where a drafted token was judged: r = z₂/z₁ of its raw logits, near 1 a near tie. "
    "The line is θ, dotted in runs whose rule does not use it."
)
_SHIFT = (
    "How far the law of the emitted text is from the target’s own: total variation (TV) and Kullback–Leibler divergence (KL, in "
    "nats) at every position, and what the target thinks of the text that was written."
)


def _heading(text: str) -> None:
    """``text`` is ours."""
    gr.HTML(f'<p class="mars-lead">{text}</p>', apply_default_css=False)
