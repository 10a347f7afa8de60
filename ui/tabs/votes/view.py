"""What a round of the blind vote shows, and the component that shows it.

Until a vote is cast a view holds the two texts and nothing else: no rule, no number, no id of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluation.format import count, displayable, number
from mars_core.types import Trace
from storage import Choice
from ui.kit.components import Strip
from ui.kit.labels import lane_label
from ui.kit.panel import render
from ui.kit.values import Part, Sentence
from ui.result.sentence import divergence, verdict

NOTHING = "(This answer is empty.)"
_HINTS = {
    "empty": "An answer appears here once both are written.",
    "writing": "Being written. Both answers appear at once.",
}
_CHOICES = {Choice.LEFT: "A is better", Choice.RIGHT: "B is better", Choice.TIE: "Tie", Choice.BOTH_BAD: "Both bad"}
_SIDES = {Choice.LEFT: 0, Choice.RIGHT: 1}
Fact = tuple[str, str, str, str]  # name, value, unit, help


@dataclass(frozen=True, slots=True)
class Round:
    """Two runs that ended, and which of them is Answer A. Never sent to a browser. ``traces`` by lane."""

    comparison: str
    traces: tuple[Trace, Trace]
    left_lane: int  # 0 or 1: the lane that is Answer A

    @property
    def right_lane(self) -> int:
        return 1 - self.left_lane

    @property
    def sides(self) -> tuple[Trace, Trace]:
        """Answer A and Answer B."""
        return self.traces[self.left_lane], self.traces[self.right_lane]

    @property
    def same_text(self) -> bool:
        return self.traces[0].text == self.traces[1].text


@dataclass(frozen=True, slots=True)
class Answer:
    """One side. All but ``text`` is empty until the vote is cast; ``rest`` is the text from the first difference on."""

    text: str
    rest: str = ""
    rule: str = ""
    facts: tuple[Fact, ...] = ()
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class RoundView:
    """``state``: empty, writing, asking or revealed. ``comparison`` is the id for History, known only after the vote."""

    state: str = "empty"
    answers: tuple[Answer, ...] = ()
    comparison: str = ""

    def html(self) -> str:
        answers, hint = self.answers or (None, None), _HINTS.get(self.state, "")
        return render("tabs/votes/round.html.jinja", round=self, answers=answers, hint=hint, choices=_CHOICES)


def asking(round_: Round) -> RoundView:
    """Both texts, side by side, and the question."""
    return RoundView("asking", tuple(Answer(displayable(trace.text) or NOTHING) for trace in round_.sides))


def revealed(round_: Round, choice: Choice | None) -> RoundView:
    """The texts with their rules and numbers; ``choice`` is None where the texts were the same."""
    parting = divergence(*round_.traces)
    position, chosen = parting.position if parting else None, _SIDES.get(choice) if choice else None
    answers = (_named(trace, position, side == chosen) for side, trace in enumerate(round_.sides))
    return RoundView("revealed", tuple(answers), round_.comparison)


def reveal_strip(round_: Round, choice: Choice) -> Strip:
    """The vote in words, then how the two runs compare."""
    words = {Choice.TIE: "You called it a tie.", Choice.BOTH_BAD: "You found both bad."}.get(choice)
    words = words or f"You preferred {lane_label(round_.sides[_SIDES[choice]].config)}."
    return Strip((Part(words, "strong"), Part(" "), *_comparison(round_)), "done")


def same_strip(round_: Round) -> Strip:
    """Where there is nothing to vote on; the comparison says that texts of the same tokens are the same."""
    ids = [trace.token_ids for trace in round_.traces]
    if ids[0] == ids[1]:
        return Strip((Part("Nothing to vote on.", "strong"), Part(" "), *_comparison(round_)), "done")
    reason = Part(": both rules wrote the same text with different tokens.")
    return Strip((Part("Nothing to vote on", "strong"), reason), "done")


def _comparison(round_: Round) -> Sentence:
    """The sentence of Compare; its places have nothing to point to here."""
    return tuple(replace(part, lane=None, position=None) for part in verdict(round_.traces))


def _named(trace: Trace, position: int | None, chosen: bool) -> Answer:
    """``position``: of the first difference."""
    text, rest, s = displayable(trace.text) or NOTHING, "", trace.summary
    if position is not None and trace.text:
        start = trace.tokens[position].start if position < len(trace.tokens) else len(trace.text)
        text, rest = displayable(trace.text[:start]), displayable(trace.text[start:])
    facts = (
        ("Speed", number(s.tokens_per_s), "tok/s", "new tokens / wall time of the run"),
        ("τ", number(s.tau), "/ step", "mean acceptance length: emitted tokens per decoding step"),
        ("Relaxed", count(s.relaxed), f"of {count(s.new_tokens)}", "tokens that the rule keeps and strict rejects"),
    )
    return Answer(text, rest, lane_label(trace.config), facts, chosen)
