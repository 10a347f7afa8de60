"""Temperature 1: many short answers of a server against the log probabilities of its model, and against another server's answers.

docs/checking.md has the hypotheses, the statistics and their power.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evaluation.format import number, plural
from evaluation.lossless.values import Finding, Verdict, ask, at_once, continued, tokens_of
from evaluation.served.answer import Answer
from evaluation.served.client import Client
from evaluation.statistics import Array, Counts, Places, fit_p, holm, same_p

LEVEL = 0.001  # of all tests together
TOKENS = 3  # of every answer
TOP = 20  # alternatives whose probability is asked for
ENOUGH = 5  # draws after the same beginning, for it to be tested
IMPOSSIBLE = 1e-6  # a probability; two draws of such tokens are evidence enough
BY_ID = {"return_tokens_as_token_ids": True}  # vLLM: tokens are named by id, not by a text that several may share
Beginning = tuple[str, ...]  # the first tokens of an answer


class Fit(NamedTuple):
    """The draws of one prompt against the log probabilities: p, and the number of impossible tokens."""

    p: float
    impossible: int


def sampled_findings(
    server: Client, reference: Client | None, prompts: Sequence[str], draws: int, seed: int
) -> list[Finding]:
    """``draws``: answers per prompt and server, each with a seed of its own, from ``seed`` on. Raises ServerError."""
    ours = _sample(server, prompts, draws, seed)
    theirs = _sample(reference, prompts, draws, seed + draws * len(prompts)) if reference else []
    fits = [_fit(reference or server, *each, seed) for each in zip(prompts, ours, strict=True)]
    known = [fit for fit in fits if fit is not None]
    pairs = [_same(*pair, seed) for pair in zip(ours, theirs, strict=True)] if reference else []
    adjusted = holm([*(fit.p for fit in known), *pairs])
    title = "Temperature 1, against the log probabilities of the next token"
    if known:
        findings = [_finding(title, draws, adjusted[: len(known)], sum(fit.impossible for fit in known))]
    else:
        verdict = Verdict.NOT_TESTED if reference else Verdict.NOT_KNOWN
        findings = [
            Finding(title, verdict, "The server does not report log probabilities under the names of its tokens.")
        ]
    if reference:
        findings.append(_finding("Temperature 1, against the other server", draws, adjusted[len(known) :]))
    return findings


def _sample(client: Client, prompts: Sequence[str], draws: int, seed: int) -> list[list[Answer]]:
    """The answers, by prompt."""

    def one(place: int) -> Answer:
        return ask(client, prompts[place // draws], TOKENS, 1.0, seed=seed + place, logprobs=1, **BY_ID)

    answers = at_once(one, range(draws * len(prompts)))
    return [answers[start : start + draws] for start in range(0, len(answers), draws)]


def _fit(judge: Client, prompt: str, answers: Sequence[Answer], seed: int) -> Fit | None:
    """None if the judge reports no log probabilities, or names tokens otherwise than the server."""
    counts: dict[Beginning, Counter[str]] = {}
    sources: dict[Beginning, Answer] = {}
    ended: set[Beginning] = set()
    for answer in answers:
        tokens = tokens_of(answer)
        for place, token in enumerate(tokens[:TOKENS]):
            counts.setdefault(tokens[:place], Counter())[token] += 1
            sources[tokens[:place]] = answer
        ended |= {tokens} if len(tokens) < TOKENS else set()
    tested = [each for each, found in counts.items() if found.total() >= ENOUGH and each not in ended]

    def next_token(beginning: Beginning) -> dict[str, float]:
        text = continued(prompt, sources[beginning], len(beginning))
        position = (ask(judge, text, 1, 1.0, seed=seed, logprobs=TOP, **BY_ID).logprobs or (None,))[0]
        return {} if position is None else {position.token: position.logprob} | dict(position.top)

    tables: list[Counts] = []
    expected: list[Array] = []
    for beginning, logprobs in zip(tested, at_once(next_token, tested), strict=True):
        found = counts[beginning]
        if not logprobs or {_by_id(name) for name in (*logprobs, *found)} == {True, False}:
            return None
        p = np.exp([*logprobs.values(), -math.inf])
        p[-1] = max(0.0, 1 - p.sum())
        seen = [found.pop(name, 0) for name in logprobs]
        tables.append(np.array([*seen, found.total()]))
        expected.append(p / p.sum())
    impossible = sum(int(table[p < IMPOSSIBLE].sum()) for table, p in zip(tables, expected, strict=True))
    return Fit(fit_p(tables, expected, seed), impossible) if tables else None


def _by_id(name: str) -> bool:
    return name.startswith("token_id:")


def _same(ours: Sequence[Answer], theirs: Sequence[Answer], seed: int) -> float:
    """p of the hypothesis that both servers continue the same first token alike: the draws of one prompt. Without tokens, whole texts
    are compared."""
    answers = [*ours, *theirs]
    named = all(answer.logprobs or answer.token_ids for answer in answers)
    rows = [tokens_of(answer) if named else ("", answer.text) for answer in answers]
    both = [(*row[:TOKENS], *["end"] * TOKENS)[:TOKENS] for row in rows]
    columns = [_numbered([tokens[:length] for tokens in both]) for length in range(1, TOKENS + 1)]
    return same_p(columns[0], columns[1:], np.repeat([0, 1], [len(ours), len(theirs)]), seed)


def _numbered(beginnings: Sequence[Beginning]) -> Places:
    """The number of each beginning among the different ones."""
    numbers = {beginning: place for place, beginning in enumerate(dict.fromkeys(beginnings))}
    return np.array([numbers[beginning] for beginning in beginnings])


def _finding(title: str, draws: int, adjusted: Sequence[float], impossible: int = 0) -> Finding:
    """``adjusted``: p by prompt after Holm's correction."""
    p, differ = min(adjusted), sum(each < LEVEL for each in adjusted)
    sample = f"{draws} answers of {TOKENS} tokens to each of {plural(len(adjusted), 'prompt')}"
    if not differ and impossible < 2:
        return Finding(title, Verdict.LOSSLESS, f"{sample} have the expected distribution (smallest p {number(p)}).", p)
    reasons = [f"{plural(differ, 'prompt')} with another distribution (smallest p {number(p)})"] if differ else []
    reasons += [f"{plural(impossible, 'token')} of probability below {IMPOSSIBLE:g}"] if impossible else []
    return Finding(title, Verdict.NOT_LOSSLESS, f"{sample}: {' and '.join(reasons)}.", p)
