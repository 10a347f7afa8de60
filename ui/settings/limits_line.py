"""The limits of a public page in one line near the fields they bound, and number fields that show theirs."""

from __future__ import annotations

import gradio as gr

from evaluation.format import count, plural
from ui.kit.components import text_panel
from ui.public.limits import Limits


def bounded(field: gr.Number, most: int | None) -> gr.Number:
    """``field`` with a maximum for the browser. What is beyond it is refused by the handler, whose sentence names the field;
    gradio's own does not."""
    field.maximum = most
    vars(field)["raise_if_out_of_bounds"] = lambda *_: None
    return field


def limits_line(limits: Limits, *, sweep: bool = False) -> str:
    """What may be asked for, as one sentence; empty where there is no bound."""
    prompt = [
        *([f"{count(limits.prompt_characters)} characters"] if limits.prompt_characters else []),
        *([plural(limits.prompt_tokens, "token")] if limits.prompt_tokens else []),
    ]
    parts = [
        *([f"prompts of {' and '.join(prompt)}"] if prompt else []),
        *([plural(limits.new_tokens, "new token")] if limits.new_tokens else []),
        *([f"K = {count(limits.k)}"] if limits.k else []),
        *([f"trees of {plural(limits.tree_tokens, 'token')}"] if limits.tree_tokens else []),
        *([f"trees of depth {count(limits.tree_depth)}"] if limits.tree_depth else []),
        *([plural(limits.lanes, "lane")] if limits.lanes and not sweep else []),
        *([f"{plural(limits.sweep_runs, 'run')} a sweep"] if limits.sweep_runs and sweep else []),
        *([f"{count(limits.seconds)} s once its turn has come"] if limits.seconds else []),
        *([f"{plural(limits.runs_an_hour, 'run')} an hour"] if limits.runs_an_hour else []),
    ]
    return f"On this public page at most: {', '.join(parts)}." if parts else ""


def limits_component(limits: Limits, *, sweep: bool = False) -> gr.HTML | None:
    """The line; None where nothing is bounded."""
    text = limits_line(limits, sweep=sweep)
    return text_panel("mars-page mars-limits", text) if text else None
