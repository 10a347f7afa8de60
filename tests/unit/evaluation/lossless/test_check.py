"""``mars check`` on a stand-in server of the bundled pair: what is lossless passes, what is not is
found, and troubles are one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.lossless.command import counters_finding
from evaluation.lossless.greedy import (
    MOST_TIE,
    TIE,
    _finding,
    difference,
    tie_of,
)
from evaluation.lossless.rounds import Difference
from evaluation.lossless.values import Finding, LosslessVerdict, limits, overall
from evaluation.served.answer import Answer
from evaluation.served.choice import Position
from evaluation.served.client import Client
from evaluation.served.counters import Counters, read_counters
from evaluation.served.server import Server
from mars_core.models.catalog import BUNDLED_PROMPTS
from mars_core.types import DrafterConfig, DraftMode, RuleConfig
from tests.served_server import MODEL, Fault, Serving
from tests.unit.evaluation.calls import mars

GREEDY = DrafterConfig(
    "model", k=5, mode=DraftMode.GREEDY
)  # with which rules change more than with coupled drafts


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(BUNDLED_PROMPTS[i] for i in (1, 4)) + "\n\n")
    return str(path)


def run(options: str) -> int:
    return mars(f"check {options}")


def by_check(path: Path) -> dict[str, dict[str, str]]:
    return {finding["check"]: finding for finding in json.loads(path.read_text())["findings"]}


@pytest.mark.slow
def test_a_strict_server_passes_and_a_relaxed_one_is_detected(
    serving: Serving,
    other_serving: Serving,
    prompts: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, most in (("rounds.TOKENS", 32), ("sampled.LONG", 8), ("command.ENOUGH", 10)):
        monkeypatch.setattr(f"evaluation.lossless.{name}", most)
    other_serving.drafter = DrafterConfig("none")
    strict, relaxed = tmp_path / "strict.json", tmp_path / "mars.json"
    servers = f"--server {serving.url} --against {other_serving.url}"
    options = f"{servers} --prompts {prompts} --draws 20 --repeats 20 --json"
    assert run(f"{options} {strict}") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "Verdict lossless as far as tested Looked for: what the checks below name, of which 1 of 6"
        in out
    )
    assert "smaller ones were not looked for" in out and "compared with itself" not in out
    assert {row["verdict"] for row in by_check(strict).values()} == {"lossless as far as tested"}
    serving.rule, serving.drafter = RuleConfig("mars", {"theta": 0.5}), GREEDY
    assert run(f"{options} {relaxed}") == 1
    out = capsys.readouterr().out
    assert "Verdict  not lossless" in out and "not looked for" not in out
    findings = by_check(relaxed)
    wrong = {name for name, row in findings.items() if row["verdict"] == "not lossless"}
    assert wrong == {
        "Temperature 0, against the other server",
        "Temperature 0, against the log probabilities of the text",
        "Temperature 1, against the log probabilities of the next token",
        "Temperature 1, the first tokens together",
    }
    position = _first_difference(serving, other_serving)
    assert (
        f"prompt 2, token {position + 1}:"
        in findings["Temperature 0, against the other server"]["reason"]
    )


def _first_difference(server: Serving, alone: Serving) -> int:
    ids = []
    for each in (server, alone):
        with Client(Server(each.url, MODEL)) as client:
            ids.append(client.complete(BUNDLED_PROMPTS[4], max_tokens=64).token_ids or ())
    return next(at for at, pair in enumerate(zip(*ids, strict=False)) if pair[0] != pair[1])


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([Fault.WEB_PAGE], "gave an answer that is not one of the OpenAI interface"),
        ([Fault.NONE, *[Fault.KILL] * 5], "did not answer"),  # in the middle
    ],
)
def test_a_server_that_does_not_answer_is_one_sentence(
    serving: Serving,
    prompts: str,
    faults: list[Fault],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evaluation.served.client.PAUSE_S", 0.0)
    serving.faults = faults
    assert run(f"--server {serving.url} --prompts {prompts}") == 2
    out, err = capsys.readouterr()
    assert out.startswith(f"Server   {serving.url}") and "Prompts  2, 100 answers to each" in out
    assert "Verdict" not in out and "Temperature 0, server, 1 request at once: " in err
    last = err.splitlines()[-1]
    assert words in last and serving.url in last


def test_bad_options_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    for arguments, message in (
        ("--draws 5", "--draws is 5; it must be 20 to 10,000."),
        (
            f"--prompts {tmp_path}/empty.txt",
            "--prompts has 0 lines with a prompt; it must have 1 to 100.",
        ),
        (f"--prompts {tmp_path}/none.txt", "none.txt cannot be read: No such file or directory."),
        ("--reference /nowhere", "There is no folder /nowhere"),
        ("--reference a --against http://b", "--reference and --against are given; one of them"),
        ("--minutes -1", "--minutes is -1; it must be 0 to 1,440."),
    ):
        assert run(f"--server http://127.0.0.1:1/v1 --server-model m {arguments}") == 2
        *loading, said = capsys.readouterr().err.splitlines()
        assert message in said and all(line.startswith("Loading ") for line in loading)
    assert run("--server ftp://x") == 2


def test_without_counters_and_echo_the_other_checks_decide(
    serving: Serving, prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.lossless.command.ENOUGH", 10)
    path = tmp_path / "findings.json"
    serving.reset(token_ids=False, rule=RuleConfig("mars", {"theta": 0.5}), drafter=GREEDY)
    assert (
        run(f"--server {serving.url} --prompts {prompts} --draws 20 --repeats 20 --json {path}")
        == 1
    )
    for check, verdict in (
        ("Temperature 0, against the log probabilities of the text", "not tested"),
        ("Temperature 1, against the log probabilities of the next token", "not lossless"),
    ):
        assert by_check(path)[check]["verdict"] == verdict


METRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="spec"} 4
vllm:spec_decode_num_drafts_total{engine="1",model_name="spec"} 6
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="spec"} 50
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="spec"} 30
vllm:generation_tokens_total{engine="0",model_name="spec"} 45
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 8
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 1
"""
LLAMA_METRICS = """\
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 75
llamacpp:tokens_predicted_total 29
llamacpp:spec_decode_num_draft_tokens_total 12
llamacpp:spec_decode_num_accepted_tokens_total 7
llamacpp:spec_decode_num_drafts_total 4
"""


