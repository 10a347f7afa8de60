"""The drafter's fields: where drafts come from, and the parameters of the chosen drafter only. Of a whole form, or of one lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from mars_core.types import TreeShape
from ui.kit.events import PRIVATE
from ui.public.limits import PRIVATE_LIMITS, Limits
from ui.settings.form import CHAIN, TREE, DraftForm

TITLES: Mapping[str, str] = {"model": "Draft model", "eagle3": "EAGLE-3 head", "ngram": "N-gram lookup", "none": "None"}
SMALL_TREE = TreeShape(12, 6, 2)  # for the bundled pair: its target is too small to check more at no cost
TREE_NUMBERS = ("tree_tokens", "tree_depth", "tree_top_k")
FIELDS = ("k", "shape", *TREE_NUMBERS, "mode")  # those that not every drafter takes
SHARED = "above"  # a lane's drafts come from the form's drafter


def offered(spec: PairSpec | None, *, none: bool = True) -> list[str]:
    """The drafters that a pair has; None: one's own pair, which may have any. ``none``: whether drafting nothing is one of them."""
    missing = {"model": spec and spec.draft is None, "eagle3": spec and spec.head is None, "none": not none}
    return [kind for kind in TITLES if not missing.get(kind)]


def tree_shape(spec: PairSpec | None) -> TreeShape:
    """What a tree looks like unless something else is asked for."""
    return SMALL_TREE if spec and spec.key == "bundled" else TreeShape()


def taken(kind: str, shape: str) -> frozenset[str]:
    """Which of ``FIELDS`` a drafter takes."""
    by_kind = {
        "model": ("k", "mode"),
        "ngram": ("k",),
        "eagle3": ("shape", *TREE_NUMBERS) if shape == TREE else ("shape", "k"),
    }
    return frozenset(by_kind.get(kind, ()))


def number_field(
    label: str, value: float, step: float, *, most: int | None = None, visible: bool = True, name: str | None = None
) -> gr.Number:
    """``most``: the largest value that may be asked for; None: no bound of the page's own. What is beyond it is refused by the handler,
    whose sentence names the field; gradio's own does not."""
    shown = value if most is None else min(value, most)
    field = gr.Number(
        shown, label=label, step=step, min_width=96, elem_classes=["mars-number"], visible=visible, elem_id=name
    )
    field.maximum = most
    vars(field)["raise_if_out_of_bounds"] = lambda *_: None
    return field


def drafter_field(spec: PairSpec, name: str, *, none: bool = True) -> gr.Dropdown:
    kinds = offered(spec, none=none)
    return gr.Dropdown(
        _titled(kinds), value=kinds[0], label="Drafts from", elem_classes=["mars-bar-drafter"], elem_id=name, min_width=150
    )  # fmt: skip


def _titled(kinds: list[str]) -> list[tuple[str, str]]:
    return [(TITLES[kind], kind) for kind in kinds]


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


def mode_field(*, visible: bool = True) -> gr.Radio:
    return gr.Radio(
        [("Greedy", "greedy"), ("Sampled", "sampled")], value="greedy", label="Draft mode",
        info="Greedy is the paper's setting. With sampled drafts strict keeps more, and MARS may lose.", visible=visible,
    )  # fmt: skip


def for_pair(spec: PairSpec | None, kind: str, *, none: bool = True) -> tuple[Any, ...]:
    """Updates of the chooser and of the tree's three numbers for a pair; the chosen drafter stays where the pair has it."""
    kinds, shape = offered(spec, none=none), tree_shape(spec)
    choice = gr.update(choices=_titled(kinds), value=kind if kind in kinds else kinds[0])
    return choice, shape.tokens, shape.depth, shape.top_k


def wire_drafter(by_name: Mapping[str, Any]) -> None:
    """Shows those of ``FIELDS`` that the chosen drafter takes."""
    chooser, shape = by_name["drafter"], by_name["shape"]

    def show(kind: str, shape: str) -> list[Any]:
        return [gr.update(visible=name in taken(kind, shape)) for name in FIELDS]

    gr.on([chooser.change, shape.change], show, [chooser, shape], [by_name[name] for name in FIELDS], **PRIVATE)


def lane_drafter(lane: int, spec: PairSpec) -> dict[str, Any]:
    """The fields by name of ``DraftForm``; none but the chooser is shown until a drafter of the lane's own is chosen."""
    chooser = gr.Dropdown(
        _lane_choices(spec), value=SHARED, label="Drafts", elem_id=f"lane-drafter-{lane}", min_width=120
    )
    fields = {"drafter": chooser, "k": number_field("K, this lane", 5, 1, visible=False), **tree_fields(spec)}
    fields["mode"] = mode_field(visible=False)
    wire_drafter(fields)
    return fields


def _lane_choices(spec: PairSpec | None) -> list[tuple[str, str]]:
    return [("As above", SHARED), *_titled(offered(spec, none=False))]  # the rule "Target alone" drafts nothing


def lane_drafter_for_pair(spec: PairSpec | None, kind: str) -> Any:
    """The chooser's update for another pair: what it does not have is no longer chosen."""
    choices = _lane_choices(spec)
    return gr.update(choices=choices, value=kind if kind in [value for _, value in choices] else SHARED)


def read_lane_drafter(values: Mapping[str, Any]) -> DraftForm | None:
    """None: the form's own drafter."""
    return None if values["drafter"] == SHARED else DraftForm(**values)
