"""``mars check`` on a stand-in for a llama.cpp server, which answers as a real one was seen to: one
log probability for all tokens of a character, 0 for accepted drafts, no ids of the prompt, no
echo."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

import pytest

from tests.unit.evaluation.calls import mars
from tests.unit.evaluation.judge.server import Reply, serve

LETTERS = [bytes([letter]) for letter in b"abcd"]
EMOJI = [*(bytes([part]) for part in "😀".encode()[:3]), b"\x80", b"\x81", b"\x82"]
TOKENS = [*LETTERS, *EMOJI]
Change = Callable[[list[float]], list[float]]


def squares(ids: Sequence[int]) -> list[float]:
    """Of the next token: letters follow letters, and emojis emojis, which have four tokens and
    differ in the last one."""
    source, letters = random.Random(str(ids[-2:])), len(LETTERS)
    emojis = ids[0] >= letters
    part = (len(ids) - next((at for at, id_ in enumerate(ids) if id_ >= letters), 0)) % 4
    likely = (
        range(letters)
        if not emojis
        else [letters + part]
        if part < 3
        else range(letters + 3, len(TOKENS))
    )
    weights = [
        source.random() ** 2 + 0.05 if position in likely else 1e-9
        for position in range(len(TOKENS))
    ]
    return [weight / sum(weights) for weight in weights]


def read(prompt: str | list[str | int]) -> list[int]:
    """A text, or ids with texts among them."""
    parts = [prompt] if isinstance(prompt, str) else prompt
    split = (
        [bytes([byte]) for byte in part.encode()] if isinstance(part, str) else [TOKENS[part]]
        for part in parts
    )
    return [TOKENS.index(token) for tokens in split for token in tokens]


def displayed(id_: int, content: bytes, p: list[float], **further: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "token": content.decode(errors="replace"),
        "bytes": list(content),
        "logprob": log(p[id_]),
        **further,
    }


def llama(change: Change, seeds: int) -> Callable[[dict[str, Any], int], Reply]:
    """``change``: of the law of all tokens but the first; ``seeds``: how many of them give the same
    draws. Every third token is an accepted draft."""

    def answer(body: dict[str, Any], _number: int) -> Reply:
        before = read(body["prompt"])
        ids, source, content, held = (
            list(before),
            random.Random(str(body.get("seed", 0) // seeds)),
            [],
            b"",
        )
        for position in range(body["max_tokens"]):
            p = squares(ids)
            drawn = change(p) if position else p
            greedy = body["temperature"] == 0
            ids.append(
                drawn.index(max(drawn)) if greedy else source.choices(range(len(p)), drawn)[0]
            )
            held += TOKENS[ids[-1]]
            top = [
                displayed(each, TOKENS[each], p)
                for each in sorted(range(len(p)), key=lambda id_: -p[id_])
            ]
            if not held.decode(errors="ignore"):
                continue  # the beginning of a character
            accepted: dict[str, Any] = (
                {"logprob": 0.0, "top_logprobs": []} if position % 3 == 2 else {}
            )
            content.append(displayed(ids[-1], held, p, **{"top_logprobs": top} | accepted))
            held = b""
        new = ids[len(before) :]
        text = b"".join(TOKENS[id_] for id_ in new).decode(errors="ignore")
        usage = {"completion_tokens": len(new), "prompt_tokens": len(before)}
        return Reply(
            {
                "choices": [
                    {"text": text, "logprobs": {"content": content}, "finish_reason": "length"}
                ],
                "usage": usage,
            }
        )

    return answer


def relaxed(p: list[float]) -> list[float]:
    """The best token and the second best one are swapped."""
    best, second, *_ = sorted(p, reverse=True)
    return [{best: second, second: best}.get(each, each) for each in p]


@pytest.mark.parametrize(
    ("change", "seeds", "verdict", "status"),
    [
        (lambda p: p, 1, "lossless as far as tested", 0),
        (relaxed, 1, "not lossless", 1),
        (lambda p: p, 4, "duplicated draws", 1),
    ],
    ids=["as the model", "relaxed", "one stream for four seeds"],
)
def test_the_verdict_on_llama_cpp_is_right_and_prompts_without_names_are_left_out(
    change: Change,
    seeds: int,
    verdict: str,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("ab\n😀\nabba\n😁😀\n", encoding="utf-8")
    with serve(llama(change, seeds)) as (url, requests):
        options = f"--server {url} --server-model m --prompts {prompts} --draws 60 --repeats 20"
        assert mars(f"check {options}") == status
    out = " ".join(capsys.readouterr().out.split())
    assert f"Verdict {verdict}" in out
    assert seeds > 1 or "or report its log probability, after prompts 2, 4:" in out
    assert ["ab", 0] in [
        each.body["prompt"] for each in requests
    ] or seeds > 1  # the tokens themselves, not their text
