"""The line under the pair chooser: what the pair can do, what memory it needs, and whether it fits here."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.format import memory, parameters
from mars_core.models import ModelPool, PairSpec
from ui.kit.panel import render

OWN = (
    "A target, and a draft model that shares its vocabulary, or an EAGLE-3 head trained for it: Hub ids or folders, in safetensors. "
    "Without both, use n-gram drafts or none."
)


def sentence_html(text: str, state: str = "bad", facts: Sequence[str] = ()) -> str:
    return render("settings/templates/pair_note.html.jinja", text=text, state=state, facts=facts)


def note_html(pool: ModelPool | None, spec: PairSpec | None, *, public: bool = False) -> str:
    """The note of a pair; None: what can be given as one's own. Without a pool, or in public, without the machine's memory."""
    if spec is None:
        return sentence_html(OWN, "ok")
    sizes = " → ".join(parameters(size) for size in (spec.draft_parameters, spec.target_parameters) if size)
    facts = [f"{sizes} parameters"] if sizes else []
    if pool is None:
        return sentence_html(spec.note, "ok", facts)
    fit = pool.fits(spec)
    if fit.needed_bytes and not public:
        verdict = "fits" if fit.fits else "does not fit"
        facts.append(f"needs {memory(fit.needed_bytes)}, {memory(fit.available_bytes)} free on {fit.device}: {verdict}")
    return sentence_html(spec.note, "ok" if fit.fits or not fit.needed_bytes else "bad", facts)
