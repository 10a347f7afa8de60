"""The components of a result's lanes: a lane, the bar above them, the strip and the step below. Their
scripts draw the values of ``view``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from display.palette import DECISIVE, LANES, NEAR_TIE, OUTCOME_STYLES
from mars_core.types import Outcome
from ui.kit.assets import asset
from ui.token_view.view import FIELDS, OUTCOMES, LaneView

MOST = 0.55  # of a hue over the ground: text on it stays readable, light and dark
PREFIX_MEANING = "given: the beginning of the text, not written by this run"


@dataclass(frozen=True, slots=True)
class TokenQuantity:
    """What tokens can be coloured by, with fixed ends, so that a colour means the same in every
    run. ``field`` is one of ``FIELDS``. ``pale`` is the end of the scale without colour, ``strong``
    the other."""

    key: str
    title: str
    field: str = ""
    pale: float = 0.0
    strong: float = 1.0
    open: float | None = None  # the end that stands for everything beyond it too
    logarithmic: bool = False
    most: str = ""  # which value of a word decides


QUANTITIES: tuple[TokenQuantity, ...] = (
    TokenQuantity("outcome", "outcome"),
    TokenQuantity("r", "r, margin ratio", "r", most="largest"),  # parts at θ; see the hues
    TokenQuantity("gap", "gap, z₁ − z₂", "gap", 8.0, 0.0, 8.0, most="smallest"),
    TokenQuantity("p", "p, target", "p", 1.0, 0.0, most="smallest"),
    TokenQuantity("q", "q, drafter", "q", 1.0, 0.0, most="smallest"),
    TokenQuantity("rank", "rank in p", "rank", 1.0, 100.0, 100.0, logarithmic=True, most="largest"),
    TokenQuantity("entropy", "entropy of p", "entropy", 0.0, 4.0, 4.0, most="largest"),
    TokenQuantity("tv", "TV, shift", "TV", 0.0, 1.0, most="largest"),
    TokenQuantity("whatif", "kept or rejected at θ"),
)
HUES = {  # on either ground
    "near": NEAR_TIE[-1],  # r above θ
    "sure": DECISIVE[1],  # r below θ
    "amount": LANES[2],
    "kept": LANES[2],
    "refused": OUTCOME_STYLES[Outcome.REJECTED].light,
}
FOLDER = "token_view"
ROWS = ("lane/format", "lane/rows", "lane/page")
LANE_PARTS = ("parts", "span", "text", "paint", "popover", "reach", "draw")
SCRIPTS = {  # component → its scripts
    "lane": (*ROWS, *(f"lane/{part}" for part in LANE_PARTS)),
    "reader": (*ROWS, "reader/parts", "reader/view", "reader/lanes"),
    "ribbon": (*ROWS, "ribbon/spans", "ribbon/draw"),
    "step": (*ROWS, "step/parts", "step/draw", "step/play"),
}


def script(component: str) -> str:
    return "\n".join(asset(f"{name}.js", FOLDER) for name in SCRIPTS[component])


def row_props() -> dict[str, Any]:
    outcomes = [
        {"name": outcome.value, "meaning": OUTCOME_STYLES[outcome].meaning} for outcome in OUTCOMES
    ]
    return dict(
        outcomes=[*outcomes, {"name": "given", "meaning": PREFIX_MEANING}],
        fields=FIELDS,
        quantities=list(map(asdict, QUANTITIES)),
        hues=HUES,
        most=100 * MOST,
    )


def token_component(
    name: str, scope: str, value: str = "", elem_id: str = "", **props: Any
) -> gr.HTML:
    """Build a component of the result ``scope`` (compare, history), where those but the lane work
    in the browser alone, from what the lanes keep there:

    * ``reader``, above the lanes: how their texts are read, and what another θ would change. Its
      event ``select`` carries ``theta``, the θ to run with; not ``runs``: no such button
    * ``ribbon``, below the texts: where they part, meet again and loop, with τ above it. A click
      brings the place in all texts into sight
    * ``step``: one step of a run: drafted, checked in one pass, kept
    """
    return gr.HTML(
        value=value,
        html_template=asset(f"{name}/{name}.html", FOLDER),
        js_on_load=script(name),
        apply_default_css=False,
        elem_id=elem_id or f"{scope}-{name}",
        elem_classes=[f"mars-{name}-block"],
        scope=scope,
        **props,
        **row_props(),
    )


def lane_component(view: LaneView, *, scope: str, lane: int, continues: bool = False) -> gr.HTML:
    """Build the component of one lane in column ``lane``. Its event ``select`` carries ``lane``,
    ``index``, the output position of a chosen token, and, where ``continues``, ``token``: the id to
    continue with instead."""
    name = f"{scope}-lane-{lane}"
    return token_component("lane", scope, view.json(), name, lane=lane, continues=continues)
