"""What a lane of the page shows, as plain values: token rows, stat tiles, state; and the component that draws them.

The value of the component is one ASCII JSON string: lone surrogates and ``<`` are escaped in it, so no text can break the transport or
become markup. Token rows are sent as deltas with their start; each delta repeats the one before, so that a lost update heals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import gradio as gr

from mars_core.types import Outcome, Status, Step, Token, Trace
from ui.format import count, displayable, duration, number, over, share, visible
from ui.labels import lane_label, stop_title
from ui.palette import OUTCOME_STYLES

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
FIELDS: tuple[tuple[str, str], ...] = (
    ("r", "z₂/z₁ of the target's two best logits; above θ the margin is low"),
    ("z₁", "the target's best raw logit"),
    ("z₂", "its second best"),
    ("gap", "z₁ − z₂"),
    ("p", "probability of this token under the target"),
    ("q", "its probability under the drafter"),
    ("rank", "place of this token in p; 1 is the likeliest"),
    ("u", "the uniform with which the target draws here"),
    ("TV", "distance of the law of the emitted token from p, 0 to 1"),
    ("entropy", "of p, in nats"),
    ("forgiven", "probability with which the rule keeps this token though the target drew another"),
    ("position", "output position, from 0; as in the CSV"),
    ("step", "decoding step, from 0"),
    ("draft place", "1 to K; after a refusal or a full draft: kept tokens + 1"),
    ("id", "token id"),
)
Row = list[Any]  # [text, outcome, piece, numbers, own piece, refused, top, covered]: the order lane.js takes them in
Tile = tuple[str, str, str, str]  # name, value, unit, help


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

    def json(self) -> str:
        """The value of the component: ASCII, without ``<``."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return to_json(content)


def to_json(value: object) -> str:
    """ASCII JSON without ``<``: safe in transport and in any page, whatever text it carries."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def token_rows(tokens: Iterable[Token], text: str, *, greedy: bool) -> list[Row]:
    """One row an emitted token; a rejected token becomes the struck-through alternative of the one after it.

    ``greedy``: temperature 0, where p is one-hot and the alternatives show the law at temperature 1.
    """
    rows: list[Row] = []
    refused: Token | None = None
    for token in tokens:
        if token.outcome is Outcome.REJECTED:
            refused = token
            continue
        rows.append(_row(token, text[token.start : token.end], refused, greedy))
        refused = None
    return rows


def _row(token: Token, text: str, refused: Token | None, greedy: bool) -> Row:
    own = visible(token.own_piece) if token.own != token.id else ""
    struck = [visible(refused.piece), number(refused.p), number(refused.q)] if refused else None
    top = [[visible(a.piece), number(a.p), round(min(1.0, max(0.0, a.p)), 3), a.id == token.id] for a in token.top]
    covered = share(math.fsum(a.p for a in token.top)) if token.top else share(math.nan)
    covered += " (at temperature 1)" if greedy else ""
    outcome = OUTCOMES.index(token.outcome)
    return [displayable(text), outcome, visible(token.piece), _numbers(token), own, struck, top, covered]


def _numbers(token: Token) -> list[str]:
    values = (token.r, token.z1, token.z2, token.gap, token.p, token.q)
    more = (token.u, token.tv, token.entropy, token.forgiveness)
    places = (token.position, token.step, token.draft_position, token.id)
    return [*map(number, values), count(token.rank), *map(number, more), *map(str, places)]


@dataclass(frozen=True, slots=True)
class Counts:
    """The running numbers of a lane, kept up step by step: O(1) a step, whatever the length of the run."""

    tokens: int = 0
    steps: int = 0
    relaxed: int = 0
    elapsed_s: float = 0.0
    ttft_s: float = math.nan

    def after(self, step: Step) -> Counts:
        emitted = step.emitted
        return replace(
            self,
            tokens=self.tokens + len(emitted),
            steps=self.steps + 1,
            relaxed=self.relaxed + sum(token.outcome is Outcome.RELAXED for token in emitted),
            elapsed_s=step.elapsed_s,
            ttft_s=step.elapsed_s if self.steps == 0 else self.ttft_s,
        )


def counts_of(trace: Trace) -> Counts:
    """The same numbers of a run that ended."""
    summary = trace.summary
    return Counts(summary.new_tokens, summary.steps, summary.relaxed, summary.wall_s, summary.ttft_s)


def stat_tiles(counts: Counts) -> tuple[Tile, ...]:
    """Speed, τ, first token, latency, forgiven tokens; dashes before anything happened."""
    began = counts.steps > 0
    relaxed = count(counts.relaxed) if began else number(math.nan)
    return (
        (
            "Speed",
            number(over(counts.tokens, counts.elapsed_s)),
            "tok/s" if began else "",
            "new tokens / wall time of the run",
        ),
        (
            "τ",
            number(over(counts.tokens, counts.steps)),
            "/ step" if began else "",
            "mean acceptance length: emitted tokens per decoding step",
        ),
        ("First token", *_split(duration(counts.ttft_s)), "TTFT: from the prompt to the first new token"),
        (
            "Latency",
            *_split(duration(counts.elapsed_s if began else math.nan)),
            "wall time of the run so far, or in all",
        ),
        (
            "Relaxed",
            relaxed,
            f"of {count(counts.tokens)}" if began else "",
            "tokens kept only because the rule forgave them",
        ),
    )


def _split(text: str) -> tuple[str, str]:
    value, _, unit = text.partition(" ")
    return value, unit


def ended_view(trace: Trace, run: str, *, diverges: int | None = None) -> LaneView:
    """A run that ended, whole: live and from History alike."""
    tokens = [token for step in trace.steps for token in step.tokens]
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
        rows=tuple(token_rows(tokens, trace.text, greedy=trace.config.sampling.temperature == 0)),
        tiles=stat_tiles(counts_of(trace)),
        progress=1.0,
        diverges=diverges,
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
