"""What a form says of a parameter of a rule: its default, step, values worth trying, what is wrong
with an expression, what a threshold means on the chosen pair, and presets: settings that
are worth a name. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mars_core.drafting import offered
from mars_core.drafting.eagle3 import EAGLE3
from mars_core.drafting.model import MODEL
from mars_core.margins import Margins, sentence
from mars_core.models import PairSpec
from mars_core.models.catalog import PAPER_THETA, Theta
from mars_core.rules import PLAIN, RULES, Parameter, Rule
from mars_core.settings import KINDS, PROCESSORS, Settings
from mars_core.types import RuleConfig, TreeShape
from ui.settings.values import settings_values

STUDIED_THETAS = (0.84, 0.9, 0.96)
UNMEASURED = "What this threshold means on this pair is measured once its models are loaded."
EXAMPLES = ("0.9 - 0.1*min(1, entropy/2)", "thinking")  # of a parameter, of WHERE


def default_theta(spec: PairSpec | None) -> Theta:
    """Return the θ of a pair; a custom one has the paper's."""
    return spec.theta if spec else PAPER_THETA


def suggestion(parameter: Parameter, spec: PairSpec | None) -> str:
    """Return values worth trying: around the paper's θ with the pair's own, else around the
    default."""
    if parameter.name == "theta":
        values = sorted({*STUDIED_THETAS, default_theta(spec).value})
    else:
        wide = [parameter.default * factor for factor in (0.25, 0.5, 1, 1.5, 2)]
        wide = wide if parameter.default else [parameter.low, parameter.high]
        fitting = (min(max(value, parameter.low), parameter.high) for value in wide)
        values = [
            float(round(value)) if parameter.is_integer else float(f"{value:.3g}")
            for value in fitting
        ]
    return ", ".join(f"{value:.16g}" for value in dict.fromkeys(values))


def expression_error(rule: Rule, name: str, text: str) -> str:
    """Return what is wrong with a typed value; empty where nothing is, or nothing was typed."""
    try:
        rule.values({name: text} if text.strip() else {})
    except ValueError as error:
        return str(error)
    return ""


class ThresholdNote(NamedTuple):
    """``waits``: the lines will say more once the models are loaded."""

    lines: tuple[str, ...]
    waits: bool = False


def threshold_note(
    rules: Sequence[RuleConfig], margins: Margins, theta: Theta
) -> ThresholdNote | None:
    """Return a note of the rules among these that have a threshold; None where there are none.
    ``theta``: the pair's default. Raises ValueError."""
    rules = [rule for rule in rules if rule.name in RULES and RULES[rule.name].margin_threshold]
    if not rules:
        return None
    lines = [*dict.fromkeys(sentence(rule, margins) for rule in rules)] if margins else [UNMEASURED]
    if theta.reason and any("theta" in rule.parameters for rule in rules):
        lines.append(theta.sentence)
    return ThresholdNote(tuple(lines), not margins)


Rules = tuple[tuple[str, Mapping[str, float]], ...]
PAPER: Rules = (("strict", {}), ("mars", {"theta": 0.9}))
_TABLE = settings_values(Settings(k=5, protect=()))
USUAL = {name: _TABLE[name] for name in ("k", "draft_mode", "top_k", "top_p", *PROCESSORS)}
GREEDY = {"draft_mode": "greedy"}
DRAFTED = USUAL | {"temperature": 1.0, "drafter": MODEL.name}
PAPER_TREE = GREEDY | {
    "drafter": EAGLE3.name,
    "tree": KINDS["tree"].text(TreeShape()),
}


class Preset(NamedTuple):
    """What a preset sets: values by field of the form, and the rules from the left; the rest stays,
    such as prompt, length and seed."""

    title: str
    fields: Mapping[str, Any] = USUAL
    rules: Rules = PAPER


PRESETS: Mapping[str, Preset] = {
    "paper": Preset("Paper: T = 1, K = 7, θ = 0.9", DRAFTED | GREEDY | {"k": 7}),
    "paper-tree": Preset(
        "Paper: EAGLE-3 tree, 59 tokens, depth 8 (60, 7 in EAGLE)", DRAFTED | PAPER_TREE
    ),
    "coupled": Preset("Coupled drafts: what MARS still gains", DRAFTED),
    "greedy": Preset(
        "Greedy: T = 0, with the target alone", USUAL | {"temperature": 0.0}, ((PLAIN, {}), *PAPER)
    ),
    "sampled": Preset("Sampled drafts: where MARS may lose", DRAFTED | {"draft_mode": "sampled"}),
    "theta": Preset(
        "Three θ: 0.84, 0.9, 0.98",
        USUAL | GREEDY,
        (
            ("strict", {}),
            *(("mars", {"theta": theta}) for theta in (0.84, 0.9, 0.98)),
        ),
    ),
    "relaxed": Preset(
        "MARS and other relaxed rules", USUAL | GREEDY, (*PAPER, ("typical", {}), ("lenience", {}))
    ),
}


def presets_for(spec: PairSpec | None) -> list[tuple[str, str]]:
    """Titles and keys of those whose drafter, if they set one, the pair has, after an empty
    choice."""
    kinds = [None, *offered(spec)]
    return [
        ("Presets", ""),
        *(
            (each.title, key)
            for key, each in PRESETS.items()
            if each.fields.get("drafter") in kinds
        ),
    ]
