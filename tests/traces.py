"""Deterministic, realistic traces for tests of storage and page, made without a model.

``make_trace`` plays one run over a small vocabulary: at every output position the target's
token is drawn by a uniform that depends on seed and position only, so two rules agree up to the
first token that one of them forgave. Drafts are trees (a chain has one path); a node beside the
path is judged under the distribution of its context.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from mars_core.telemetry import summarise
from mars_core.types import (
    TOKEN_FIELDS,
    Alternative,
    DrafterConfig,
    DraftNode,
    ModelRef,
    Outcome,
    PrefixToken,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Status,
    Step,
    StopReason,
    Token,
    Trace,
    TreeShape,
)

NAN = math.nan
ACCEPTED_OR_RELAXED = (Outcome.ACCEPTED, Outcome.RELAXED)
PREFILL_S, DRAFT_S, VERIFY_S = (
    0.012,
    0.0015,
    0.009,
)  # seconds: the prefill; one drafted token; one target pass
WORDS: tuple[str, ...] = (
    " the",
    " a",
    " sunny",
    " bright",
    " day",
    " morning",
    " Mia",
    " Omar",
    " walked",
    " ran",
    " to",
    " and",
    " of",
    " garden",
    " apples",
    " seeds",
    ",",
    ".",
    " She",
    " He",
    " found",
    " saw",
    " 1",
    "7",
    " +",
    " 2",
    "5",
    " =",
    " 42",
    "\n",
    ' "yes"',
    " naïve",
    " 日本",
    " in",
    " with",
    " small",
    " old",
    " door",
    " again",
    " river",
)
PROMPT = "Tell me a story about a sunny day."
ENVIRONMENT = {
    "app": "0.1.0",
    "python": "3.11.7",
    "torch": "2.13.0",
    "transformers": "5.23.0",
    "device": "cpu",
    "dtype": "float32",
}


@dataclass(frozen=True, slots=True)
class _PositionValues:
    """The target's distribution at one output position, over five tokens."""

    ids: tuple[int, ...]  # likeliest first
    probabilities: tuple[float, ...]  # under the run's sampling
    logprobs: tuple[float, ...]  # at temperature 1
    z1: float
    r: float
    gap: float
    own: int
    u: float
    edge: float
    draft: int  # what the drafter would propose here

    def p(self, token: int) -> float:
        return self.probabilities[self.ids.index(token)]


def make_config(
    *,
    rule: str = "strict",
    theta: float = 0.9,
    k: int = 5,
    seed: int = 0,
    temperature: float = 1.0,
    max_new_tokens: int = 40,
    prompt: PromptConfig | str = PROMPT,
    tree: TreeShape | None = None,
    prefix: Sequence[int] = (),
) -> RunConfig:
    """A configuration as the bundled pair would have it; ``rule="none"`` is plain decoding of the
    target."""
    prompt = (
        prompt
        if isinstance(prompt, PromptConfig)
        else PromptConfig(prompt, system="Be brief.", stop=("###",))
    )
    plain = rule == "none"
    drafter = (
        DrafterConfig("none", None, 0)
        if plain
        else DrafterConfig("model", ModelRef("demo/draft", "bundled"), k)
    )
    drafter = (
        DrafterConfig("eagle3", ModelRef("demo/eagle3", "bundled"), tree=tree) if tree else drafter
    )
    return RunConfig(
        prompt=prompt,
        target=ModelRef("demo/target", "bundled"),
        drafter=drafter,
        rule=RuleConfig(rule, {"theta": theta} if rule.startswith("mars") else {}),
        sampling=Sampling(temperature=temperature, top_k=5),
        max_new_tokens=max_new_tokens,
        seed=seed,
        environment=ENVIRONMENT,
        prefix=tuple(prefix),
    )