def test_counters_are_those_of_all_engines() -> None:
    assert read_counters(METRICS) == Counters(45, 10, 50, 30, (10, 8))
    assert read_counters(LLAMA_METRICS) == Counters(29, 4, 12, 7, ())
    for wrong in ("up 1\n", 'sglang:spec_accept_length{model_name="q"} 2.5\n'):
        with pytest.raises(ValueError, match="no counter spec_decode_num_drafts_total of vLLM"):
            read_counters(wrong)


@pytest.mark.parametrize(
    ("drafts", "drafted", "accepted", "accepted_at", "reason"),
    [
        (100, 500, 270, [80, 70, 60, 40, 20], ""),
        (100, 500, 500, [100] * 5, "Every drafted token was accepted"),
        (100, 500, 0, [0] * 5, "No drafted token was accepted"),
        (10, 50, 30, [6] * 5, "hardly tested"),
        (
            100,
            500,
            240,
            [80, 80, 80, 0, 0],
            "80 drafts have 3 accepted tokens of 5, and none has more",
        ),
        (100, 500, 270, [80, 70, 60], "add up to 210"),
        (100, 500, 290, [], ""),
    ],
)
def test_counters_that_cannot_be_true_are_named(
    drafts: float, drafted: float, accepted: float, accepted_at: list[float], reason: str
) -> None:
    before = Counters(0, 7, 35, 20, (5, 5, 5, 3, 2))
    added = [a + b for a, b in zip(before.accepted_at, accepted_at, strict=False)]
    after = Counters(0, 7 + drafts, 35 + drafted, 20 + accepted, tuple(added))
    finding = counters_finding(before, after)
    assert finding.verdict is (LosslessVerdict.NOT_KNOWN if reason else LosslessVerdict.LOSSLESS)
    assert reason in finding.reason
    assert counters_finding(None, after).verdict is LosslessVerdict.NOT_TESTED


