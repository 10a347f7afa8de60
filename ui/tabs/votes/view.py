"""What a round of the blind vote shows: until a vote is cast the two texts and nothing else (no
rule, no number, no id of a run), then the token views of both runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from display.format import displayable
from mars_core.types import Trace
from storage import Choice
from ui.kit.components import Strip
from ui.kit.labels import lane_label, run_names
from ui.kit.panel import render
from ui.kit.values import SentencePart
from ui.result.headline import headlines
from ui.result.pair import pair_views
from ui.result.sentence import verdict
from ui.token_view.view import LaneView

NOTHING = "(This answer is empty.)"
_HINTS = {
    "empty": "An answer appears here once both are written.",
    "writing": "Being written. Both answers appear at once.",
}
_CHOICES = {
    Choice.LEFT: "A is better",
    Choice.RIGHT: "B is better",
    Choice.TIE: "Tie",
    Choice.BOTH_BAD: "Both bad",
}
_SIDES = {Choice.LEFT: 0, Choice.RIGHT: 1}


@dataclass(frozen=True, slots=True)
class Round:
    """Two runs that ended, and which of them is Answer A. Never sent to a browser. ``traces`` by
    lane."""

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
class RoundView:
    """``state``: empty, writing, asking or revealed. ``texts``: of both answers while they are
    the question. After the vote: ``comparison``, the id for History, and ``lanes``, the runs of
    Answer A and Answer B."""

    state: str = "empty"
    texts: tuple[str, ...] = ()
    comparison: str = ""
    lanes: tuple[LaneView, ...] = ()

    def html(self) -> str:
        hint = _HINTS.get(self.state, "")
        return render("tabs/votes/round.html.jinja", round=self, hint=hint, choices=_CHOICES)


def question_view(round_: Round) -> RoundView:
    """Both texts, side by side, and the question."""
    return RoundView("asking", tuple(displayable(trace.text) or NOTHING for trace in round_.sides))


def revealed(round_: Round, choice: Choice | None) -> RoundView:
    """Both runs with their rules, tokens and numbers; ``choice`` is None where the texts were the
    same."""
    chosen = _SIDES.get(choice) if choice else None
    views = pair_views(round_.traces, round_.comparison)
    lanes = tuple(
        replace(
            views[lane],
            title=f"Answer {'AB'[side]}: {views[lane].title}{', your choice' if side == chosen else ''}",
        )
        for side, lane in enumerate((round_.left_lane, round_.right_lane))
    )
    return RoundView("revealed", comparison=round_.comparison, lanes=lanes)


def reveal_strip(round_: Round, choice: Choice) -> Strip:
    """Return the vote in words, then how the two runs compare."""
    words = {Choice.TIE: "You called it a tie.", Choice.BOTH_BAD: "You found both bad."}.get(choice)
    words = words or f"You preferred {lane_label(round_.sides[_SIDES[choice]].config)}."
    return _compared(round_, words)


def same_strip(round_: Round) -> Strip:
    """Return the strip where there is nothing to vote on; the comparison says that texts of the same tokens
    are the same."""
    ids = [trace.token_ids for trace in round_.traces]
    if ids[0] == ids[1]:
        return _compared(round_, "Nothing to vote on.")
    reason = SentencePart(": both rules wrote the same text with different tokens.")
    return Strip((SentencePart("Nothing to vote on", "strong"), reason), "done")


def _compared(round_: Round, words: str) -> Strip:
    """Words, then the sentence and the numbers of Compare, which have nothing to point to here."""
    traces = round_.traces
    sentence = [replace(part, lane=None, position=None) for part in verdict(traces)]
    numbers = headlines(run_names([trace.config for trace in traces]), dict(enumerate(traces)))
    return Strip(
        (SentencePart(words, "strong"), SentencePart(" "), *sentence),
        "done",
        numbers=tuple(each._replace(relaxed_at=None) for each in numbers),
    )
