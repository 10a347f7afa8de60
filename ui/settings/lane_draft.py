"""Where a lane's drafts come from, if not from where the bar above says: the lane's own drafter and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from mars_core.models import PairSpec
from ui.settings.drafter_fields import FIELDS, PRIVATE, TITLES, mode_field, number_field, offered, taken, tree_fields
from ui.settings.form import DraftForm

AS_ABOVE = "above"
NAMES = ("drafter", *FIELDS)


def lane_draft(lane: int, spec: PairSpec) -> dict[str, Any]:
    """The fields by name of ``DraftForm``; none but the chooser is shown until a drafter of the lane's own is chosen."""
    fields: dict[str, Any] = {
        "drafter": gr.Dropdown(
            _choices(spec), value=AS_ABOVE, label="Drafts", elem_id=f"lane-drafter-{lane}", min_width=120
        )
    }
    fields["k"] = number_field("K, this lane", 5, 1, visible=False)
    fields |= tree_fields(spec)
    fields["mode"] = mode_field(visible=False)
    shown = [fields[name] for name in FIELDS]

    def choose(kind: str, shape: str) -> list[Any]:
        return [gr.update(visible=name in taken(kind, shape)) for name in FIELDS]

    chooser, shape = fields["drafter"], fields["shape"]
    gr.on([chooser.change, shape.change], choose, [chooser, shape], shown, **PRIVATE)
    return {name: fields[name] for name in NAMES}


def _choices(spec: PairSpec | None) -> list[tuple[str, str]]:
    kinds = [kind for kind in offered(spec) if kind != "none"]  # the rule "Target alone" drafts nothing
    return [("As above", AS_ABOVE), *((TITLES[kind], kind) for kind in kinds)]


def draft_for_pair(spec: PairSpec | None, kind: str) -> Any:
    """The chooser's update for another pair: what it does not have is no longer chosen."""
    choices = _choices(spec)
    return gr.update(choices=choices, value=kind if kind in [value for _, value in choices] else AS_ABOVE)


def read_lane_draft(values: Mapping[str, Any]) -> DraftForm | None:
    """None: as above."""
    return None if values["drafter"] == AS_ABOVE else DraftForm(**values)
