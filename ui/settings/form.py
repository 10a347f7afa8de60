"""What the fields of the page hold, as it is: of a run, a lane and its drafter. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mars_core.drafting import described
from mars_core.models import PairSpec
from mars_core.types import PROTECTED, TreeShape
from ui.kit.labels import rule_label, value_text
from ui.settings.drafters import TREE, TREE_NUMBERS, taken

LEAST_LANES, FIRST_LANES, MOST_LANES = 1, 2, 4  # that may be, that there are at first, that may be
AUTO_REPEATS, AUTO_S = (
    3,
    2.0,
)  # runs of each lane where no number is set and none takes longer
MOST_REPEATS = 20


@dataclass(frozen=True, slots=True)
class DraftForm:
    """The fields from which a drafter is read: those of the form, or of a lane."""

    drafter: str = "model"
    k: float | None = 5
    mode: str = "coupled"
    shape: str = TREE
    tree_tokens: float | None = TreeShape().tokens
    tree_depth: float | None = TreeShape().depth
    tree_top_k: float | None = TreeShape().top_k


@dataclass(frozen=True, slots=True)
class LaneForm:
    """The head of one lane: a rule and all parameter fields; those of other rules are ignored.
    ``draft``: where its drafts come from, None for the form's drafter."""

    rule: str
    parameters: Mapping[str, float | str | None]
    draft: DraftForm | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForm(DraftForm):
    """The fields that every form of runs has, as they are."""

    pair: str
    max_new_tokens: float | None
    seed: float | None
    system: str = ""
    chat: bool = True
    thinking: str = "default"  # a key of THINKING
    stop: str = ""  # one stop string a line
    top_k: float | None = 0
    top_p: float | None = 1
    min_p: float | None = 0
    typical_p: float | None = 1
    repetition_penalty: float | None = 1
    presence_penalty: float | None = 0
    frequency_penalty: float | None = 0
    no_repeat_ngram_size: float | None = 0
    logit_bias: str = ""  # WORD=VALUE a line
    protect: str = "\n".join(PROTECTED)  # one a line
    own_target: str = ""
    own_draft: str = ""
    own_head: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(RunForm):
    prompt: str
    temperature: float | None
    lanes: tuple[LaneForm, ...]
    repeats: float | None = (
        1  # runs of every lane, to measure the time; 0: AUTO_REPEATS where runs are short
    )


def form_with_theta(lanes: Sequence[LaneForm], theta: float) -> LaneForm:
    """The latest lane whose rule has a θ, else the last one under MARS, with this θ."""
    lane = next(
        (lane for lane in reversed(lanes) if "theta" in lane.parameters),
        replace(lanes[-1], rule="mars"),
    )
    return replace(lane, parameters={"theta": theta})


def settings_label(form: Form, catalog: Sequence[PairSpec]) -> str:
    """What a form requests, in one line; values that are missing or wrong as they are."""
    pair = next((spec.title for spec in catalog if spec.key == form.pair), "own pair")
    lanes = " | ".join(rule_label(lane.rule, lane.parameters) for lane in form.lanes)
    kind, fields = described(form.drafter), taken(form.drafter, form.shape)
    length = (
        ["tree"] if TREE_NUMBERS[0] in fields else [f"K = {value_text(form.k)}"] * ("k" in fields)
    )
    drafts = ", ".join([kind.title if kind.chains else kind.drafts, *length])
    numbers = (
        f"T = {value_text(form.temperature)} · {value_text(form.max_new_tokens)} tokens"
        f" · seed {value_text(form.seed)}"
    )
    return f"Settings:  {lanes}  ·  {pair}  ·  {drafts}  ·  {numbers}"
