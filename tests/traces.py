"""Deterministic, realistic traces for tests of storage and page, made without a model.

``make_trace`` plays one run over a small vocabulary: at every output position the target's own token is drawn by a
uniform that depends on seed and position only, so two rules agree up to the first token that one of them forgave.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import accumulate

from mars_core.types import (
    Alternative,
    DrafterConfig,
    ModelRef,
    Outcome,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    Status,
    Step,
    StopReason,
    Summary,
    Token,
    Trace,
)

NAN = math.nan
KEPT = (Outcome.ACCEPTED, Outcome.RELAXED)
PREFILL_S, DRAFT_S, VERIFY_S = 0.012, 0.0015, 0.009  # seconds: the prefill; one drafted token; one target pass
WORDS: tuple[str, ...] = (
    " the", " a", " sunny", " bright", " day", " morning", " Mia", " Omar", " walked", " ran", " to", " and", " of",
    " garden", " apples", " seeds", ",", ".", " She", " He", " found", " saw", " 1", "7", " +", " 2", "5", " =", " 42",
    "\n", ' "yes"', " naïve", " 日本", " in", " with", " small", " old", " door", " again", " river",
)  # fmt: skip
ENVIRONMENT = {
    "app": "0.1.0",
    "python": "3.11.7",
    "torch": "2.13.0",
    "transformers": "5.23.0",
    "device": "cpu",
    "dtype": "float32",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """The target's law at one output position, over five tokens."""

    ids: tuple[int, ...]  # likeliest first
    probabilities: tuple[float, ...]
    z1: float
    r: float
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
    prompt: PromptConfig | str = "Tell me a story about a sunny day.",
) -> RunConfig:
    """A configuration as the bundled pair would have it; ``rule="none"`` is plain decoding of the target."""
    prompt = prompt if isinstance(prompt, PromptConfig) else PromptConfig(prompt, system="Be brief.", stop=("###",))
    plain = rule == "none"
    drafter = DrafterConfig("none", None, 0) if plain else DrafterConfig("model", ModelRef("demo/draft", "bundled"), k)
    return RunConfig(
        prompt=prompt,
        target=ModelRef("demo/target", "bundled"),
        drafter=drafter,
        rule=RuleConfig("strict" if plain else rule, {"theta": theta} if rule.startswith("mars") else {}),
        sampling=Sampling(temperature=temperature, top_k=5),
        max_new_tokens=max_new_tokens,
        seed=seed,
        environment=ENVIRONMENT,
    )


