"""What the checks of a server find, and the servers under test."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from evaluation.progress import progress_bar
from evaluation.served.answer import Answer
from evaluation.served.choice import TokenKey
from evaluation.served.client import Client, Prompt
from evaluation.served.server import ServerDown, ServerError

AT_ONCE = 8  # requests
TOP = 20  # alternatives whose probability is requested
TRIALS = 4
# what helps where a server reports too little of itself
HELPS = "give --reference MODEL, the folder or GGUF file of the model"
CUT = "\N{REPLACEMENT CHARACTER}"  # at the end of a text: the beginning of a character
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class LosslessVerdict(StrEnum):
    """The result of a check, and of all checks together; the worst one first."""

    NOT_LOSSLESS = "not lossless"
    DUPLICATED = "duplicated draws"  # requests with separate seeds get one and the same answer
    NOT_KNOWN = "not known"
    LOSSLESS = "lossless as far as tested"
    NOT_TESTED = "not tested"  # the server does not report what the check needs


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its title, its verdict and why, in one or two sentences. ``p``: the smallest p of
    a test after Holm's correction. ``power``: of a pass, the smallest faults that it would have
    found, and how probably; empty where that is not known."""

    check: str
    verdict: LosslessVerdict
    reason: str
    p: float | None = None
    power: str = ""


def overall(findings: Sequence[Finding]) -> LosslessVerdict:
    """Return the worst verdict of any check; not known if none was possible. Checks that were not
    tested do not count."""
    verdicts = {finding.verdict for finding in findings} - {LosslessVerdict.NOT_TESTED}
    return min(verdicts, key=list(LosslessVerdict).index, default=LosslessVerdict.NOT_KNOWN)


def limits(findings: Sequence[Finding], *, itself: bool) -> str:
    """Say what a pass is worth: of how many checks the power is known, and what no check looks
    for; nothing of another verdict. ``itself``: whether the server was compared with nothing else."""
    if overall(findings) is not LosslessVerdict.LOSSLESS:
        return ""
    passed = [each for each in findings if each.verdict is LosslessVerdict.LOSSLESS]
    stated = sum(bool(each.power) for each in passed)
    power = f"{stated} of {len(passed)} state" if stated else "none states"
    return (
        f"Looked for: what the checks below name, of which {power} the smallest fault that would "
        "have been found; smaller ones were not looked for, such as a wrong block rule or residual "
        "behind a drafter that is nearly the model."
        + " The server was compared with itself: another model or quantisation behind its name was "
        "not looked for (--reference)." * itself
    )


def complete(
    client: Client, prompt: Prompt, max_tokens: int, temperature: float, **further: Any
) -> Answer:
    """Request an answer with the sampling settings switched off that a server may have other
    defaults for, and with tokens by id where a server can; in one piece, because llama.cpp names
    accepted drafts only there. Raises ServerError."""
    return client.complete(
        prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        stream=False,
        stream_options=None,
        return_tokens_as_token_ids=True,
        **further,
    )


def at_once(
    title: str,
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    requests: int = AT_ONCE,
) -> list[_Result]:
    """Return the results in order, ``requests`` at a time; standard error says how far it is,
    unless the title is empty."""
    bar = progress_bar(len(items), "answers", desc=title, disable=not title)
    results = list[_Result]()
    with bar, ThreadPoolExecutor(requests) as pool:
        for result in pool.map(function, items):
            results.append(result)
            bar.update()
    return results


def extended(prompt: Prompt, answer: Answer, names: Sequence[TokenKey]) -> Prompt | None:
    """Return the prompt of ``answer`` with these tokens behind it; None where the server cannot be
    sent them."""
    ids = [name for name in names if isinstance(name, int)]
    if ids or not isinstance(prompt, str):
        read = answer.prompt_ids or ([prompt] if isinstance(prompt, str) else prompt)
        return [*read, *ids] if len(ids) == len(names) else None
    with suppress(UnicodeDecodeError):
        return prompt + b"".join(name for name in names if isinstance(name, bytes)).decode()
    return None


def continued(
    client: Client, prompt: Prompt, answer: Answer, names: Sequence[TokenKey], **settings: Any
) -> Answer | None:
    """Return what follows the prompt of ``answer`` and these tokens; None where the server cannot
    be sent them, or reads others. Raises ServerDown."""
    if (begun := extended(prompt, answer, names)) is None:
        return None
    try:
        response = complete(client, begun, **settings)
    except ServerDown:
        raise
    except ServerError:
        return None
    read, length = (each.usage.get("prompt_tokens") for each in (response, answer))
    if isinstance(read, int) and isinstance(length, int) and read != length + len(names):
        return None
    return response


def next_token(
    judge: Client, prompt: Prompt, answer: Answer, names: Sequence[TokenKey], seed: int
) -> dict[TokenKey, float]:
    """Return the log probabilities that a request for one token, which has no draft, reports after
    the prompt of ``answer`` and these tokens; empty where they or the names of their tokens are not
    reported. A server may report none for a token that is a part of a character, so some seeds are
    tried. Raises ServerDown."""
    for trial in range(TRIALS):
        response = continued(
            judge,
            prompt,
            answer,
            names,
            max_tokens=1,
            temperature=1.0,
            seed=seed + trial,
            logprobs=TOP,
        )
        for position in (response and response.logprobs) or ():
            rows = {
                each.key: each.logprob
                for each in (*position.top, position)
                if not math.isnan(each.logprob)
            }
            return (
                {key: value for key, value in rows.items() if key is not None}
                if None not in rows
                else {}
            )
    return {}
