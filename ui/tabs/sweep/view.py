"""What the Sweep tab shows of a sweep: chart, table, the pairs of one setting, earlier sweeps. Components and their values.

Each value is one ASCII JSON string that a script of ``ui/assets`` writes with textContent; no template contains a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from evaluation.sweeps.points import points
from evaluation.sweeps.tradeoff import Cost, optimal
from storage import RunStore, StorageError
from ui.figures.tradeoff import tradeoff_plot
from ui.figures.tradeoff_data import COSTS, against
from ui.kit.assets import asset, to_json
from ui.kit.components import Strip, strip_component, words
from ui.kit.figure import figure_component, figure_json
from ui.kit.format import count, plural, shorten
from ui.kit.labels import parameter_title, rule_title
from ui.kit.told import told
from ui.public.sharing import share_component
from ui.tabs.sweep.handlers import Shown, read_sweep
from ui.tabs.sweep.table import MOST_PAIRS, group_label, pairs, sweep_table, value_label

SCOPE = "sweep"
HINT = "Run the sweep: every prompt is decoded with strict and with the rule, once for each setting."
NO_CHART = "There is nothing to draw yet: no setting has both a speed-up and this cost. A score loss needs prompts with answers."
FIRST = Cost.TV  # of few prompts all texts may differ, which tells nothing apart
FILES = ("sweep.csv", "sweep-comparisons.csv")
Updates = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class SweepView:
    """The components that events change."""

    strip: gr.HTML
    empty: gr.Column
    result: gr.Column
    cost: gr.Radio
    chart: gr.HTML
    table: gr.HTML
    pairs: gr.HTML
    downloads: gr.HTML
    sharing: gr.HTML
    earlier: gr.HTML

    @property
    def outputs(self) -> list[Any]:
        return [self.strip, self.empty, self.result, self.chart, self.table, self.pairs, self.downloads, self.sharing]

    def say(self, strip: Strip) -> Updates:
        return {self.strip: strip.html()}

    def show(self, shown: Shown, cost: Cost, *, chart: bool = True, share: str = "") -> Updates:
        """Table and chart of a sweep; without ``chart`` that stays as it was. ``share``: token of the link it is read through."""
        drawn = {self.chart: chart_json(shown, cost)} if chart else {}
        visible = {self.empty: gr.update(visible=False), self.result: gr.update(visible=True)}
        downloads = to_json({"sweep": shown.id, "files": FILES, "share": share})
        return visible | {self.table: table_json(shown, cost), self.downloads: downloads} | drawn


def build_view() -> SweepView:
    """The components below the fields."""
    strip = strip_component(words(HINT), scope=SCOPE)
    with gr.Column(elem_classes=["mars-panel"]) as empty:
        gr.HTML(asset("sweep_empty.html"), apply_default_css=False)
    # "hidden", not False: Gradio loses the properties of a component that is updated before it was ever mounted
    with gr.Column(visible="hidden", elem_classes=["mars-details", "mars-sweep-result"]) as result:
        with gr.Column(elem_classes=["mars-panel"]):
            choices = [(title, cost.value) for cost, title in COSTS.items()]
            cost = gr.Radio(choices, value=FIRST.value, label="Speed-up against", elem_id="sweep-cost")
            chart = figure_component(scope=SCOPE, name="tradeoff", label="Trade-off", empty=NO_CHART)
        with gr.Column(elem_classes=["mars-panel"]):
            table = _html("sweep_table", table_json(None, FIRST), "sweep-table")
            downloads = _html("sweep_downloads", to_json({"sweep": "", "files": FILES, "share": ""}), "sweep-downloads")
            sharing = share_component(SCOPE)
            chosen = _html("sweep_pairs", pairs_json(None, -1), "sweep-pairs")
    with gr.Column(elem_classes=["mars-panel"]):
        earlier = _html("sweep_list", list_json((), ""), "sweep-list")
    return SweepView(strip, empty, result, cost, chart, table, chosen, downloads, sharing, earlier)


def _html(name: str, value: str, element: str) -> gr.HTML:
    return gr.HTML(
        value=value,
        html_template=asset(f"{name}.html"),
        js_on_load=asset(f"{name}.js"),
        apply_default_css=False,
        elem_id=element,
    )


def chart_json(shown: Shown, cost: Cost) -> str:
    return figure_json(tradeoff_plot(shown.plan, points(shown.plan, shown.results), cost))


def table_json(shown: Shown | None, cost: Cost) -> str:
    """The table's value; ``against`` says in which trade-off the marked rows are not beaten."""
    if shown is None:
        return to_json({"sweep": "", "heads": [], "rows": [], "against": ""})
    found = points(shown.plan, shown.results)
    table = sweep_table(shown.plan, found, optimal(found, cost))
    return to_json({"sweep": shown.id, **asdict(table), "against": against(cost)})


def pairs_json(shown: Shown | None, row: int) -> str:
    """The comparisons of the setting in that row of the table."""
    if shown is None or not 0 <= row < len(shown.plan.cells):
        return to_json({"title": "", "rows": [], "note": "", "scored": False})
    cell = shown.plan.cells[row]
    found = pairs(shown.plan, shown.results, cell)
    note = "" if found else "No pair of this setting has ended yet."
    if len(found) > MOST_PAIRS:
        note = f"The first {count(MOST_PAIRS)} of {count(len(found))}; all are in sweep-comparisons.csv."
    title = f"{value_label(shown.plan, cell)}, {group_label(shown.plan, cell)}: {plural(len(found), 'pair')}"
    rows = [asdict(pair) for pair in found[:MOST_PAIRS]]
    return to_json({"title": title, "rows": rows, "note": note, "scored": shown.plan.scored})


def list_json(entries: Sequence[dict[str, Any]], message: str, selected: str = "", share: str = "") -> str:
    return to_json({"rows": list(entries), "message": message, "selected": selected, "share": share})


def earlier_json(store: RunStore, selected: str, *, public: bool = False, share: str = "") -> str:
    """The latest sweeps, as the list's value. ``share``: token of the link through which the selected one is read."""
    try:
        stored = store.sweeps()
    except StorageError as error:
        return list_json((), told(error, public=public))
    entries = []
    for sweep in stored:
        try:
            plan, results = read_sweep(sweep)
        except ValueError:
            continue  # of another version of this program; opening it by address says so
        parameter = f", {parameter_title(plan.parameter)}: {plural(len(plan.values), 'value')}" if plan.values else ""
        entries.append({
            "id": sweep.id, "created": sweep.created_at.isoformat(), "status": str(sweep.status),
            "title": f"{rule_title(plan.rule)}{parameter}", "done": f"{count(len(results))} of {count(plan.comparisons)} comparisons",
            "prompt": shorten(plan.cases[0].prompt, 80), "prompts": plural(len(plan.cases), "prompt"),
        })  # fmt: skip
    return list_json(entries, "" if entries else "No sweep has been run yet; each is kept here.", selected, share)
