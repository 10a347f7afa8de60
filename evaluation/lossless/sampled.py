"""Temperature 1: many short answers of a server against the log probabilities of its model, and
against another server's answers.

docs/checking.md has the hypotheses, the statistics and their power.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from display.format import number, plural
from evaluation.lossless.draws import fit_p, same_p
from evaluation.lossless.values import (
    AGAINST,
    CUT,
    Finding,
    LosslessVerdict,
    at_once,
    complete,
    continued,
    next_token,
)
from evaluation.served.answer import Answer, TokenKey
from evaluation.served.client import Client
from evaluation.statistics import Array, Counts, Indices, holm

LEVEL = 0.001  # of all tests together
TOKENS = 3  # of every answer
ENOUGH = 5  # draws after the same beginning, for it to be tested
IMPOSSIBLE = 1e-6  # a probability; two draws of such tokens are evidence enough
RANKS = 3  # most probable tokens that are distinguished where all prompts are tested together
# Answers of a prompt that are compared with each other, their tokens, and the log probability below
# which two are not equal by chance.
REPEATS, LONG, RARE = 4, 32, -14.0
Beginning = tuple[TokenKey, ...]  # the first tokens of an answer


class SampleFit(NamedTuple):
    """The draws of one prompt against the log probabilities: p, the number of impossible tokens,
    and the draws after a first token by rank: how often each was drawn after one beginning, and its
    probabilities."""

    p: float
    impossible: int
    counts: list[Counts]
    expected: list[Array]


def sampled_findings(
    server: Client, reference: Client | None, prompts: Sequence[str], draws: int, seed: int
) -> list[Finding]:
    """``draws``: answers per prompt and server, each with a separate seed, from ``seed`` on.
    Raises ServerError."""
    for client in filter(None, (server, reference)):
        if repeated := _repeated(client, prompts, seed):
            reason = f"{client.server.title} gives one answer of {LONG} tokens for several seeds to {repeated}."
            return [
                Finding("Temperature 1, a seed for every draw", LosslessVerdict.DUPLICATED, reason)
            ]
    ours = _drawn(server, prompts, draws, seed)
    theirs = _drawn(reference, prompts, draws, seed + draws * len(prompts)) if reference else []
    # each prompt and all together, against the log probabilities and against the other server
    least = LEVEL / ((len(prompts) + 1) * (2 if reference else 1))
    judge = reference or server
    fits = [_fit(judge, *each, seed, least) for each in zip(prompts, ours, strict=True)]
    known = [fit for fit in fits if fit is not None]
    counts = [table for fit in known for table in fit.counts]
    expected = [p for fit in known for p in fit.expected]
    fitted = [
        *(fit.p for fit in known),
        *([fit_p(counts, expected, seed, least, pooled=True)] if counts else []),
    ]
    same = _same(ours, theirs, seed, least) if reference else []
    adjusted = holm([*fitted, *same])
    title = "Temperature 1, against the log probabilities of the next token"
    left_out = ", ".join(str(number) for number, fit in enumerate(fits, 1) if fit is None)
    reason = f"The server does not identify every token, or report its log probability, after prompts {left_out}"
    reason += "." if reference else f": {AGAINST}."
    findings = [
        Finding(
            title, LosslessVerdict.NOT_TESTED if reference else LosslessVerdict.NOT_KNOWN, reason
        )
    ]
    if known:
        finding = _finding(
            title, draws, len(known), adjusted[: len(fitted)], sum(fit.impossible for fit in known)
        )
        findings = [replace(finding, reason=f"{finding.reason} {reason}") if left_out else finding]
    if reference:
        title = "Temperature 1, against the other server"
        findings.append(_finding(title, draws, len(prompts), adjusted[len(fitted) :]))
    return findings


def _drawn(
    client: Client, prompts: Sequence[str], draws: int, seed: int, tokens: int = TOKENS
) -> list[list[Answer]]:
    """Return the answers, by prompt."""

    def one(number: int) -> Answer:
        prompt = prompts[number // draws]
        return complete(client, prompt, tokens, 1.0, seed=seed + number, logprobs=1)

    title = f"Temperature 1, {client.server.role}, answers of {plural(tokens, 'token')}"
    answers = at_once(title, one, range(draws * len(prompts)))
    return [answers[start : start + draws] for start in range(0, len(answers), draws)]


def _fit(
    judge: Client, prompt: str, answers: Sequence[Answer], seed: int, least: float
) -> SampleFit | None:
    """Return the fit; None if the server does not identify every token, or the judge reports no log
    probabilities or identifies tokens otherwise."""
    counts: dict[Beginning, Counter[TokenKey]] = {}
    sources: dict[Beginning, Answer] = {}
    ended: set[Beginning] = set()
    for answer in answers:
        if (tokens := answer.names) is None:
            return None
        for length, token in enumerate(tokens[:TOKENS]):
            counts.setdefault(tokens[:length], Counter())[token] += 1
            sources[tokens[:length]] = answer
        ended |= {tokens} if len(tokens) < TOKENS else set()
    tested = [
        each
        for each, observed in counts.items()
        if observed.total() >= ENOUGH and each not in ended
    ]
    tables: list[Counts] = []
    expected: list[Array] = []
    judged = at_once(
        f"Temperature 1, {judge.server.role}, log probabilities",
        lambda each: next_token(judge, prompt, sources[each], len(each), seed),
        tested,
    )
    for beginning, logprobs in zip(tested, judged, strict=True):
        observed = counts[beginning]
        valid = logprobs and all(
            value < 0.01 for value in logprobs.values()
        )  # rounding may exceed 0
        if not valid or len({type(name) for name in (*logprobs, *observed)}) > 1:
            return None
        ranked = sorted(logprobs, key=lambda name: -logprobs[name])
        p = np.exp([*(logprobs[name] for name in ranked), -math.inf])
        p[-1] = max(0.0, 1 - p.sum())
        frequencies = [observed.pop(name, 0) for name in ranked]
        tables.append(np.array([*frequencies, observed.total()]))
        expected.append(p / p.sum())
    impossible = sum(
        int(table[p < IMPOSSIBLE].sum()) for table, p in zip(tables, expected, strict=True)
    )
    later = [at for at, beginning in enumerate(tested) if beginning]
    ranks = ([_by_rank(rows[at]) for at in later] for rows in (tables, expected))
    return SampleFit(fit_p(tables, expected, seed, least), impossible, *ranks) if tables else None


def _by_rank(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of the RANKS most probable tokens, then of all others together: [RANKS + 1]
    from [C], whose last one is a rest."""
    first = values[:-1][:RANKS]
    return np.array([*first, *[0] * (RANKS - len(first)), values[len(first) :].sum()])


