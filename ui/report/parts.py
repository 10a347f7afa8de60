"""What the report of a comparison shows of its runs: lanes, numbers, figures; the same components and values as the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import gradio as gr

from ui.figures.plot import Plot
from ui.kit.components import check_component, check_html, table_component, table_html, text_component
from ui.kit.figure import figure_component, figure_json
from ui.kit.values import Table
from ui.result.reader import reader_component
from ui.result.result import Details, Result
from ui.result.result_view import legend_html
from ui.result.token_view import lane_component

SCOPE = "report"


@dataclass(frozen=True, slots=True)
class Placed:
    """A component and the value with which it is shown."""

    component: gr.HTML
    value: str


Part = str | Placed  # markup of ours, or a component
END = "</section>"


def panel(title: str, words: str = "") -> str:
    """The head of a section; both are texts of ours."""
    return f'<section class="mars-panel"><div class="mars-heading"><h2>{title}</h2><p>{words}</p></div>'


def text(content: str, name: str = "mars-report-text") -> Placed:
    """A text from outside."""
    return Placed(text_component(name), content)


def table(content: Table, name: str) -> Placed:
    return Placed(table_component(scope=f"{SCOPE}-{name}"), table_html(content))


def lane_parts(result: Result) -> Iterator[Part]:
    """The bar and the lanes side by side."""
    reader = reader_component(scope=SCOPE, runs=False)
    yield Placed(reader, reader.value)
    yield '<div class="mars-lanes">'
    for lane, view in enumerate(result.lanes):
        if view is not None:
            yield '<section class="mars-card">'
            yield Placed(lane_component(view, scope=SCOPE, lane=lane), view.json())
            yield END
    yield f'</div><div class="mars-legend-block">{legend_html()}</div>'


def number_parts(details: Details) -> Iterator[Part]:
    """The tables, with the verdict of the self-check."""
    shift = details.shift
    yield panel("In numbers")
    yield table(details.table, "numbers")
    yield END + panel("Shift", "How far the law of the emitted text is from the target’s own.")
    yield Placed(check_component(), check_html(shift.check))
    yield table(shift.table, "shift")
    yield text(shift.note, "mars-footnote")
    yield END


def figure_parts(details: Details) -> Iterator[Part]:
    """The figures that there are, each in a panel."""
    for name, label, plot in _plots(details):
        if plot is not None:
            yield panel(label)
            yield Placed(figure_component(scope=SCOPE, name=name, label=label), figure_json(plot))
            yield END


def _plots(details: Details) -> Iterator[tuple[str, str, Plot | None]]:
    """Name, label, and the figure or None."""
    for lane, margins in enumerate(details.margins):
        yield f"margins-{lane + 1}", f"Margin of every token, lane {lane + 1}", margins
    yield "ribbon", "Accepted length of every step", details.ribbon
    yield "timeline", "Drafting and verifying on one clock", details.timeline
    yield "acceptance", "Kept drafts by depth", details.acceptance
    yield "ratio", "r of the drafted tokens", details.ratio
    yield "shift", "TV at every position", details.shift.plot
    yield "cumulative", "TV, summed up to every position", details.shift.cumulative
