"""Why a rule kept a token that strict rejects, in words. No gradio."""

from __future__ import annotations

from display.format import number, visible
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
        best = [_near(token, rule), word(first), f" ({_percent(p1)}) against ", word(second)]
        story = [*best, f" ({_percent(p2)}). {story[0]}", *story[1:]]
    if sampled:
        story[-1] += f": the random number {number(token.coin)} is not below p/q."
    elif token.own in (token.id, UNKNOWN):
        story[-1] += "."
    else:
        p = probabilities.get(token.own)
        story[-1] += "; strict writes "
        story += [word(token.own_piece), "." if p is None else f" ({_percent(p)})."]
    return story


def _near(token: Token, rule: RuleConfig) -> str:
    """Return how the rule that compares the two best logits found them."""
    if rule.name not in RULES or RULES[rule.name].margin_threshold is None:
        return "The two best were "
    if "theta" in rule.parameters and token.r <= 1:
        return f"The two best logits were within {_percent(1 - token.r)}: "
    return f"The two best logits were {number(token.gap)} apart: "


def word(piece: str) -> str:
    """Return a token within a sentence: the one space that most words begin with is left out."""
    return visible(piece.removeprefix(" ") or piece)


def _percent(p: float) -> str:
    return f"{number(100 * p, 2)} %"
