"""Temperature 1: many answers after the same beginnings, whose first tokens have a joint distribution.
A wrong block rule or residual changes little in every answer, and shows only here."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from display.format import count, percent, plural, probability
from evaluation.lossless.draws import Draws, fit_p
from evaluation.lossless.law import FOUND
from evaluation.lossless.sampled import LEVEL, drawn, draws_of
from evaluation.lossless.values import Finding, LosslessVerdict, at_once, extended, next_token
from evaluation.served.answer import Answer
from evaluation.served.client import Client, Prompt

TITLE = "Temperature 1, the first tokens together"
BEGINNINGS = 4
TOKENS = 4  # of an answer that are tested together
SCORED = 16  # tokens of an answer of temperature 0 among which the beginning is chosen
ASKED = 6  # tokens of an answer: some servers draft no more than are still to be written
RARE = 2.0  # draws that are expected of a token, below which it is counted with the others
MOST = 0.5  # share of the probability that can be moved from one half of the tokens to the other


def beginnings(
    judge: Client, prompts: Sequence[Prompt], answers: Sequence[Answer], seed: int
) -> list[Prompt]:
    """Return the prompts with the beginnings of these answers of temperature 0 after which the next
    token, which has no draft, is the surest and the two drafted ones after it are the least sure;
    none of an answer without the names and log probabilities of its tokens. Those that are not
    reported, as llama.cpp's of accepted drafts, are asked of ``judge``. Raises ServerDown."""
    found: list[tuple[float, Prompt]] = []
    rows = [(*row, row[1].names) for row in zip(prompts, answers, strict=True) if row[1].logprobs]
    known = [(prompt, answer, names) for prompt, answer, names in rows if names]
    reported = [[at.logprob for at in answer.logprobs or ()][:SCORED] for _, answer, _ in known]
    missing = [
        (row, at) for row, each in enumerate(reported) for at, p in enumerate(each) if math.isnan(p)
    ]

    def asked(place: tuple[int, int]) -> float:
        row, at = place
        prompt, answer, names = known[row]
        return next_token(judge, prompt, answer, names[:at], seed).get(names[at], -math.inf)

    title = f"Temperature 0, {judge.server.role}, log probabilities" if missing else ""
    for (row, at), logprob in zip(missing, at_once(title, asked, missing), strict=True):
        reported[row][at] = logprob
    for (prompt, answer, names), logprobs in zip(known, reported, strict=True):
        p = np.exp(logprobs)
        doubt = p * (1 - p)
        worth = p[:-2] * (doubt[1:-1] + p[1:-1] * doubt[2:])
        at = int(worth.argmax()) if len(worth) else 0
        begun = extended(prompt, answer, names[:at])
        if begun is not None and len(worth):
            found.append((float(worth[at]), begun))
    best = sorted(found, key=lambda each: -each[0])[:BEGINNINGS]
    return [begun for worth, begun in best if worth > 0]


def together(
    server: Client,
    judge: Client,
    prompts: Sequence[Prompt],
    answers: Sequence[Answer],
    repeats: int,
    seed: int,
) -> Finding:
    """``answers``: of temperature 0, to the prompts; ``judge``: whose log probabilities of requests
    for one token are expected. Raises ServerError."""
    begun = beginnings(judge, prompts, answers, seed)
    rows = zip(begun, drawn(server, begun, repeats, seed, ASKED), strict=True)
    known = [each for row in rows if (each := draws_of(judge, *row, seed, TOKENS))]
    if not known:
        reason = "The server does not identify tokens with their log probabilities."
        return Finding(TITLE, LosslessVerdict.NOT_TESTED, reason)
    every = [table for each in known for table in each]
    tables = [_common(each) for each in every]
    p = fit_p(tables, seed, LEVEL)
    reason = (
        f"{count(repeats)} answers after each of {plural(len(known), 'beginning')}: their first "
        f"{TOKENS} tokens have {{}} joint distribution, p {probability(p)} at the level {LEVEL:g}."
    )
    if p < LEVEL:
        cause = "A wrong block rule or residual, where no other check names a cause."
        text = f"{reason.format('another')} {cause}"
        return Finding(TITLE, LosslessVerdict.NOT_LOSSLESS, text, p)
    drafted = sum(int(each.counts.sum()) for each in every if each.later)
    share = found(sum(len(each.counts) - 1 for each in tables), drafted)
    power = (
        (
            f"With probability {FOUND} a block rule or residual that moves {percent(share)} of the "
            "probability of every drafted token would have been found; four times as many answers "
            "(--repeats) find half of that."
        )
        if share < MOST
        else ""
    )
    text = reason.format("the expected")
    return Finding(TITLE, LosslessVerdict.LOSSLESS, text, p, power)


def _common(draws: Draws) -> Draws:
    """Count the tokens of which less than RARE draws are expected with the others."""
    counts, p, _ = draws
    apart = int((p[:-1] * counts.sum() >= RARE).sum())
    common = np.array([*p[:apart], p[apart:].sum()])
    return Draws(np.array([*counts[:apart], counts[apart:].sum()]), common / common.sum())


def found(freedom: int, tokens: int) -> float:
    """Return the least share of the probability, moved at each of so many tokens from one half of
    the continuations to the other, that the test finds with probability FOUND: χ² is 4 share² a
    token."""
    if not freedom or not tokens:
        return math.inf
    needed = chi2.isf(LEVEL, freedom)
    least = brentq(lambda far: ncx2.sf(needed, freedom, far) - FOUND, 1e-3, 10 * needed + 100)
    return math.sqrt(least / tokens) / 2
