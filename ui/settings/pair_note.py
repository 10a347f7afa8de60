"""The line under the pair chooser: what the pair can do, what memory it needs, and whether it fits here."""

from __future__ import annotations

import gradio as gr

from mars_core.models import ModelPool, PairSpec
from ui.kit.assets import asset, to_json
from ui.kit.format import displayable, memory, parameters

OWN = (
    "A target, and a draft model that shares its vocabulary, or an EAGLE-3 head trained for it: Hub ids or folders, in safetensors. "
    "Without both, use n-gram drafts or none."
)


def sentence_json(text: str, state: str = "bad") -> str:
    return to_json({"text": displayable(text), "facts": [], "state": state})


def note_json(pool: ModelPool, spec: PairSpec | None, *, public: bool = False) -> str:
    """The note of a pair; None: what can be given as one's own. In public without the machine's memory."""
    if spec is None:
        return sentence_json(OWN, "ok")
    fit = pool.fits(spec)
    sizes = " → ".join(parameters(size) for size in (spec.draft_parameters, spec.target_parameters) if size)
    facts = [f"{sizes} parameters"] if sizes else []
    if fit.needed_bytes and not public:
        verdict = "fits" if fit.fits else "does not fit"
        facts.append(f"needs {memory(fit.needed_bytes)}, {memory(fit.available_bytes)} free on {fit.device}: {verdict}")
    return to_json(
        {"text": displayable(spec.note), "facts": facts, "state": "ok" if fit.fits or not fit.needed_bytes else "bad"}
    )


def pair_note(pool: ModelPool, spec: PairSpec, *, public: bool = False) -> gr.HTML:
    return gr.HTML(
        value=note_json(pool, spec, public=public),
        html_template='<p class="mars-note"><span></span> <small></small></p>',
        js_on_load=asset("note.js"),
        apply_default_css=False,
        elem_id="pair-note",
    )
