"""One small figure a rule: the target's law p beside the law P that the rule makes of it, at a near tie and at a decisive place,
for one drafted token, at temperature 1.

``python docs/figures/draw.py`` writes ``<rule>.svg`` beside this file. The laws are those of the code: every own draw and a grid of
accept uniforms are put to ``judge``, and what is emitted is counted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from mars_core.rules import RULES, Reach, Rule
from mars_core.sampling import target_law
from mars_core.types import DraftMode, Sampling
from mars_core.verification import Verdict, chain_draft, judge, walk

HERE = Path(__file__).parent
PLACES = {"near tie": (5.0, 4.7, 4.1, 3.0, 1.5), "decisive": (5.0, 3.4, 2.9, 2.0, 1.0)}  # logits of the tokens a … e
DRAFTED, CHANCE = 1, 0.55  # the drafter says b, with this probability
FOLLOWING = 4  # further drafted tokens, all of them what the target draws: a rule may look ahead
GRID = 100  # accept uniforms
PANEL, HEIGHT, BASE, TOP = 250, 140, 122, 80  # pixels; TOP: height of the bar of probability 1
SAMPLING = Sampling(1.0)


def law_of(rule: Rule, place: tuple[float, ...]) -> Tensor:
    """P [5], by enumeration."""
    sure = torch.full((FOLLOWING + 1, len(place)), -20.0, dtype=torch.float64)
    sure[:, 0] = 20.0
    logits = torch.cat([torch.tensor([place], dtype=torch.float64), sure])
    p = target_law(logits, SAMPLING)[0]
    ids = torch.tensor([0, DRAFTED, *[0] * FOLLOWING])
    drafter = torch.tensor([CHANCE, *[1.0] * FOLLOWING], dtype=torch.float64)
    law = torch.zeros_like(p)
    middles = p.cumsum(0) - p / 2
    values = rule.values({})
    for accept in (torch.arange(GRID, dtype=torch.float64) + 0.5) / GRID:
        for own, middle in enumerate(middles):
            u = torch.full((FOLLOWING + 2, 3), 0.5, dtype=torch.float64)
            u[0, 0], u[0, 1] = middle, accept
            draft = chain_draft(ids, drafter, drafter[:, None] * torch.eye(len(place))[ids[1:]])
            columns = judge(logits, draft, rule, values, SAMPLING, DraftMode.GREEDY, u, meter=False)
            law[_first(walk(columns.tolist()))] += p[own] / GRID
    return law


def _first(verdict: Verdict) -> int:
    """The first token that the step emits."""
    node = verdict.nodes[verdict.path[1]].id if len(verdict.path) > 1 else verdict.nodes[0].emit
    return int(node)


def svg(rule: Rule) -> str:
    panels = "".join(_panel(rule, name, PANEL * at) for at, name in enumerate(PLACES))
    where = "; W tokens agree after it" if rule.reach is Reach.WINDOW else ""
    title = f"{rule.name}: p (grey) and the law of the emitted token (orange), b drafted{where}"
    width = PANEL * len(PLACES)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" role="img" '
        f'aria-label="{title}"><g font-family="sans-serif" font-size="11" fill="#7A7F88">{panels}</g></svg>\n'
    )


def _panel(rule: Rule, name: str, left: int) -> str:
    logits = PLACES[name]
    p, law = torch.tensor(logits, dtype=torch.float64).softmax(-1), law_of(rule, logits)
    shift = float((law - p).abs().sum() / 2)
    bars = [f'<text x="{left + 12}" y="14">{name}, r = {logits[1] / logits[0]:.2f}: TV {shift:.2f}</text>']
    for token, (before, after) in enumerate(zip(p.tolist(), law.tolist(), strict=True)):
        x = left + 14 + 46 * token
        bars += [_bar(x, before, "#8A8F98"), _bar(x + 19, after, "#D55E00")]
        mark = ' font-weight="bold"' if token == DRAFTED else ""
        bars.append(f'<text x="{x + 17}" y="{BASE + 13}" text-anchor="middle"{mark}>{"abcde"[token]}</text>')
    return "".join(bars) + f'<path d="M{left + 10} {BASE}h{PANEL - 20}" stroke="#8A8F98"/>'


def _bar(x: int, chance: float, colour: str) -> str:
    height = TOP * chance
    label = f'<text x="{x + 8}" y="{BASE - height - 3:.1f}" text-anchor="middle" font-size="9">{chance:.2f}</text>'
    return f'<rect x="{x}" y="{BASE - height:.1f}" width="16" height="{height:.1f}" fill="{colour}"/>{label}'


if __name__ == "__main__":
    for each in filter(lambda rule: rule.modes, RULES.values()):
        (HERE / f"{each.name}.svg").write_text(svg(each), encoding="utf-8")
