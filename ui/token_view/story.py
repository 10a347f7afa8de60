"""Why a rule kept a token that strict rejects, in words. No gradio."""

from __future__ import annotations

from evaluation.format import number, visible
from mars_core.rules import RULES
from mars_core.types import UNKNOWN, RuleConfig, Token
from ui.kit.labels import rule_title


def relaxed_story(token: Token, rule: RuleConfig, *, sampled: bool) -> list[str]:
    """Words and, at odd indices, tokens. ``sampled``: the drafts were, so that the target's draw is
    not what strict would have written."""
    probabilities = {id_: p for id_, _, p in token.top}
    story = ["The draft said ", word(token.piece), f", so {rule_title(rule.name)} kept it"]
    if len(token.top) > 1:
        (_, first, p1), (_, second, p2) = token.top[:2]
        margin = rule.name in RULES and RULES[rule.name].room is not None
        tied = (
            "), nearly tied. "
            if 3 * p2 >= 2 * p1
            else f"), near enough for {rule_title(rule.name)}. "
        )
        tied = tied if margin else "). "
        best = ["The two best were ", word(first), f" ({_percent(p1)}) and ", word(second)]
        story = [*best, f" ({_percent(p2)}{tied}{story[0]}", *story[1:]]
    if sampled:
        story[-1] += f": the random number {number(token.coin)} is not below p/q."
    elif token.own in (token.id, UNKNOWN):
        story[-1] += "."
    else:
        p = probabilities.get(token.own)
        story[-1] += "; strict had drawn "
        story += [word(token.own_piece), "." if p is None else f" ({_percent(p)})."]
    return story


def word(piece: str) -> str:
    """A token within a sentence: the one space that most words begin with is left out."""
    return visible(piece.removeprefix(" ") or piece)


def _percent(p: float) -> str:
    return f"{number(100 * p, 2)} %"
