"""What a lane of the page shows, as plain values: token rows, stat tiles, state; and the component that draws them.

The value of the component is one ASCII JSON string: lone surrogates and ``<`` are escaped in it, so no text can break the transport or
become markup. Token rows are sent as deltas with their start; each delta repeats the one before, so that a lost update heals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import gradio as gr

from mars_core.types import Outcome, Status, Token, Trace
from ui.format import count, displayable, number, share, visible
from ui.labels import lane_label, stop_title
from ui.palette import OUTCOME_STYLES
from ui.shift import UNCHECKED, Check, lane_check
from ui.tiles import Tile, counts_of, stat_tiles

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
PLACES = {outcome: place for place, outcome in enumerate(OUTCOMES)}
FIELDS: tuple[tuple[str, str], ...] = (
    ("r", "z₂/z₁ of the target's two best logits; above θ the margin is low"),
    ("z₁", "the target's best raw logit"),
    ("z₂", "its second best"),
    ("gap", "z₁ − z₂"),
    ("p", "probability of this token under the target"),
    ("q", "its probability under the drafter"),
    ("rank", "place of this token in p; 1 is the likeliest"),
    ("ln p", "ln of its softmax probability under the target, at temperature 1 and unfiltered"),
    ("u", "the uniform with which the target draws here"),
    ("coin", "the uniform that decides where a rule keeps a token by chance, and on sampled drafts"),
    ("TV", "distance of the law P of the emitted token from p, 0 to 1"),
    ("KL", "KL(P‖p) in nats; ∞ where P may emit what p excludes, as at temperature 0"),
    ("entropy", "of p, in nats"),
    ("forgiven", "probability with which the rule keeps this token though the target drew another"),
    ("position", "output position, from 0; as in the CSV"),
    ("step", "decoding step, from 0"),
    ("depth", "place in the draft, from 1; after a refusal or a full draft: kept tokens + 1"),
    ("node", "number in the draft tree of its step, from 1; 0 for a token that the target drew"),
    ("id", "token id"),
)
Row = list[Any]  # [text, outcome, piece, numbers, own piece, refused siblings, top, covered]: as lane.js takes them


@dataclass(frozen=True, slots=True)
class LaneView:
    """One state of a lane. ``state``: empty, waiting, running, completed, cancelled or failed; ``progress`` 0 to 1."""

    title: str
    state: str = "empty"
    chip: str = ""
    note: str = ""
    empty: str = "The output appears here, token by token."
    run: str = ""
    start: int = 0
    rows: tuple[Row, ...] = ()
    whole: bool = True
    tiles: tuple[Tile, ...] = ()
    progress: float = 0.0
    diverges: int | None = None
    check: Check = UNCHECKED

    def json(self) -> str:
        """The value of the component: ASCII, without ``<``."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return to_json(content | {"check": [self.check.state, self.check.text]})


def to_json(value: object) -> str:
    """ASCII JSON without ``<``: safe in transport and in any page, whatever text it carries."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def token_rows(tokens: Iterable[Token], text: str, *, greedy: bool) -> list[Row]:
    """One row an emitted token; the rejected siblings before it become its struck-through alternatives.

    ``greedy``: temperature 0, where p is one-hot and the alternatives show the law at temperature 1.
    """
    rows: list[Row] = []
    refused: list[Token] = []
    for token in tokens:
        if token.outcome is Outcome.REJECTED:
            refused.append(token)
            continue
        rows.append(_row(token, text[token.start : token.end], refused, greedy))
        refused = []
    return rows


def _row(token: Token, text: str, refused: Sequence[Token], greedy: bool) -> Row:
    chosen = token.id
    own = visible(token.own_piece) if token.own != chosen else ""
    struck = [[visible(sibling.piece), number(sibling.p), number(sibling.q)] for sibling in refused]
    top = [[visible(piece), number(p), round(min(1.0, max(0.0, p)), 3), id == chosen] for id, piece, p in token.top]
    covered = share(math.fsum([p for _, _, p in token.top])) if token.top else share(math.nan)
    covered += " (at temperature 1)" if greedy else ""
    return [displayable(text), PLACES[token.outcome], visible(token.piece), _numbers(token), own, struck, top, covered]


def _numbers(token: Token) -> list[str]:
    values = (token.r, token.z1, token.z2, token.gap, token.p, token.q)
    more = (token.logprob, token.u, token.coin, token.tv, token.kl, token.entropy, token.forgiveness)
    places = (token.position, token.step, token.draft_position, token.node, token.id)
    return [*map(number, values), count(token.rank), *map(number, more), *map(str, places)]


def ended_view(trace: Trace, run: str, *, diverges: int | None = None, rows: tuple[Row, ...] | None = None) -> LaneView:
    """A run that ended, whole: live and from History alike. ``rows``: its token rows, where they were built while it ran."""
    if rows is None:
        tokens = [token for step in trace.steps for token in step.tokens]
        rows = tuple(token_rows(tokens, trace.text, greedy=trace.config.sampling.temperature == 0))
    amount = count(trace.summary.new_tokens)
    chips = {
        Status.COMPLETED: f"{amount} tokens, {stop_title(trace.stop_reason)}",
        Status.CANCELLED: f"stopped after {amount} tokens",
        Status.FAILED: f"failed after {amount} tokens",
    }
    return LaneView(
        title=lane_label(trace.config),
        state=trace.status.value,
        chip=chips[trace.status],
        note=displayable(trace.error),
        empty="This run wrote nothing.",
        run=run,
        rows=rows,
        tiles=stat_tiles(counts_of(trace)),
        progress=1.0,
        diverges=diverges,
        check=lane_check(trace.config, trace.summary.tv_max, trace.summary.new_tokens),
    )


def asset(name: str) -> str:
    """The text of a file of ``ui/assets``."""
    return resources.files("ui").joinpath("assets", name).read_text(encoding="utf-8")


def lane_component(view: LaneView, *, scope: str, lane: int) -> gr.HTML:
    """The component of one lane; ``scope`` names the result it belongs to (compare, history), ``lane`` its column."""
    outcomes = [{"name": outcome.value, "meaning": OUTCOME_STYLES[outcome].meaning} for outcome in OUTCOMES]
    return gr.HTML(
        value=view.json(),
        html_template=asset("lane.html"),
        js_on_load=asset("lane.js"),
        apply_default_css=False,
        elem_id=f"{scope}-lane-{lane}",
        elem_classes=["mars-lane-block"],
        scope=scope,
        lane=lane,
        outcomes=outcomes,
        fields=FIELDS,
    )
