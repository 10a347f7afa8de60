"""Temperature 1: many short answers of a server against the log probabilities of its model.

docs/checking.md has the hypotheses, the statistics and their power.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from display.format import number, plural
from evaluation.lossless.draws import Draws, fit_p
from evaluation.lossless.values import (
    HELPS,
    Finding,
    LosslessVerdict,
    at_once,
    complete,
    continued,
    next_token,
)
from evaluation.served.answer import Answer
from evaluation.served.choice import TokenKey
from evaluation.served.client import Client, Prompt
from evaluation.statistics import holm

LEVEL = 0.001  # of all tests together
TOKENS = 3  # of every answer
ENOUGH = 5  # draws after the same beginning, for it to be tested
IMPOSSIBLE = 1e-6  # a probability; two draws of such tokens are evidence enough
RANKS = 3  # most probable tokens that are distinguished where all prompts are tested together
# Answers of a prompt that are compared with each other, their tokens, and the log probability below
# which two are not equal by chance.
REPEATS, LONG, RARE = 4, 32, -14.0
Beginning = tuple[TokenKey, ...]  # the first tokens of an answer


def sampled_findings(
    server: Client, judge: Client, prompts: Sequence[str], draws: int, seed: int
) -> list[Finding]:
    """``draws``: answers per prompt, each with a separate seed, from ``seed`` on; ``judge``: whose
    log probabilities are compared with. Raises ServerError."""
    if repeated := _repeated(server, prompts, seed):
        reason = f"{server.server.title} gives one answer of {LONG} tokens for several seeds to {repeated}."
        return [Finding("Temperature 1, a seed for every draw", LosslessVerdict.DUPLICATED, reason)]
    ours = drawn(server, prompts, draws, seed)
    least = LEVEL / (len(prompts) + 1)  # each prompt and all together
    rows = zip(prompts, ours, strict=True)
    read = [draws_of(judge, *each, seed) for each in rows]
    known = [each for each in read if each]
    title = "Temperature 1, against the log probabilities of the next token"
    left_out = ", ".join(str(number) for number, each in enumerate(read, 1) if not each)
    which = f"prompts {left_out}" if "," in left_out else f"prompt {left_out}"
    reason = f"The server does not identify every token, or report its log probability, after {which}: {HELPS}."
    if not known:
        return [Finding(title, LosslessVerdict.NOT_KNOWN, reason)]
    p = [fit_p(each, seed, least) for each in known]
    every = [table for each in known for table in each]
    if later := [_by_rank(each) for each in every if each.later]:
        p.append(fit_p(later, seed, least, pooled=True))
    impossible = sum(int(each.counts[each.expected < IMPOSSIBLE].sum()) for each in every)
    finding = _finding(title, draws, len(known), holm(p), impossible)
    return [replace(finding, reason=f"{finding.reason} {reason}") if left_out else finding]


def drawn(
    client: Client, prompts: Sequence[Prompt], draws: int, seed: int, tokens: int = TOKENS
) -> list[list[Answer]]:
    """Return the answers, by prompt."""

    def one(number: int) -> Answer:
        prompt = prompts[number // draws]
        return complete(client, prompt, tokens, 1.0, seed=seed + number, logprobs=1)

    title = f"Temperature 1, {client.server.role}, answers of {plural(tokens, 'token')}"
    answers = at_once(title, one, range(draws * len(prompts)))
    return [answers[start : start + draws] for start in range(0, len(answers), draws)]


def draws_of(
    judge: Client, prompt: Prompt, answers: Sequence[Answer], seed: int, length: int = TOKENS
) -> list[Draws]:
    """Return the draws of the first ``length`` tokens by beginning; none if the server does not
    identify every token, or the judge reports no log probabilities or identifies tokens
    otherwise."""
    observed: dict[Beginning, Counter[TokenKey]] = {}
    ended: set[Beginning] = set()
    for answer in answers:
        if (tokens := answer.names) is None:
            return []
        for at, token in enumerate(tokens[:length]):
            observed.setdefault(tokens[:at], Counter())[token] += 1
        ended |= {tokens} if len(tokens) < length else set()
    tested = [
        each
        for each, tokens_after in observed.items()
        if tokens_after.total() >= ENOUGH and each not in ended
    ]
    judged = at_once(
        f"Temperature 1, {judge.server.role}, log probabilities",
        lambda each: next_token(judge, prompt, answers[0], each, seed),
        tested,
    )
    found = []
    for beginning, logprobs in zip(tested, judged, strict=True):
        tokens_after = observed[beginning]
        valid = logprobs and all(
            value < 0.01 for value in logprobs.values()
        )  # rounding may exceed 0
        if not valid or len({type(name) for name in (*logprobs, *tokens_after)}) > 1:
            return []
        ranked = sorted(logprobs, key=lambda name: -logprobs[name])
        p = np.exp([*(logprobs[name] for name in ranked), -math.inf])
        p[-1] = max(0.0, 1 - p.sum())
        frequencies = [tokens_after.pop(name, 0) for name in ranked]
        counts = np.array([*frequencies, tokens_after.total()])
        found.append(Draws(counts, p / p.sum(), bool(beginning)))
    return found


def _by_rank(draws: Draws) -> Draws:
    """Return them for the RANKS most probable tokens, then all others together: [RANKS + 1]."""
    first = min(RANKS, len(draws.counts) - 1)
    nobody = [0] * (RANKS - first)
    counts, expected = (
        np.array([*column[:first], *nobody, column[first:].sum()])
        for column in (draws.counts, draws.expected)
    )
    return Draws(counts, expected)


def _repeated(client: Client, prompts: Sequence[str], seed: int) -> str:
    """Return for how many prompts an improbable answer was given for several seeds; empty where
    that is not so for most. A server that ignores the temperature after the first token also repeats
    itself, but goes on as at temperature 0: it has another distribution."""
    tested = repeated = 0
    for prompt, answers in zip(prompts, drawn(client, prompts, REPEATS, seed, LONG), strict=True):
        rare = [each for each in answers if each.names and _logprob(each) < RARE]
        tested += bool(rare)
        if twice := given_twice([each.names or () for each in rare]):
            answer = next(each for each in rare if each.names == twice)
            settings = {"max_tokens": LONG - 1, "temperature": 0.0}
            greedy = continued(client, prompt, answer, twice[:1], **settings)
            repeated += greedy is not None and not answer.text.endswith(greedy.text)
    return f"{repeated} of {plural(tested, 'prompt')}" if repeated > tested / 2 else ""


def given_twice(rare: Sequence[tuple[TokenKey, ...]]) -> tuple[TokenKey, ...]:
    """Return one of these improbable answers that was given twice; empty where none was."""
    return next((tokens for tokens, number in Counter(rare).items() if number > 1), ())


def _logprob(answer: Answer) -> float:
    """Return at most the sum of the log probabilities that are known."""
    return math.fsum(each.logprob for each in answer.logprobs or () if each.logprob < 0)


def _finding(
    title: str, draws: int, prompts: int, adjusted: Sequence[float], impossible: int = 0
) -> Finding:
    """``adjusted``: p after Holm's correction, first of each prompt, then of all together."""
    p, differ = min(adjusted), sum(each < LEVEL for each in adjusted[:prompts])
    level = f"at the level {LEVEL:g} of {plural(len(adjusted), 'test')} together"
    sample = f"{draws} answers of {TOKENS} tokens to each of {plural(prompts, 'prompt')}"
    if p >= LEVEL and impossible < 2:
        return Finding(
            title,
            LosslessVerdict.LOSSLESS,
            f"{sample} have the expected distribution {level} (smallest p {number(p)}).",
            p,
        )
    reasons = []
    if p < LEVEL:
        reasons.append(f"another distribution {level}, {differ} of {prompts} prompts by themselves")
    if impossible:
        reasons.append(f"{plural(impossible, 'token')} of probability below {IMPOSSIBLE:g}")
    return Finding(title, LosslessVerdict.NOT_LOSSLESS, f"{sample}: {' and '.join(reasons)}.", p)
