"""One small figure a rule: the target's distribution p beside the distribution P that the rule
makes of it, for one drafted token at temperature 1, at a near tie and at a clear decision.

``python docs/figures/draw.py`` writes ``<rule>.svg`` beside this file. The distributions are those
of the code: every draw, every draw without that token and a grid of accept uniforms are put to
``decide``, and what is emitted is counted.
"""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path

import torch
from jinja2 import Environment, FileSystemLoader
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))

from mars_core.rules import RULES, Reach, Rule
from mars_core.sampling import Chance, Use, chance, draw, target_distribution, words
from mars_core.types import DraftMode, Sampling
from mars_core.verification import (
    Known,
    RunState,
    StepVerdict,
    Terms,
    chain_draft,
    decide,
    received_states,
    walk,
)

HERE = Path(__file__).parent
EXAMPLES = {
    "near tie": (5.0, 4.7, 4.1, 3.0, 1.5),
    "decisive": (5.0, 3.4, 2.9, 2.0, 1.0),
}  # logits of the tokens a … e
DRAFTED, CHANCE = 1, 0.55  # the drafter says b, with this probability; the others have the rest
FOLLOWING = 4  # further drafted tokens, all of them what the target draws: a rule may look ahead
GRID = 100  # accept uniforms
DRAWS = 20_000  # sampled drafts
SAMPLING = Sampling(1.0)
HARMLESS = torch.zeros(1, 1)  # what a classifier says of every drafted token


def distribution_of(rule: Rule, example: tuple[float, ...]) -> Tensor:
    """P [5]; of a rule that draws its places the mean over all draws."""
    if rule.lot is None:
        return _enumerated(rule, example)
    share = rule.values({})["relaxed"] / rule.values({})["of"]
    return torch.lerp(*(_enumerated(rule, example, RunState(lot=at)) for at in (0, 1)), share)


def _enumerated(rule: Rule, example: tuple[float, ...], run: RunState = RunState()) -> Tensor:  # noqa: B008
    """P [5], by enumeration."""
    if DraftMode.GREEDY not in rule.modes:
        return _drawn(rule, example)
    sure = torch.full((FOLLOWING + 1, len(example)), -20.0, dtype=torch.float64)
    sure[:, 0] = 20.0
    logits = torch.cat([torch.tensor([example], dtype=torch.float64), sure])
    p = target_distribution(logits, SAMPLING)[0]
    ids = torch.tensor([0, DRAFTED, *[0] * FOLLOWING])
    drafter = torch.tensor([CHANCE, *[1.0] * FOLLOWING], dtype=torch.float64)
    distribution = torch.eye(len(example), dtype=torch.float64)[ids[1:]]
    distribution[0] = _drafter(len(example))
    # the draw, and the one where that is left out
    draws = torch.tensor([*permutations(range(len(example)), 2)]).repeat(GRID, 1)
    count = len(draws)
    coin = torch.full((count, FOLLOWING + 2), 0.5, dtype=torch.float64)
    coin[:, 0] = (torch.arange(GRID).repeat_interleave(count // GRID) + 0.5) / GRID
    noise = torch.ones(*coin.shape, len(example), dtype=torch.float64)
    at = torch.arange(count)
    noise[at, 0, draws[:, 0]], noise[at, 0, draws[:, 1]] = 1e-18, 1e-9
    draft = chain_draft(
        ids.expand(count, -1), drafter.expand(count, -1), distribution.expand(count, -1, -1)
    )
    known = Known(
        logits.expand(count, -1, -1),
        Chance(coin, noise, None),
        run=received_states(torch.tensor(run.words)),
        signals={"score": HARMLESS.expand(count, len(ids), 1)},
    )
    terms = Terms(rule, rule.values({}), SAMPLING, DraftMode.GREEDY, telemetry=False)
    first = torch.tensor([_first(walk(row)) for row in decide(terms, draft, known).tolist()])
    drawn, other = p[draws].T
    return torch.zeros_like(p).index_add(0, first, drawn * other / (1 - drawn) / GRID)


def _drafter(size: int) -> Tensor:
    """q [size] at the position."""
    others = torch.full((size,), (1 - CHANCE) / (size - 1), dtype=torch.float64)
    return others.index_fill_(0, torch.tensor(DRAFTED), CHANCE)


def _drawn(rule: Rule, example: tuple[float, ...]) -> Tensor:
    """P [5] of a rule for sampled drafts only, from many of them."""
    z, q = torch.tensor([example], dtype=torch.float64), _drafter(len(example))
    seed = torch.tensor(words(0, 0, DRAWS + 1)).view(-1, len(Use))
    random = chance(seed, len(example), DraftMode.SAMPLED, 1.0)
    assert random.draft is not None
    distribution = q.expand(DRAWS, -1)
    x = draw(distribution, random.draft[:DRAWS]).ids
    draft = chain_draft(torch.cat([x[:1], x]), q[x], distribution)
    logits = z.expand(DRAWS + 1, -1)
    terms = Terms(rule, rule.values({}), SAMPLING, DraftMode.SAMPLED, telemetry=False)
    columns = decide(terms, draft, Known(logits, random))
    nodes = walk(columns.tolist()).nodes
    keep, emit = (torch.tensor(nodes.column(name)) for name in ("keep", "emit"))
    tokens = torch.where(keep[1:] > 0, x, emit[:-1].long())
    return torch.bincount(tokens, minlength=len(example)).double() / DRAWS


def _first(verdict: StepVerdict) -> int:
    """The first token that the step emits."""
    node = (
        verdict.nodes.column("id")[verdict.path[1]]
        if len(verdict.path) > 1
        else verdict.nodes.column("emit")[0]
    )
    return int(node)


def svg(rule: Rule) -> str:
    panels = [_panel(rule, name, logits) for name, logits in EXAMPLES.items()]
    template = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template
    return template("figure.svg.jinja").render(
        rule=rule, panels=panels, drafted=DRAFTED, looks_ahead=rule.reach is Reach.WINDOW
    )


def _panel(rule: Rule, name: str, logits: tuple[float, ...]) -> dict[str, object]:
    p, emitted = (
        torch.tensor(logits, dtype=torch.float64).softmax(-1),
        distribution_of(rule, logits),
    )
    shift = float((emitted - p).abs().sum() / 2)
    return {
        "title": f"{name}, r = {logits[1] / logits[0]:.2f}: TV {shift:.2f}",
        "bars": list(zip(p.tolist(), emitted.tolist(), strict=True)),
    }


if __name__ == "__main__":
    for each in filter(lambda rule: rule.modes, RULES.values()):
        (HERE / f"{each.name}.svg").write_text(svg(each), encoding="utf-8")