def make_trace(
    *,
    new_tokens: int = 40,
    words: Sequence[str] = WORDS,
    status: Status = Status.COMPLETED,
    error: str = "",
    **options: Any,
) -> Trace:
    """One run of ``new_tokens`` tokens under ``strict``, ``none`` or a ``mars`` rule. ``words``: 5
    pieces or more.

    ``options`` are those of ``make_config``; the tokens of ``prefix`` are numbers of ``words``.
    """
    config = make_config(max_new_tokens=new_tokens, **options)
    prefix = _prefix_tokens(config.prefix, words)
    steps = _steps(config, new_tokens, words)
    reasons = {Status.CANCELLED: StopReason.CANCELLED, Status.FAILED: StopReason.ERROR}
    prompt_ids = tuple(range(5, 5 + 1 + len(config.prompt.text) // 4))
    return Trace(
        config=config,
        status=status,
        stop_reason=reasons.get(status, StopReason.LENGTH),
        prompt_ids=prompt_ids,
        text="".join(
            token.piece for token in (*prefix, *(token for step in steps for token in step.emitted))
        ),
        steps=steps,
        summary=summarise(
            steps,
            prompt_tokens=len(prompt_ids),
            prefill_s=PREFILL_S,
            peak_memory_bytes=1_234_567_890,
        ),
        error=error or ("The device ran out of memory." if status is Status.FAILED else ""),
        given=prefix,
    )


def make_tree_trace(**options: Any) -> Trace:
    """One run with an EAGLE-3 head that drafts trees: accepted and rejected branches, and at
    temperature 0 an infinite KL."""
    return make_trace(
        **{"rule": "mars", "temperature": 0.0, "tree": TreeShape(12, 6, 2), **options}
    )


def same(left: object, right: object) -> bool:
    """Whether two values of mars_core.types are equal to the last bit, nan being equal to nan."""
    return repr(left) == repr(right)


def _prefix_tokens(prefix: Sequence[int], words: Sequence[str]) -> tuple[PrefixToken, ...]:
    ends = list(accumulate((len(words[id_]) for id_ in prefix), initial=0))
    return tuple(
        PrefixToken(id_, words[id_], ends[at], ends[at + 1]) for at, id_ in enumerate(prefix)
    )


def _position_values(
    config: RunConfig, branch: int, position: int, words: Sequence[str]
) -> _PositionValues:
    rng = random.Random(f"{config.seed}/{branch}/{position}")
    ids = tuple(rng.sample(range(len(words)), 5))
    z1 = rng.uniform(6.0, 22.0)
    r = rng.uniform(0.9, 0.999) if rng.random() < 0.3 else rng.uniform(0.3, 0.9)
    z1, r = (-z1 / 8, NAN) if rng.random() < 0.03 else (z1, r)
    gap = z1 * (1.0 - r) if r == r else 2.5
    weights = [1.0, math.exp(-gap)] + [math.exp(-gap - 1.0 - rank) for rank in range(3)]
    one_hot = config.sampling.temperature == 0.0
    soft = tuple(w / sum(weights) for w in weights)
    probabilities = (1.0, 0.0, 0.0, 0.0, 0.0) if one_hot else soft
    u = rng.random()
    order = sorted(range(5), key=ids.__getitem__)
    borders = list(accumulate((probabilities[i] for i in order), initial=0.0))
    at = 0 if one_hot else next((n for n in range(5) if u < borders[n + 1]), 4)
    drawn = ids[0] if one_hot else ids[order[at]]
    edge = gap if one_hot else min(u - borders[at], abs(borders[at + 1] - u))
    guess = rng.random()
    draft = (
        drawn if guess < 0.72 else ids[0] if guess < 0.82 else ids[1] if guess < 0.96 else ids[4]
    )
    return _PositionValues(
        ids, probabilities, tuple(map(math.log, soft)), z1, r, gap, drawn, u, edge, draft
    )


def _token(
    position: _PositionValues,
    token: int,
    outcome: Outcome,
    base: Token,
    words: Sequence[str],
    relaxed: float,
) -> Token:
    drafted = outcome in (*ACCEPTED_OR_RELAXED, Outcome.REJECTED)
    length = 0 if outcome is Outcome.REJECTED else len(words[token])
    p = position.p(token)
    return replace(
        base,
        outcome=outcome,
        id=token,
        piece=words[token],
        end=base.start + length,
        z1=position.z1,
        z2=position.z1 - position.gap,
        id1=position.ids[0],
        id2=position.ids[1],
        r=position.r,
        gap=position.gap,
        own=position.own,
        own_piece=words[position.own],
        node=base.node if drafted else 0,
        p=p,
        q=base.q if drafted else NAN,
        rank=position.ids.index(token) + 1,
        entropy=-sum(p * math.log(p) for p in position.probabilities if p > 0.0),
        forgiveness=relaxed,
        u=position.u,
        coin=(7 * position.u) % 1,
        edge=position.edge,
        tv=relaxed * (1.0 - p),
        kl=0.0 if not relaxed else abs(math.log(p)) if p else math.inf,
        logprob=position.logprobs[position.ids.index(token)],
        top=tuple(
            Alternative(i, words[i], math.exp(logprob) if 1.0 in position.probabilities else p)
            for i, p, logprob in zip(
                position.ids, position.probabilities, position.logprobs, strict=True
            )
        ),
    )


_ZEROS: dict[Any, Any] = {int: 0, float: 0.0, str: "", Outcome: Outcome.BONUS}
_BLANK = replace(
    Token(**{name: _ZEROS.get(each.kind, ()) for name, each in TOKEN_FIELDS.items()}),
    raw_z1=NAN,
    raw_z2=NAN,
    q=NAN,
    rank=1,
)


def _steps(config: RunConfig, new_tokens: int, words: Sequence[str]) -> tuple[Step, ...]:
    steps: list[Step] = []
    branch = 0
    position, start = len(config.prefix), sum(len(words[id_]) for id_ in config.prefix)
    end = position + new_tokens
    elapsed = PREFILL_S
    while position < end:
        shape = config.drafter.tree or TreeShape(config.drafter.k, config.drafter.k, 1)
        shape = replace(shape, depth=min(shape.depth, end - position - 1))
        nodes, branches = _draft(config, shape, branch, position, words)
        base = replace(_BLANK, position=position, step=len(steps), start=start)
        tokens = _walk(config, nodes, branches, base, words)
        for token in tokens:
            if token.node:
                nodes[token.node - 1] = replace(nodes[token.node - 1], outcome=token.outcome)
        last = tokens[-1]
        branch, position, start = branches[last.parent], last.position + 1, last.end
        accepted = sum(token.outcome in ACCEPTED_OR_RELAXED for token in tokens)
        draft_s = DRAFT_S * shape.depth
        elapsed += draft_s + VERIFY_S
        steps.append(
            Step(
                len(steps),
                len(nodes),
                accepted,
                draft_s,
                VERIFY_S,
                elapsed,
                tuple(nodes),
                tuple(tokens),
            )
        )
    return tuple(steps)


def _draft(
    config: RunConfig, shape: TreeShape, branch: int, position: int, words: Sequence[str]
) -> tuple[list[DraftNode], list[int]]:
    """The drafted nodes, parents first, none judged yet; the context after the root and after each
    of them. Of every level the drafter's best token alone has children; a chain's has q = 0.5."""
    nodes, branches, parent = list[DraftNode](), [branch], 0
    for depth in range(1, shape.depth + 1):
        context, at = branches[parent], position + depth - 1
        values = _position_values(config, context, at, words)
        rng = random.Random(f"{config.seed}/q/{context}/{at}")
        sure = rng.uniform(0.35, 0.85) if shape.top_k > 1 else 0.5
        others = [token for token in values.ids if token != values.draft]
        ids = [values.draft, *rng.sample(others, 4)][: shape.top_k]
        shares = (sure, *((1.0 - sure) * part for part in (0.55, 0.25, 0.12, 0.06)))
        for token, q in zip(ids, shares, strict=False):
            other = at + 1 + (0 if token == values.draft else 1000 * (token + 1))
            branches.append(context if token == values.own else other)
            p, outcome = values.p(token), Outcome.REJECTED
            nodes.append(DraftNode(token, words[token], parent, depth, p, q, outcome))
        parent = 1 + shape.top_k * (depth - 1)
    return nodes, branches


def _walk(
    config: RunConfig,
    nodes: Sequence[DraftNode],
    branches: Sequence[int],
    base: Token,
    words: Sequence[str],
) -> list[Token]:
    """The step's tokens: down the tree as long as a child is accepted."""
    tokens: list[Token] = []
    while not tokens or tokens[-1].outcome in ACCEPTED_OR_RELAXED:
        position = _position_values(config, branches[base.node], base.position, words)
        children = {
            node.id: at for at, node in enumerate(nodes, start=1) if node.parent == base.node
        }
        base = replace(base, parent=base.node, draft_position=base.draft_position + 1)
        chosen, outcome, relaxed = _decide(config, position, list(children))
        for token in children if outcome is Outcome.RECOVERED else ():
            refused = replace(base, node=children[token], q=nodes[children[token] - 1].q)
            tokens.append(_token(position, token, Outcome.REJECTED, refused, words, 0.0))
        if outcome in ACCEPTED_OR_RELAXED:
            base = replace(base, node=children[chosen], q=nodes[children[chosen] - 1].q)
        tokens.append(_token(position, chosen, outcome, base, words, relaxed))
        base = replace(base, position=base.position + 1, start=tokens[-1].end)
    return tokens


def _decide(
    config: RunConfig, position: _PositionValues, drafted: Sequence[int]
) -> tuple[int, Outcome, float]:
    """The emitted token, its outcome and its forgiveness."""
    lenient = [
        t for t in position.ids[:2] if position.r > config.rule.parameters.get("theta", math.inf)
    ]
    if position.own in drafted:
        return position.own, Outcome.ACCEPTED, float(position.own in lenient)
    relaxed = [token for token in drafted if token in lenient]
    if relaxed:
        return relaxed[0], Outcome.RELAXED, 1.0
    return position.own, Outcome.RECOVERED if drafted else Outcome.BONUS, 0.0
