"""What a lane of the page shows, as plain values: token rows, stat tiles, state; and the component that draws them.

The value of the component is one ASCII JSON string: lone surrogates and ``<`` are escaped in it, so no text can break the transport or
become markup. Token rows are sent as deltas with their start; each delta repeats the one before, so that a lost update heals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import gradio as gr

from evaluation.format import count, displayable, visible
from mars_core.types import DraftMode, Given, Outcome, Status, Token, Trace
from ui.kit.assets import asset, to_json
from ui.kit.labels import lane_label, stop_title
from ui.kit.palette import OUTCOME_STYLES
from ui.kit.values import UNCHECKED, Check
from ui.result.quantities import HUES, MOST, QUANTITIES
from ui.result.tiles import Tile, counts_of, lane_check, stat_tiles
from ui.result.whatif import codes, samples_drafts

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
NUMBERS = ",".join(
    ["%.9g"] * 6 + ["%d"] + ["%.9g"] * 7 + ["%d"] * 5
)  # by FIELDS; nine digits tell any two float32 apart
GIVEN = len(OUTCOMES)  # the place of what is no outcome: a token that this run was given
GIVEN_MEANING = "given: this run goes on after it and did not write it"
GREEDY, SAMPLED = 1, 2  # flags of a row: temperature 0; a sampled draft
# [text, outcome, piece, numbers, own, refused siblings, top, flags], as lane.js takes them. numbers: one string, by FIELDS; own:
# [piece, id] or nothing; each refused sibling: [piece, "id,p,q"]; top: [pieces, "id,p,id,p,…"].
Row = list[Any]


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
    cause: str = ""  # why the text parts there
    times: tuple[float, ...] = ()  # seconds from the start of the run to the end of each step
    judged: str = ""  # of each row, what MARS would do with the drafts judged there: see whatif.codes
    theta: float | None = None  # of the run's own rule

    def json(self) -> str:
        """The value of the component: ASCII, without ``<``."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return to_json(content | {"check": [self.check.state, self.check.text]})


def token_rows(tokens: Iterable[Token], text: str, *, greedy: bool, drafts: DraftMode = DraftMode.GREEDY) -> list[Row]:
    """One row an emitted token; the rejected siblings before it become its struck-through alternatives.

    ``greedy``: temperature 0, where p is one-hot and the alternatives show the law at temperature 1. On sampled ``drafts`` the
    target's own draw is not what strict would have written, and is left out.
    """
    flags = GREEDY if greedy else SAMPLED if drafts is DraftMode.SAMPLED else 0
    rows: list[Row] = []
    refused: list[Token] = []
    for token in tokens:
        if token.outcome is Outcome.REJECTED:
            refused.append(token)
            continue
        rows.append(_row(token, text[token.start : token.end], refused, flags))
        refused = []
    return rows


def given_rows(given: Iterable[Given], text: str) -> list[Row]:
    """The rows of the tokens after which a continued run goes on: text without numbers."""
    return [[displayable(text[g.start : g.end]), GIVEN, _visible(g.piece), "", [], [], [[], ""], 0] for g in given]


_visible = lru_cache(maxsize=1 << 15)(visible)  # a text repeats its pieces, and its alternatives are few


def _row(token: Token, text: str, refused: Sequence[Token], flags: int) -> Row:
    own = [_visible(token.own_piece), token.own] if token.own != token.id and flags != SAMPLED else []
    struck = [[_visible(s.piece), f"{s.id},{s.p:.9g},{s.q:.9g}"] for s in refused]
    top = [[_visible(piece) for _, piece, _ in token.top], ",".join([f"{id_},{p:.9g}" for id_, _, p in token.top])]
    return [displayable(text), PLACES[token.outcome], _visible(token.piece), _numbers(token), own, struck, top, flags]


def _numbers(token: Token) -> str:
    """The numbers of FIELDS, in their order."""
    return NUMBERS % (
        token.r, token.z1, token.z2, token.gap, token.p, token.q, token.rank, token.logprob, token.u, token.coin, token.tv,
        token.kl, token.entropy, token.forgiveness, token.position, token.step, token.draft_position, token.node, token.id,
    )  # fmt: skip


def ended_view(
    trace: Trace, run: str, *, diverges: int | None = None, cause: str = "", rows: Sequence[Row] | None = None
) -> LaneView:
    """A run that ended, whole: live and from History alike. ``rows``: its token rows, where they were built while it ran; ``cause``:
    why it parts at ``diverges``, as ``sentence.parting_words`` says."""
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
        rows=_all_rows(trace, rows),
        tiles=stat_tiles(counts_of(trace)),
        progress=1.0,
        diverges=diverges,
        cause=displayable(_PLACE.sub("", cause)),
        check=lane_check(trace.config, trace.summary.tv_max, trace.summary.new_tokens),
        times=tuple(round(step.elapsed_s, 6) for step in trace.steps),
        judged="," * len(trace.given) + codes(trace),
        theta=trace.config.rule.parameters.get("theta"),
    )


_PLACE = re.compile(r"^(first differs at|differs from) position \d+(:| on, where) ")  # which the lane says beside it


def _all_rows(trace: Trace, built: Sequence[Row] | None) -> tuple[Row, ...]:
    """Those of the given tokens first; ``built`` may hold them already."""
    drafts = DraftMode.SAMPLED if samples_drafts(trace.config) else DraftMode.GREEDY
    if built is None:
        tokens = (token for step in trace.steps for token in step.tokens)
        built = token_rows(tokens, trace.text, greedy=trace.config.sampling.temperature == 0, drafts=drafts)
    first = given_rows(trace.given, trace.text) if len(built) <= trace.summary.new_tokens else []
    return (*first, *built)


SCRIPTS = (
    "format",
    "lane/rows",
    "lane/parts",
    "lane/text",
    "lane/paint",
    "lane/popover",
    "lane/reach",
    "lane/clock",
    "lane/draw",
)


def lane_script() -> str:
    """The script of a lane: one function body, in parts."""
    return "\n".join(asset(f"{name}.js") for name in SCRIPTS)


def row_props() -> dict[str, Any]:
    """What any script needs to read rows."""
    outcomes = [{"name": outcome.value, "meaning": OUTCOME_STYLES[outcome].meaning} for outcome in OUTCOMES]
    return {
        "outcomes": [*outcomes, {"name": "given", "meaning": GIVEN_MEANING}],
        "fields": FIELDS,
        "quantities": [asdict(quantity) for quantity in QUANTITIES],
        "hues": dict(HUES),
        "most": 100 * MOST,
    }


def lane_component(view: LaneView, *, scope: str, lane: int, continues: bool = False) -> gr.HTML:
    """The component of one lane; ``scope`` names the result it belongs to (compare, history), ``lane`` its column.

    Its event ``select`` carries ``index``, the output position of a chosen token, and, where ``continues``, ``token``: the id to
    continue with in its place.
    """
    return gr.HTML(
        value=view.json(),
        html_template=asset("lane.html"),
        js_on_load=lane_script(),
        apply_default_css=False,
        elem_id=f"{scope}-lane-{lane}",
        elem_classes=["mars-lane-block"],
        scope=scope,
        lane=lane,
        continues=continues,
        **row_props(),
    )
