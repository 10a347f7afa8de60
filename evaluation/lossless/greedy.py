"""Temperature 0: the tokens of a server against its own, against another server's and against the target's log probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from evaluation.format import number, plural, visible
from evaluation.lossless.values import Finding, Verdict, ask, at_once, tokens_of
from evaluation.served.answer import Answer
from evaluation.served.client import COMPLETIONS, Client, ServerError

TOKENS = 64  # of every answer
TOP = 5  # log probabilities per token
# Largest gap, in nats, of two tokens that may change places by rounding: one step of bfloat16 for logits of 16 to 32.
TIE = 0.125


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token of ``prompt`` (0-based number) that differs: position, both tokens, and how much more probable the expected one is
    (nats; at least ``gap``, nan if the server does not tell)."""

    prompt: int
    position: int
    token: str
    expected: str
    gap: float

    @property
    def tie(self) -> bool:
        return self.gap <= TIE

    def __str__(self) -> str:
        gap = f"log probability gap {number(self.gap)}" if not math.isnan(self.gap) else "gap not known"
        return f"prompt {self.prompt + 1}, token {self.position + 1}: {visible(self.token)} for {visible(self.expected)}, {gap}"


def greedy_findings(server: Client, reference: Client | None, prompts: Sequence[str]) -> list[Finding]:
    """Raises ServerError."""

    def one(client: Client, prompt: str) -> Answer:
        return ask(client, prompt, TOKENS, 0.0, logprobs=TOP)

    def against(title: str, expected: Sequence[Answer]) -> Finding:
        pairs = enumerate(zip(expected, answers, strict=True))
        return _finding(f"Temperature 0, {title}", [difference(number, *pair) for number, pair in pairs])

    answers = [one(server, prompt) for prompt in prompts]
    findings = [against("repeated, all prompts at once", at_once(lambda prompt: one(server, prompt), prompts))]
    if reference:
        findings.append(against("against the other server", [one(reference, prompt) for prompt in prompts]))
    title = "Temperature 0, against the log probabilities of the text"
    try:
        scored = [_scored(reference or server, number, answer) for number, answer in enumerate(answers)]
    except (ServerError, LookupError, TypeError, ValueError, AttributeError):
        reason = "The server does not report token ids and the log probabilities of a prompt (echo)."
        return [*findings, Finding(title, Verdict.NOT_TESTED, reason)]
    return [*findings, _finding(title, scored)]


def difference(prompt: int, expected: Answer, found: Answer) -> Difference | None:
    """The first token that differs; None where all are equal."""
    whole = bool(expected.token_ids and found.token_ids)
    ours, theirs = ((each.token_ids or ()) if whole else tokens_of(each) for each in (found, expected))
    at = next((at for at, pair in enumerate(zip_longest(ours, theirs)) if pair[0] != pair[1]), None)
    if at is None:
        return None
    token, wanted = ((*tokens_of(each), *["the end"] * (at + 1))[at] for each in (found, expected))
    gap = math.nan
    if expected.logprobs and at < len(expected.logprobs) and at < len(ours) and token != wanted:
        position = expected.logprobs[at]
        values = dict(position.top)
        least = position.logprob - min(values.values(), default=math.nan)  # of a token that is not listed
        gap = position.logprob - values[token] if token in values else least if least > TIE else math.nan
    return Difference(prompt, at, token, wanted, gap)


def _scored(judge: Client, prompt: int, answer: Answer) -> Difference | None:
    """The token of an answer with the largest gap to the most probable one, by the log probabilities that a pass over the whole text
    gives; None if every token is the most probable one. Raises ServerError, LookupError, TypeError, ValueError or AttributeError if the
    server does not report them."""
    if not answer.prompt_ids or not answer.token_ids:
        raise LookupError("The server does not report token ids.")
    start, end = len(answer.prompt_ids), len(answer.prompt_ids) + len(answer.token_ids)
    body = {"model": judge.server.model, "prompt": [*answer.prompt_ids, *answer.token_ids], "max_tokens": 1}
    found = judge.post(COMPLETIONS, body | {"echo": True, "logprobs": 1, "temperature": 0.0}, optional=())
    logprobs, rows = found["choices"][0]["logprobs"], []
    for at in range(start, end):
        best, top = max(logprobs["top_logprobs"][at].items(), key=lambda item: float(item[1]))
        gap = float(top) - float(logprobs["token_logprobs"][at])
        rows.append(Difference(prompt, at - start, str(logprobs["tokens"][at]), str(best), gap))
    worst = max(rows, key=lambda row: row.gap)
    return worst if worst.gap > 0 else None


def _finding(title: str, found: Sequence[Difference | None]) -> Finding:
    differences = [each for each in found if each is not None]
    real = [each for each in differences if not each.tie]
    count = f"{plural(len(real or differences), 'answer')} of {len(found)}"
    if not differences:
        return Finding(title, Verdict.LOSSLESS, f"All {len(found)} answers of up to {TOKENS} tokens agree.")
    if not real:
        ties = f"{count} differ only by numeric ties, gaps of at most {TIE:g} nats, which rounding can reverse"
        return Finding(title, Verdict.LOSSLESS, f"{ties}; {max(differences, key=lambda each: each.gap)}.")
    known = [each for each in real if not math.isnan(each.gap)]
    verdict = Verdict.NOT_LOSSLESS if known else Verdict.NOT_KNOWN
    return Finding(title, verdict, f"{count} differ; {(known or real)[0]}.")
