"""Why a rule kept a token that strict rejects, in words; and what MARS at another θ would do with the
drafts of a stored run, draft by draft. No gradio.

A draft is judged where the run judged it, after the text that the run wrote. So this is a statement
on the stored trace: from the first changed decision on, a real run at that θ would read another
text. ``ui/token_view/lane/rows.js`` counts the same in the browser.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from display.format import number, visible
from display.names import rule_title
from mars_core.rules import RULES
from mars_core.types import UNKNOWN, DraftMode, Outcome, RuleConfig, RunConfig, Step, Token, Trace


def relaxed_story(token: Token, rule: RuleConfig, *, sampled: bool) -> list[str]:
    """Return words and, at odd indices, tokens. ``sampled``: the drafts were, so that the target's
    draw is not what strict would have written."""
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


HIGH, LOW = 1, 2  # bits of a code: kept where the target is sure, kept at low margin


def samples_drafts(config: RunConfig) -> bool:
    """Return whether the run's drafts were sampled: at temperature 0 every draft is judged as a
    greedy one."""
    return config.drafter.mode is DraftMode.SAMPLED and config.sampling.temperature > 0


def codes(trace: Trace) -> str:
    """Return for rows.js the codes of the drafts judged at each emitted token, refused siblings in
    order; one entry a token."""
    entries, entry = list[str](), ""
    judge = _by_uniform if samples_drafts(trace.config) else _by_draw
    for step in trace.steps:
        drafted = judge(step)
        for token in step.tokens:
            entry += str(next(drafted)) if token.node else ""
            if token.outcome is not Outcome.REJECTED:
                entries.append(entry)
                entry = ""
    return ",".join(entries)


def _by_uniform(step: Step) -> Iterator[int]:
    """Sampled drafts: at low margin the two best and no other, elsewhere min(1, p/q)."""
    for token in step.tokens:
        if token.node:
            high = token.coin < (min(1.0, token.p / token.q) if token.q else 1.0)
            yield LOW * (token.id in (token.id1, token.id2)) + HIGH * high


def _by_draw(step: Step) -> Iterator[int]:
    """Greedy drafts: what the target draws itself, else at low margin the better drafted one of the
    two best."""
    children = defaultdict[int, dict[int, int]](
        dict
    )  # node → drafted id after it → the first node with it
    for at, node in enumerate(step.nodes, start=1):
        children[node.parent].setdefault(node.id, at)
    for token in step.tokens:
        if token.node:
            drafted = children[token.parent] or {token.id: token.node}
            first = drafted[token.id] == token.node
            as_drawn = first and token.id == token.own
            low = as_drawn or (
                first and token.own not in drafted and token.id == _runner_up(token, drafted)
            )
            yield LOW * low + HIGH * as_drawn


def _runner_up(token: Token, drafted: Mapping[int, int]) -> int | None:
    """Return the one of the drafted ids that a low margin lets through: the best first, of equal
    ones the earlier drafted."""
    best = (token.id1, token.id2)
    wanted = (
        [id_ for id_ in drafted if id_ in best]
        if token.gap == 0
        else [id_ for id_ in best if id_ in drafted]
    )
    return wanted[0] if wanted else None