def _same(
    ours: Sequence[Sequence[Answer]], theirs: Sequence[Sequence[Answer]], seed: int, least: float
) -> list[float]:
    """p of the hypothesis that both servers continue the same first token alike: by prompt, and of
    all prompts together, by the rank of the second token. Full texts are compared for a prompt
    where not every token is identified."""
    rows = [row for pair in zip(ours, theirs, strict=True) for row in _rows([*pair[0], *pair[1]])]
    draws, each = len(ours[0]), 2 * len(ours[0])
    second = np.repeat([0, 1], draws)
    begun = [
        (str(index // each), *row[:TOKENS], *["end"] * TOKENS)[: TOKENS + 1]
        for index, row in enumerate(rows)
    ]
    strata, *columns = (
        _numbered([row[:length] for row in begun]) for length in range(2, TOKENS + 2)
    )
    parts = [slice(start, start + each) for start in range(0, len(rows), each)]
    tests = [
        same_p(
            _numbered(strata[part]),
            [_numbered(column[part]) for column in columns],
            second,
            seed,
            least,
        )
        for part in parts
    ]
    both = np.tile(second, len(parts))
    return [*tests, same_p(strata, [_ranks(strata, columns[0])], both, seed, least)]


def _rows(answers: Sequence[Answer]) -> list[tuple[Any, ...]]:
    """Return the draws of both servers for one prompt."""
    names = [answer.names for answer in answers if answer.names]
    if len(names) == len(answers) and len({type(name) for row in names for name in row}) == 1:
        return [*names]
    return [("", answer.text.rstrip(CUT)) for answer in answers]


def _repeated(client: Client, prompts: Sequence[str], seed: int) -> str:
    """Return for how many prompts an improbable answer was given for several seeds; empty where
    that is not so for most. A server that ignores the temperature after the first token also repeats
    itself, but goes on as at temperature 0: it has another distribution."""
    tested = repeated = 0
    for prompt, answers in zip(prompts, _drawn(client, prompts, REPEATS, seed, LONG), strict=True):
        drawn = [each for each in answers if each.names and _logprob(each) < RARE]
        twice = [
            each
            for at, each in enumerate(drawn)
            if each.names in [other.names for other in drawn[:at]]
        ]
        greedy = (
            continued(client, prompt, twice[0], 1, max_tokens=LONG - 1, temperature=0.0)
            if twice
            else None
        )
        tested += bool(drawn)
        repeated += greedy is not None and not twice[0].text.endswith(greedy.text)
    return f"{repeated} of {plural(tested, 'prompt')}" if repeated > tested / 2 else ""


def _logprob(answer: Answer) -> float:
    """Return at most the sum of the log probabilities that are known."""
    return math.fsum(each.logprob for each in answer.logprobs or () if each.logprob < 0)


def _numbered(values: Sequence[Any] | Indices) -> Indices:
    """Return the number of each value among the different ones."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values])


def _ranks(strata: Indices, tokens: Indices) -> Indices:
    """Return the rank of each draw's token among those of its stratum, by how often both servers
    drew it; RANKS for all others."""
    counts = np.bincount(tokens)
    order = sorted(
        dict.fromkeys(zip(strata.tolist(), tokens.tolist(), strict=True)),
        key=lambda pair: -counts[pair[1]],
    )
    used: Counter[int] = Counter()
    rank: dict[int, int] = {}
    for stratum, token in order:
        rank[token] = min(used[stratum], RANKS)
        used[stratum] += 1
    return np.array([rank[token] for token in tokens.tolist()])


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