def answer(text: str, *, ids: Sequence[int] | None = None, gaps: Sequence[float] = ()) -> Answer:
    """Tokens are characters, with ids or by their bytes. ``gaps``: of both tokens that are listed
    at a position."""
    rows = [(Position("a", 0.0, key=b"a"), Position("b", -gap, key=b"b")) for gap in gaps]
    positions = [
        Position(name, -1.0, top, name.encode())
        for name, top in zip(text, rows or [()] * len(text), strict=True)
    ]
    named = tuple(ids) if ids else None
    return Answer(text, "length", named, logprobs=tuple(positions))


class Judge:
    """A fake Client: reports these log probabilities for any text."""

    def __init__(self, **logprobs: float) -> None:
        self.logprobs, self.prompts = logprobs, list[Any]()

    def complete(self, prompt: Any, **_: Any) -> Answer:
        self.prompts.append(prompt)
        top = tuple(
            Position(name, value, key=name.encode()) for name, value in self.logprobs.items()
        )
        return Answer("?", "length", logprobs=(top[0]._replace(top=top),))


def test_ids_are_compared_where_texts_are_the_same_and_continue_the_prompt() -> None:
    judge = Judge(a=-1.0)
    result = difference(judge, 0, "p", answer("aa", ids=(1, 2)), answer("aa", ids=(1, 3)))  # type: ignore[arg-type]
    assert result is not None and "token 2" in result.where and judge.prompts == [["p", 1]]
    known = replace(answer("aa", ids=(1, 2)), prompt_ids=(7, 8))
    assert difference(judge, 0, "p", known, answer("aa", ids=(1, 3))) and judge.prompts[-1] == [
        7,
        8,
        1,
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ([3.0, 3.0], [3.05, 3.1], TIE),
        ([3.0, 3.0], [3.0, 3.3], 0.3),
        ([3.0, 3.0], [9.0, 3.0], MOST_TIE),
    ],
)
def test_a_tie_is_what_repeats_of_the_server_move(
    first: list[float], then: list[float], expected: float
) -> None:
    tie = tie_of([answer("ab", gaps=first)], [answer("ab", gaps=then)])
    assert tie == pytest.approx(expected)
    assert tie_of([answer("ab", gaps=first)], [answer("xb", gaps=then)]) == TIE  # not the same text


def test_a_finding_counts_all_differences_and_those_beyond_ties_and_says_what_would_help() -> None:
    tied, real, unknown = (
        Difference(gap, "prompt 1, token 2: a for b") for gap in (0.1, 2, math.nan)
    )
    differ = "of 19 answers of up to 64 tokens differ"
    finding = _finding("", [tied, tied, real, *[None] * 16], TIE)
    assert f"3 {differ}, 1 by more than the 0.125 nats" in finding.reason
    assert finding.verdict is LosslessVerdict.NOT_LOSSLESS and "gap 2.00 nats" in finding.reason
    finding = _finding("", [unknown, *[None] * 18], TIE)
    assert f"1 {differ}, 1 by more" in finding.reason and "give --reference MODEL" in finding.reason
    assert finding.verdict is LosslessVerdict.NOT_KNOWN
    assert _finding("", [tied, *[None] * 18], TIE).verdict is LosslessVerdict.LOSSLESS


def test_one_check_that_fails_decides() -> None:
    worst = [each for each in LosslessVerdict if each is not LosslessVerdict.NOT_TESTED]
    for at, verdict in enumerate(worst):
        found = [Finding("", each, "") for each in (*worst[at:], LosslessVerdict.NOT_TESTED)]
        assert overall(found[::-1]) is verdict
    assert overall(found[-1:]) is LosslessVerdict.NOT_KNOWN


def test_a_pass_of_a_server_that_is_compared_with_itself_says_so() -> None:
    passed = Finding("", LosslessVerdict.LOSSLESS, "")
    assert "another model or quantisation behind its name was not" in limits([passed], itself=True)
    assert "compared with itself" not in limits([passed], itself=False)
    wrong = Finding("", LosslessVerdict.NOT_LOSSLESS, "")
    assert limits([passed, wrong], itself=True) == ""
