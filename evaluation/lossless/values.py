"""What the checks of a server find, and the servers under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from evaluation.served.answer import Answer
from evaluation.served.client import Client

AT_ONCE = 8  # requests
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Verdict(StrEnum):
    """The result of a check, and of all checks together."""

    LOSSLESS = "lossless as far as tested"
    NOT_LOSSLESS = "not lossless"
    NOT_KNOWN = "not known"
    NOT_TESTED = "not tested"  # the server does not report what the check needs


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its title, its verdict and why, in one or two sentences. ``p``: the smallest p of a test after Holm's correction."""

    check: str
    verdict: Verdict
    reason: str
    p: float | None = None


def overall(findings: Sequence[Finding]) -> Verdict:
    """Not lossless if any check says so; else not known if any says so or none was possible; checks that were not tested do not count."""
    found = {finding.verdict for finding in findings} - {Verdict.NOT_TESTED}
    order = (Verdict.NOT_LOSSLESS, Verdict.NOT_KNOWN, Verdict.LOSSLESS)
    return next((verdict for verdict in order if verdict in found), Verdict.NOT_KNOWN)


def ask(client: Client, prompt: str | Sequence[int], max_tokens: int, temperature: float, **further: Any) -> Answer:
    """An answer with the sampling settings switched off that a server may have other defaults for. Raises ServerError."""
    off = {"top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    return client.complete(prompt, max_tokens=max_tokens, temperature=temperature, **off, **further)


def at_once(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """The results in order, ``AT_ONCE`` requests at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, items))


def tokens_of(answer: Answer) -> tuple[str, ...]:
    """The tokens as the server names them: by its log probabilities, else by id; the whole text where it reports neither."""
    if answer.logprobs:
        return tuple(position.token for position in answer.logprobs)
    return tuple(map(str, answer.token_ids)) if answer.token_ids else (answer.text,)


def continued(prompt: str, answer: Answer, tokens: int) -> str | tuple[int, ...]:
    """The prompt and the first ``tokens`` tokens of its answer, as ids where the server reports them."""
    if answer.prompt_ids and answer.token_ids:
        return (*answer.prompt_ids, *answer.token_ids[:tokens])
    return prompt + "".join(tokens_of(answer)[:tokens])
