"""What a lane of the page shows, as plain values: token rows, stat tiles, state. No gradio.

The value of the lane's component is one ASCII JSON string: lone surrogates and ``<`` are escaped in it, so
no text can break the transport or become markup. Token rows are sent as deltas with their start;
each delta repeats the one before, so that a lost update heals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from display.format import count, displayable, plural, visible
from display.sources import to_json
from mars_core.margins import gap_ties
from mars_core.telemetry import loops_within
from mars_core.types import (
    TOKEN_FIELDS,
    UNKNOWN,
    Outcome,
    PrefixToken,
    RuleConfig,
    RunConfig,
    ShiftKind,
    Status,
    Token,
    Trace,
    numbers,
)
from ui.kit.labels import STOP_TITLES, lane_label
from ui.kit.values import UNCHECKED, Check
from ui.token_view.reading import markdown_html
from ui.token_view.story import codes, relaxed_story, samples_drafts
from ui.token_view.tiles import NOTHING, Tile, lane_check, stat_tiles

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
OUTCOME_INDEX = {outcome: index for index, outcome in enumerate(OUTCOMES)}
_NUMBERS = (
    *("r", "z1", "z2", "gap", "p", "q", "rank", "logprob", "edge", "coin", "tv", "kl", "entropy"),
    *("forgiveness", "parameter", "regret", "position", "step", "draft_position", "node", "id"),
)
FIELDS: tuple[tuple[str, str], ...] = (
    *((TOKEN_FIELDS[name].label or name, TOKEN_FIELDS[name].meaning) for name in _NUMBERS),
    ("p, T = 0", "p at temperature 0, as a rule compares it: 1 of the likeliest token, else 0"),
)
_values = attrgetter(*_NUMBERS)
_P = _NUMBERS.index("p")  # in whose place the displayed p is
# nine digits tell any two float32 apart
NUMBERS = ",".join("%d" if TOKEN_FIELDS[name].kind is int else "%.9g" for name in _NUMBERS)
MOST_DRAFTED = 12_000  # drafted tokens of a run that are sent to the page with it
PREFIX = len(OUTCOMES)  # after the outcomes: a token that was given to the run
GREEDY, SAMPLED, BOUND = (
    1,
    2,
    4,
)  # flags of a row: temperature 0; a sampled draft; TV and KL are upper bounds


class TokenRow(NamedTuple):
    """One emitted token, as lane.js takes it. ``outcome``: its index in OUTCOMES, or PREFIX;
    ``numbers``: one string, by FIELDS; ``own``: piece and id of the target's draw, or nothing;
    each of the ``refused`` siblings: piece and "id,p,q"; ``top``: the pieces, and "id,p,id,p,…";
    ``flags``: see ``row_flags``; ``story``: of a relaxed token, as relaxed_story tells it."""

    text: str
    outcome: int
    piece: str
    numbers: str = ""
    own: tuple[str, int] | tuple[()] = ()
    refused: tuple[tuple[str, str], ...] = ()
    top: tuple[tuple[str, ...], str] = ((), "")
    flags: int = 0
    story: Sequence[str] = ()


class Draft(NamedTuple):
    """What a step drafted: the pieces, the number of each one's parent, from 1 (0: the text), and
    ``"p,q"`` of each."""

    pieces: tuple[str, ...]
    parents: tuple[int, ...]
    chances: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaneView:
    """One state of a lane. ``state``: empty, waiting, running, completed, cancelled or failed;
    ``progress`` 0 to 1."""

    title: str
    state: str = "empty"
    chip: str = ""
    note: str = ""
    empty: str = "The output appears here, token by token."
    run: str = ""
    start: int = 0
    rows: tuple[TokenRow, ...] = ()
    complete: bool = True
    tiles: tuple[Tile, ...] = stat_tiles(NOTHING)
    progress: float = 0.0
    diverges: int | None = None
    # spans of positions that the baseline has too, with the first of them there
    shared: tuple[tuple[int, int, int], ...] = ()
    looped: tuple[tuple[int, int], ...] = ()  # spans of positions that repeat what is before
    near: tuple[int, ...] = ()  # positions of a server's run that mars-gap would relax
    check: Check = UNCHECKED
    drafts: tuple[Draft, ...] = ()  # of each step of a run that ended
    judged: str = (
        ""  # of each row, what MARS would do with the drafts judged there: see story.codes
    )
    theta: float | None = None  # of the run's rule
    markdown: str = ""  # the text of a run that ended as HTML, from ``reading``
    continues: bool = True  # unless nothing can go on from this run, where that can be asked at all

    def json(self) -> str:
        """Return the value of the component: ASCII, without ``<``."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return to_json(content | {"check": [self.check.state, self.check.text]})


def row_flags(config: RunConfig, kind: ShiftKind) -> int:
    """Return the flags of its tokens, whose TV is of this kind."""
    if config.sampling.temperature == 0:
        return GREEDY
    return SAMPLED if samples_drafts(config) else BOUND if kind is ShiftKind.BOUND else 0