def make_trace(
    *,
    rule: str = "strict",
    theta: float = 0.9,
    k: int = 5,
    new_tokens: int = 40,
    seed: int = 0,
    temperature: float = 1.0,
    prompt: PromptConfig | str = "Tell me a story about a sunny day.",
    words: Sequence[str] = WORDS,
    status: Status = Status.COMPLETED,
    error: str = "",
) -> Trace:
    """One run of ``new_tokens`` tokens under ``strict``, ``none`` or a ``mars`` rule. ``words``: 5 pieces or more."""
    config = make_config(
        rule=rule, theta=theta, k=k, seed=seed, temperature=temperature, max_new_tokens=new_tokens, prompt=prompt
    )
    steps = _steps(config, new_tokens, words)
    reasons = {Status.CANCELLED: StopReason.CANCELLED, Status.FAILED: StopReason.ERROR}
    prompt_ids = tuple(range(5, 5 + 1 + len(config.prompt.text) // 4))
    return Trace(
        config=config,
        status=status,
        stop_reason=reasons.get(status, StopReason.LENGTH),
        prompt_ids=prompt_ids,
        text="".join(token.piece for step in steps for token in step.emitted),
        steps=steps,
        summary=_summary(steps, len(prompt_ids)),
        error=error or ("The device ran out of memory." if status is Status.FAILED else ""),
    )


def same(left: object, right: object) -> bool:
    """Whether two values of mars_core.types are equal, nan being equal to nan."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if is_dataclass(left) and type(left) is type(right):
        return all(same(getattr(left, field.name), getattr(right, field.name)) for field in fields(left))
    return type(left) is type(right) and left == right


def _place(config: RunConfig, branch: int, position: int, words: Sequence[str]) -> _Place:
    rng = random.Random(f"{config.seed}/{branch}/{position}")
    ids = tuple(rng.sample(range(len(words)), 5))
    z1 = rng.uniform(6.0, 22.0)
    r = rng.uniform(0.9, 0.999) if rng.random() < 0.3 else rng.uniform(0.3, 0.9)
    z1, r = (-z1 / 8, NAN) if rng.random() < 0.03 else (z1, r)
    gap = z1 * (1.0 - r) if r == r else 2.5
    weights = [1.0, math.exp(-gap)] + [math.exp(-gap - 1.0 - rank) for rank in range(3)]
    one_hot = config.sampling.temperature == 0.0
    probabilities = (1.0, 0.0, 0.0, 0.0, 0.0) if one_hot else tuple(w / sum(weights) for w in weights)
    u = rng.random()
    order = sorted(range(5), key=ids.__getitem__)
    borders = list(accumulate((probabilities[i] for i in order), initial=0.0))
    at = 0 if one_hot else next((n for n in range(5) if u < borders[n + 1]), 4)
    own = ids[0] if one_hot else ids[order[at]]
    edge = gap if one_hot else min(u - borders[at], abs(borders[at + 1] - u))
    guess = rng.random()
    draft = own if guess < 0.72 else ids[0] if guess < 0.82 else ids[1] if guess < 0.96 else ids[4]
    return _Place(ids, probabilities, z1, r, own, u, edge, draft)


def _token(place: _Place, token: int, outcome: Outcome, base: Token, words: Sequence[str], forgiven: float) -> Token:
    drafted = outcome in (*KEPT, Outcome.REJECTED)
    length = 0 if outcome is Outcome.REJECTED else len(words[token])
    r, z1 = place.r, place.z1
    gap = z1 * (1.0 - r) if r == r else 2.5
    return replace(
        base,
        outcome=outcome, id=token, piece=words[token], end=base.start + length,
        z1=z1, z2=z1 - gap, id1=place.ids[0], id2=place.ids[1], r=r, gap=gap, own=place.own, own_piece=words[place.own],
        p=place.p(token), q=0.5 if drafted else NAN, rank=place.ids.index(token) + 1,
        entropy=-sum(p * math.log(p) for p in place.probabilities if p > 0.0),
        forgiveness=forgiven, u=place.u, edge=place.edge, tv=forgiven * (1.0 - place.p(token)),
        top=tuple(Alternative(i, words[i], p) for i, p in zip(place.ids, place.probabilities, strict=True)),
    )  # fmt: skip


_BLANK = Token(
    0, 0, 0, Outcome.BONUS, 0, "", 0, 0, 0.0, 0.0, 0, 0, 0.0, 0.0, 0, "", 0.0, NAN, 1, 0.0, 0.0, 0.0, 0.0, 0.0, ()
)


def _steps(config: RunConfig, new_tokens: int, words: Sequence[str]) -> tuple[Step, ...]:
    steps: list[Step] = []
    position = start = branch = 0
    elapsed = PREFILL_S
    while position < new_tokens:
        drafted, tokens = [], []
        width = min(config.drafter.k, new_tokens - position - 1)
        for depth in range(1, width + 2):
            place = _place(config, branch, position, words)
            base = replace(_BLANK, position=position, step=len(steps), draft_position=depth, start=start)
            drafted += [place.draft] if depth <= width else []
            outcome, forgiven = _decide(config, place) if depth <= width else (Outcome.BONUS, 0.0)
            if outcome is Outcome.REJECTED:
                tokens.append(_token(place, place.draft, outcome, base, words, forgiven))
                outcome = Outcome.RECOVERED
            chosen = place.draft if outcome in KEPT else place.own
            tokens.append(_token(place, chosen, outcome, base, words, forgiven))
            position, start = position + 1, start + len(words[chosen])
            branch = position if outcome is Outcome.RELAXED else branch
            if outcome not in KEPT:
                break
        kept = sum(token.outcome in KEPT for token in tokens)
        drafted += [place.own] * (width - len(drafted))
        elapsed += DRAFT_S * width + VERIFY_S
        steps.append(Step(len(steps), width, kept, DRAFT_S * width, VERIFY_S, elapsed, tuple(drafted), tuple(tokens)))
    return tuple(steps)


def _decide(config: RunConfig, place: _Place) -> tuple[Outcome, float]:
    theta = config.rule.parameters.get("theta", math.inf)
    forgiven = 1.0 if place.r > theta and place.draft in place.ids[:2] else 0.0
    if place.draft == place.own:
        return Outcome.ACCEPTED, forgiven
    return (Outcome.RELAXED, forgiven) if forgiven else (Outcome.REJECTED, 0.0)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else NAN


def _summary(steps: Sequence[Step], prompt_tokens: int) -> Summary:
    tokens = [token for step in steps for token in step.tokens]
    count = {outcome: sum(token.outcome is outcome for token in tokens) for outcome in Outcome}
    new_tokens = len(tokens) - count[Outcome.REJECTED]
    drafted, kept = sum(step.drafted for step in steps), sum(step.kept for step in steps)
    wall = steps[-1].elapsed_s if steps else PREFILL_S
    widths = range(1, 1 + max((step.drafted for step in steps), default=0))
    return Summary(
        new_tokens=new_tokens,
        prompt_tokens=prompt_tokens,
        steps=len(steps),
        wall_s=wall,
        ttft_s=steps[0].elapsed_s if steps else NAN,
        prefill_s=PREFILL_S,
        draft_s=math.fsum(step.draft_s for step in steps),
        verify_s=math.fsum(step.verify_s for step in steps),
        tokens_per_s=new_tokens / wall,
        tau=_ratio(new_tokens, len(steps)),
        drafted=drafted,
        accepted=count[Outcome.ACCEPTED],
        relaxed=count[Outcome.RELAXED],
        rejected=drafted - kept,
        recovered=count[Outcome.RECOVERED],
        bonus=count[Outcome.BONUS],
        acceptance_rate=_ratio(kept, drafted),
        acceptance_by_position=tuple(
            _ratio(sum(step.kept >= i for step in steps), sum(step.drafted >= i for step in steps)) for i in widths
        ),
        relaxed_share=_ratio(count[Outcome.RELAXED], new_tokens),
        tv_sum=math.fsum(token.tv for token in tokens if token.outcome is not Outcome.REJECTED),
        peak_memory_bytes=1_234_567_890,
    )
