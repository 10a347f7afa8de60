"""Temperature 0: the tokens of a server against its own, against another server's and against the
target's log probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from display.format import number, plural, visible
from evaluation.lossless.rounds import TOKENS, Difference, Rounds
from evaluation.lossless.sampled import sampled_findings
from evaluation.lossless.together import together
from evaluation.lossless.values import CUT, HELPS, Finding, LosslessVerdict, next_token
from evaluation.served.answer import Answer
from evaluation.served.client import Client
from evaluation.served.server import COMPLETIONS, ServerError

EXCERPT = 20  # characters
# Gap, in nats, of two tokens that rounding may swap: one step of bfloat16 for logits of
# 16 to 32. A server whose own repeats move gaps further has a larger one, up to MOST_TIE; what
# moves further is not rounding.
TIE, MOST_TIE = 0.125, 0.5


class Greedy:
    """The rounds of a server without a reference, against its first answers. Raises ServerError."""

    def __init__(
        self, server: Client, other: Client | None, prompts: Sequence[str], in_flight: int
    ) -> None:
        self._server, self._other, self._prompts = server, other, prompts
        self._first: list[Answer] = []
        self.rounds = Rounds(server, prompts, self._against_first)
        self._first = self.rounds.ask(1)
        self._tie = tie_of(self._first, self.rounds.ask(in_flight))

    def drawn(self, draws: int, repeats: int, seed: int) -> list[Finding]:
        """Raises ServerError."""
        judge = self._other or self._server
        found = sampled_findings(self._server, judge, self._prompts, draws, seed)
        if found[0].verdict is not LosslessVerdict.DUPLICATED:
            found.append(together(self._server, judge, self._prompts, self._first, repeats, seed))
        return found

    def findings(self) -> list[Finding]:
        """Raises ServerError."""
        found = [each for row in self.rounds[1:] for each in row.found]
        title = f"Temperature 0, repeated, {plural(len(self.rounds), 'round')}"
        findings = [_finding(title, found, self._tie, self.rounds.when(self._tie))]
        if self._other:
            expected = Rounds(self._other, self._prompts, lambda *_: None).ask(1)
            rows = enumerate(zip(self._prompts, expected, self._first, strict=True))
            compared = [difference(self._other, number, *row) for number, row in rows]
            title = "Temperature 0, against the other server"
            findings.append(_finding(title, compared, self._tie))
        title = "Temperature 0, against the log probabilities of the text"
        try:
            judge = self._other or self._server
            scored = [_scored(judge, *each) for each in enumerate(self._first)]
        except (ServerError, LookupError, TypeError, ValueError, AttributeError):
            reason = (
                "The server does not report token ids and the log probabilities of a prompt (echo)."
            )
            return [*findings, Finding(title, LosslessVerdict.NOT_TESTED, reason)]
        return [*findings, _finding(title, scored, self._tie)]

    def _against_first(self, number: int, answer: Answer) -> Difference | None:
        if not self._first:
            return None
        return difference(self._server, number, self._prompts[number], self._first[number], answer)


def tie_of(answers: Sequence[Answer], again: Sequence[Answer]) -> float:
    """Return the largest gap that rounding can close: as far as the gap of two tokens moved between
    two answers while these were equal."""
    largest = TIE
    for one, other in zip(answers, again, strict=True):
        for here, there in zip(one.logprobs or (), other.logprobs or (), strict=False):
            if here.key is None or here.key != there.key:
                break
            values = {each.key: each.logprob for each in there.top}
            moved = [each.logprob - values[each.key] for each in here.top if each.key in values]
            largest = max(largest, max(moved) - min(moved)) if moved else largest
    return min(largest, MOST_TIE)


def difference(
    judge: Client, number: int, prompt: str, expected: Answer, actual: Answer
) -> Difference | None:
    """Return the first token that differs, with the gap of both by ``judge``; the first character
    where not every token is identified; None where all are equal."""
    texts = [answer.text.rstrip(CUT) for answer in (expected, actual)]
    start, unit, gap = _first(*texts), "character", math.nan
    at = start
    if expected.names and actual.names:
        at, unit = _first(expected.names, actual.names), "token"
    if at is None:
        return None
    if expected.names and actual.names and at < min(len(expected.names), len(actual.names)):
        p = next_token(judge, prompt, expected, expected.names[:at], 0)
        ours = actual.names[at]
        least = abs(
            p.get(expected.names[at], math.nan) - p.get(ours, min(p.values(), default=math.nan))
        )
        gap = (
            least if ours in p or least > MOST_TIE else math.nan
        )  # of a token beyond the alternatives the gap is larger
    wanted, token = (text[start : (start or 0) + EXCERPT] or "the end" for text in texts)
    return _difference(number, f"{unit} {at + 1}", token, wanted, gap)


def _difference(number: int, position: str, token: str, wanted: str, gap: float) -> Difference:
    return Difference(
        gap, f"prompt {number + 1}, {position}: {visible(token)} for {visible(wanted)}"
    )


def _first(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """Return the first index at which two sequences differ."""
    return next((at for at, pair in enumerate(zip_longest(one, other)) if pair[0] != pair[1]), None)


def _scored(judge: Client, prompt: int, answer: Answer) -> Difference | None:
    """Return the token of an answer with the largest gap to the most probable one, by the log
    probabilities that a pass over the full text gives; None if every token is the most probable
    one. Raises ServerError, LookupError, TypeError, ValueError or AttributeError if the server does
    not report them."""
    if not answer.prompt_ids or not answer.token_ids:
        raise LookupError("The server does not report token ids.")
    start, end = len(answer.prompt_ids), len(answer.prompt_ids) + len(answer.token_ids)
    body = {
        "model": judge.server.model,
        "prompt": [*answer.prompt_ids, *answer.token_ids],
        "max_tokens": 1,
    }
    response = judge.post(
        COMPLETIONS, body | {"echo": True, "logprobs": 1, "temperature": 0.0}, optional=()
    )
    logprobs, rows = response["choices"][0]["logprobs"], []
    for at in range(start, end):
        best, top = max(logprobs["top_logprobs"][at].items(), key=lambda item: float(item[1]))
        gap = float(top) - float(logprobs["token_logprobs"][at])
        token = str(logprobs["tokens"][at])
        rows.append(_difference(prompt, f"token {at - start + 1}", token, str(best), gap))
    worst = max(rows)
    return worst if worst.gap > 0 else None


def _finding(
    title: str, compared: Sequence[Difference | None], tie: float, when: str = ""
) -> Finding:
    differences = [each for each in compared if each is not None]
    real = [each for each in differences if not each.gap <= tie]
    if not differences:
        return Finding(
            title,
            LosslessVerdict.LOSSLESS,
            f"All {len(compared)} answers of up to {TOKENS} tokens agree.",
        )
    known = [each for each in real or differences if not math.isnan(each.gap)]
    example = (known or real)[0]
    gap = f"log probability gap {number(example.gap)} nats" if known else "gap not known"
    reason = (
        f"{len(differences)} of {len(compared)} answers of up to {TOKENS} tokens differ, {len(real)} "
        f"by more than the {tie:.3g} nats that rounding can reverse: {example.where}, {gap}. {when}"
    ).strip()
    if not real:
        return Finding(title, LosslessVerdict.LOSSLESS, reason)
    if known:
        return Finding(title, LosslessVerdict.NOT_LOSSLESS, reason)
    helps = f"The server reports no log probability of these tokens: {HELPS}."
    return Finding(title, LosslessVerdict.NOT_KNOWN, f"{reason} {helps}")
