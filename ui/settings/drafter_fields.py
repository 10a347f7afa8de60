"""The drafter's fields: where drafts come from, and the parameters of the chosen drafter only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.types import TreeShape
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.settings.form import CHAIN, TREE
from ui.settings.limits_line import bounded

TITLES: Mapping[str, str] = {
    "model": "Draft model",
    "eagle3": "EAGLE-3 head",
    "ngram": "N-gram lookup",
    "none": "None",
}
SMALL_TREE = TreeShape(12, 6, 2)  # for the bundled pair: its target is too small to check more at no cost
FIELDS = ("k", "shape", "tree_tokens", "tree_depth", "tree_top_k", "mode")  # those that not every drafter takes
PRIVATE: Mapping[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "queue": False}


def offered(spec: PairSpec | None) -> list[str]:
    """The drafters that a pair has; None: one's own pair, which may have any."""
    missing = {"model": spec and spec.draft is None, "eagle3": spec and spec.head is None}
    return [kind for kind in TITLES if not missing.get(kind)]


def tree_shape(spec: PairSpec | None) -> TreeShape:
    """What a tree looks like unless something else is asked for."""
    return SMALL_TREE if spec and spec.key == "bundled" else TreeShape()


def taken(kind: str, shape: str) -> frozenset[str]:
    """Which of ``FIELDS`` a drafter takes."""
    tree = ("shape", "tree_tokens", "tree_depth", "tree_top_k")
    by_kind = {
        "model": ("k", "mode"),
        "ngram": ("k",),
        "eagle3": tree if shape == TREE else ("shape", "k"),
    }
    return frozenset(by_kind.get(kind, ()))


def number_field(
    label: str, value: float, step: float, *, most: int | None = None, visible: bool = True, name: str | None = None
) -> gr.Number:
    """``most``: the largest value that may be asked for; None: no bound of the page's own."""
    shown = value if most is None else min(value, most)
    field = gr.Number(
        shown, label=label, step=step, min_width=96, elem_classes=["mars-number"], visible=visible, elem_id=name
    )
    return bounded(field, most)


def drafter_chooser(spec: PairSpec) -> gr.Dropdown:
    choices = [(TITLES[kind], kind) for kind in TITLES]
    return gr.Dropdown(
        choices, value=offered(spec)[0], label="Drafts from", elem_classes=["mars-bar-drafter"], elem_id="drafter", min_width=150
    )  # fmt: skip


def tree_fields(spec: PairSpec, limits: Limits = PRIVATE_LIMITS) -> dict[str, Any]:
    """The fields of an EAGLE-3 draft, hidden until one is chosen."""
    default = tree_shape(spec)
    with gr.Row(elem_classes=["mars-tree-fields"]):
        return {
            "shape": gr.Radio(
                [("Tree", TREE), ("Chain of K", CHAIN)], value=TREE, label="Shape of the draft", visible=False, min_width=190
            ),
            "tree_tokens": number_field("Drafted tokens", default.tokens, 1, most=limits.tree_tokens, visible=False),
            "tree_depth": number_field("Depth", default.depth, 1, most=limits.tree_depth, visible=False),
            "tree_top_k": number_field("Tree top-k", default.top_k, 1, visible=False),
        }  # fmt: skip


def thinking_field() -> gr.Radio:
    """Beside the chat template's: whether a model that can think before it answers does."""
    choices = [("Model’s default", "default"), ("On", "on"), ("Off", "off")]
    return gr.Radio(choices, value="default", label="Thinking", info="Of models that have the switch.", min_width=220)


def mode_field(*, visible: bool = True) -> gr.Radio:
    return gr.Radio(
        [("Greedy", "greedy"), ("Sampled", "sampled")], value="greedy", label="Draft mode",
        info="Greedy is the paper's setting. With sampled drafts strict keeps more, and MARS may lose.", visible=visible,
    )  # fmt: skip


def shown(kind: str, shape: str) -> list[Any]:
    """Updates of ``FIELDS``."""
    return [gr.update(visible=name in taken(kind, shape)) for name in FIELDS]


def for_pair(spec: PairSpec | None, kind: str) -> tuple[Any, ...]:
    """Updates of the chooser and of the tree's three numbers for a pair; the chosen drafter stays where the pair has it."""
    kinds = offered(spec)
    choice = gr.update(choices=[(TITLES[name], name) for name in kinds], value=kind if kind in kinds else kinds[0])
    shape = tree_shape(spec)
    return choice, shape.tokens, shape.depth, shape.top_k


def wire_drafter(by_name: Mapping[str, Any]) -> None:
    fields = [by_name[name] for name in FIELDS]
    chooser, shape = by_name["drafter"], by_name["shape"]
    gr.on([chooser.change, shape.change], shown, [chooser, shape], fields, **PRIVATE)