def token_rows(tokens: Iterable[Token], text: str, flags: int, rule: RuleConfig) -> list[TokenRow]:
    """Return one row an emitted token; the rejected siblings before it become its struck-through
    alternatives. ``greedy``: temperature 0, where p is one-hot and the alternatives show the
    distribution at temperature 1. On sampled ``drafts`` the target's draw is not what strict would
    have written, and is left out."""
    rows: list[TokenRow] = []
    refused: list[Token] = []
    for token in tokens:
        if token.outcome is Outcome.REJECTED:
            refused.append(token)
            continue
        rows.append(_row(token, text[token.start : token.end], refused, flags, rule))
        refused = []
    return rows


def prefix_rows(prefix: Iterable[PrefixToken], text: str) -> list[TokenRow]:
    """Return the rows of given tokens: text without numbers."""
    return [
        TokenRow(displayable(text[each.start : each.end]), PREFIX, _visible(each.piece))
        for each in prefix
    ]


_visible = lru_cache(maxsize=1 << 15)(
    visible
)  # a text repeats its pieces, and its alternatives are few


def _row(
    token: Token, text: str, refused: Sequence[Token], flags: int, rule: RuleConfig
) -> TokenRow:
    drawn = token.own not in (token.id, UNKNOWN) and flags != SAMPLED
    relaxed, greedy = token.outcome is Outcome.RELAXED, flags == GREEDY
    return TokenRow(
        displayable(text),
        OUTCOME_INDEX[token.outcome],
        _visible(token.piece),
        _numbers(token, token.displayed_p(greedy=greedy)),
        (_visible(token.own_piece), token.own) if drawn else (),
        tuple(
            [
                (_visible(s.piece), f"{s.id},{s.displayed_p(greedy=greedy):.9g},{s.q:.9g}")
                for s in refused
            ]
        ),
        (
            tuple([_visible(piece) for _, piece, _ in token.top]),
            ",".join([f"{id_},{p:.9g}" for id_, _, p in token.top]),
        ),
        flags,
        relaxed_story(token, rule, sampled=flags == SAMPLED) if relaxed else (),
    )


def _numbers(token: Token, p: float) -> str:
    """Return the numbers by FIELDS. ``p``: the displayed one."""
    values = _values(token)
    return f"{NUMBERS},%.9g" % (*values[:_P], p, *values[_P + 1 :], values[_P])


def ended_view(trace: Trace, run: str, *, note: str = "") -> LaneView:
    """Show a run that ended, in full: live and from History alike. ``note``: a sentence below the
    text, instead of the error."""
    amount = plural(trace.summary.new_tokens, "token")
    chips = {
        Status.COMPLETED: f"{amount}, {STOP_TITLES[trace.stop_reason]}",
        Status.CANCELLED: f"stopped after {amount}",
        Status.FAILED: f"failed after {amount}",
    }
    near, ties = gap_ties(trace)
    repeats = trace.repeats_from
    loop = "" if repeats is None else f", repeats from token {count(repeats)} on"
    return LaneView(
        title=lane_label(trace.config),
        state=trace.status.value,
        chip=chips[trace.status] + loop,
        note=displayable(note or trace.error or ties),
        empty="The server did not report the text."
        if trace.summary.new_tokens
        else "This run wrote nothing.",
        run=run,
        rows=_all_rows(trace),
        tiles=stat_tiles(trace.summary, trace.config.shift_kind),
        progress=1.0,
        looped=_looped(trace),
        near=near,
        check=lane_check(trace.config, trace.summary),
        drafts=_drafts(trace),
        judged="," * len(trace.given) + codes(trace),
        theta=numbers(trace.config.rule.parameters).get("theta"),
        markdown=markdown_html(trace.text),
    )


def _looped(trace: Trace) -> tuple[tuple[int, int], ...]:
    """Return the loops within the text, and the one at its end, whose span may be longer."""
    given, spans = len(trace.given), loops_within(trace.token_ids)
    if trace.repeats_from is not None:
        spans.append((trace.summary.loop_start, trace.summary.new_tokens))
    return tuple((given + first, given + after) for first, after in spans)


def _drafts(trace: Trace) -> tuple[Draft, ...]:
    """Return the drafts of all steps; those after ``MOST_DRAFTED`` tokens are empty."""
    if any(step.drafted == UNKNOWN for step in trace.steps):  # of a server that reports no steps
        return ()
    drafted = accumulate(len(step.nodes) for step in trace.steps)
    nodes = (
        step.nodes if sum_ <= MOST_DRAFTED else ()
        for step, sum_ in zip(trace.steps, drafted, strict=True)
    )
    return tuple(
        Draft(
            tuple(_visible(node.piece) for node in each),
            tuple(node.parent for node in each),
            tuple(f"{node.p:.3g},{node.q:.3g}" for node in each),
        )
        for each in nodes
    )


def _all_rows(trace: Trace) -> tuple[TokenRow, ...]:
    """Return those of the given tokens first."""
    tokens = (
        token if step.drafted != UNKNOWN else replace(token, step=UNKNOWN)
        for step in trace.steps
        for token in step.tokens
    )
    flags = row_flags(trace.config, trace.config.shift_kind)
    rows = token_rows(tokens, trace.text, flags, trace.config.rule)
    if not trace.text and trace.config.served:  # a record of token ids
        named = [f"#{token.id} " for token in trace.tokens]
        rows = [row._replace(text=name, piece=name) for row, name in zip(rows, named, strict=True)]
    return (*prefix_rows(trace.given, trace.text), *rows)
