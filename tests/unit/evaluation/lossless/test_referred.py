"""A server under a reference: what is honest passes, a fault has its name, and what cannot be known
is not claimed. The stand-ins decode with a small random model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from evaluation.lossless.command import DRAFTING
from evaluation.lossless.law import FOUND, LEVEL, beyond_rounding, found_at_zero, law
from evaluation.lossless.reference import Reference, Scores, joined, of_mars, of_torch
from evaluation.lossless.referred import Referred
from evaluation.lossless.rounds import Difference, Round, Rounds
from evaluation.lossless.values import Finding, LosslessVerdict
from evaluation.served.answer import Answer
from mars_core.reference import choose
from tests.checkpoints import tiny_checkpoint
from tests.served_server import Serving
from tests.unit.evaluation.calls import mars
from tests.unit.evaluation.lossless.stand_in import StandIn, disturbed, relaxed

TEMPLATE = "{% for m in messages %}{{ 'Q ' + m['content'] + ' A ' }}{% endfor %}"
PROMPTS = ("one", "seven of 9", "x + y")
ZERO, DRAWN, TOKENS = (
    "Temperature 0, under the reference",
    "Temperature 1, under the reference",
    "Temperature 1, token by token",
)
GOOD, BAD = LosslessVerdict.LOSSLESS, LosslessVerdict.NOT_LOSSLESS


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tiny_checkpoint("llama", tmp_path_factory.mktemp("reference"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return Reference(str(folder))


def found(
    reference: Reference, server: StandIn, prompts: Sequence[str] = PROMPTS
) -> dict[str, Finding]:
    checked = Referred(server, reference, prompts, 4)  # type: ignore[arg-type]
    drawn = checked.drawn(20, 20, 0)
    checked.rounds.repeat(4, 0)
    return {each.check: each for each in (*checked.findings(), *drawn)}


def test_an_honest_server_passes_with_its_power(reference: Reference) -> None:
    findings = found(reference, StandIn(reference.pair))
    assert [each.verdict for each in findings.values()] == [
        *[GOOD] * 4,
        LosslessVerdict.NOT_TESTED,
    ]
    assert "0 of 3 answers of up to 64 tokens differ" in findings[ZERO].reason
    times = "None is wrong in 3 rounds with up to 4 requests in flight, the last after "
    assert times in findings[ZERO].reason
    assert "With probability 0.9 a runner-up kept at" in findings[ZERO].power
    unseen = "Another quantisation that moves gaps by less than 0.4 nats is not told from other"
    assert unseen in findings[ZERO].power
    assert "a temperature off by" in findings[DRAWN].power
    assert "nothing is claimed of single tokens" in findings[TOKENS].reason


@pytest.mark.parametrize("noise", [of_mars, of_torch])
def test_where_the_noise_is_known_every_token_is_judged(
    reference: Reference, noise: Callable[[int, int, int], torch.Tensor]
) -> None:
    honest = found(reference, StandIn(reference.pair, noise=noise))[TOKENS]
    assert honest.verdict is GOOD and " 0 of " in honest.reason
    finding = found(reference, StandIn(reference.pair, relaxed, noise=noise))[TOKENS]
    assert finding.verdict is BAD and "A relaxed rule" in finding.reason


def test_a_relaxed_rule_is_named_at_both_temperatures(reference: Reference) -> None:
    findings = found(reference, StandIn(reference.pair, relaxed))
    assert findings[ZERO].verdict is findings[DRAWN].verdict is BAD
    assert "A relaxed rule, which keeps the runner-up down to z₂/z₁ = 0.9" in findings[ZERO].reason
    assert "from the beginning" in findings[ZERO].reason
    assert "the runner-up is too frequent at near ties" in findings[DRAWN].reason
    assert findings["Chat template"].verdict is GOOD  # the rule is no template


def test_another_quantisation_temperature_and_template_are_named(reference: Reference) -> None:
    other = found(reference, StandIn(disturbed(reference.pair, 0.1)))
    assert other[ZERO].verdict is BAD and other[ZERO].reason.startswith("Another quantisation")
    hot = found(reference, StandIn(reference.pair, lambda z, noise: (z / 1.5 + noise).argmax(-1)))
    assert hot[ZERO].verdict is GOOD and hot[DRAWN].verdict is BAD
    assert "another distribution, as at temperature 1." in hot[DRAWN].reason
    said = StandIn(reference.pair, template=lambda text: f"Be brief. {text}")
    template = found(reference, said, PROMPTS[:1])["Chat template"]
    assert (
        template.verdict is BAD
        and "Another template. The server reads 18 tokens" in template.reason
    )


def test_tokens_of_a_text_accuse_nobody(reference: Reference) -> None:
    for choose_ in (relaxed, lambda z, noise: (z + noise).topk(3).indices[..., 2]):
        findings = found(reference, StandIn(reference.pair, choose_, ids=False, logprobs=False))
        assert {each.verdict for each in findings.values()} <= {
            LosslessVerdict.NOT_KNOWN,
            LosslessVerdict.NOT_TESTED,
            GOOD,
        }
    unknown = found(reference, StandIn(reference.pair, relaxed, logprobs=False))[ZERO]
    assert unknown.verdict is not GOOD and "assumed: it reports none" in unknown.reason


def test_a_quantisation_that_moves_little_passes_and_that_is_said(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = found(reference, StandIn(disturbed(reference.pair, 0.01)))[ZERO]
    assert finding.verdict is GOOD and "moves gaps by less than 0.4 nats" in finding.power
    monkeypatch.setattr("evaluation.lossless.referred.UNKNOWN", 0.02)
    blind = found(reference, StandIn(reference.pair, logprobs=False))[ZERO]
    assert blind.verdict is GOOD and "is not found without the server's log" in blind.power


def test_a_prompt_whose_tokens_are_not_identified_is_left_out(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, complete = StandIn(reference.pair), StandIn.complete
    first = reference.prompt(PROMPTS[0])

    def told(self: StandIn, prompt: Any, *, temperature: float, **asked: Any) -> Answer:
        answer = complete(self, prompt, temperature=temperature, **asked)
        nameless = temperature > 0 and list(prompt) == first
        return replace(answer, token_ids=None, logprobs=None) if nameless else answer

    monkeypatch.setattr(StandIn, "complete", told)
    finding = found(reference, server)[DRAWN]
    assert finding.verdict is GOOD and " Prompt 1 is left out: the server does" in finding.reason


def test_ids_beyond_the_vocabulary_and_long_prompts_are_no_error(reference: Reference) -> None:
    server = StandIn(reference.pair, lambda z, noise: (z + noise).argmax(-1))
    answer = server.complete([1, 5], max_tokens=4, temperature=0.0)
    assert reference.ids(replace(answer, token_ids=(1, reference.size, 2, 3)), 4) is None
    assert reference.ids(answer, 2) == (answer.token_ids or ())[:2]
    with pytest.raises(ValueError, match="the reference reads at most 256"):
        reference.scores([1] * 250, [[1] * 10])


def test_the_noise_of_this_program_draws_its_tokens() -> None:
    z = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    race = z.softmax(-1) / of_mars(50, 9, 3)
    assert race.argmax(-1).tolist() == [choose(row, 1.0, 9, at) for at, row in enumerate(z)]


def draws(tokens: int, seed: int, temperature: float = 1.0) -> Scores:
    """Scores of draws from known distributions of 30 tokens, from the formulas."""
    source = np.random.default_rng(seed)
    z = source.normal(0, 2, (tokens, 30)) + 6
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    drawn = (z / temperature + source.gumbel(size=z.shape)).argmax(1)
    at, order, best = np.arange(tokens), -np.sort(-p, 1), -np.sort(-z, 1)
    own, logs = p[at, drawn], np.log(p)
    entropy = -(p * logs).sum(1)
    return Scores(
        gap=logs.max(1) - np.log(own),
        margin=best[:, 0] - best[:, 1],
        ratio=z[at, drawn] / best[:, 0],
        rank=1 + (p > own[:, None]).sum(1),
        logprob=np.log(own),
        surprise=-np.log(own) - entropy,
        variance=(p * logs**2).sum(1) - entropy**2,
        above=(p * (p > own[:, None])).sum(1),
        runner=np.where(best[:, 1] > 0.9 * best[:, 0], order[:, 1], np.nan),
    )


def test_true_draws_are_rarely_accused_and_the_stated_deviation_is_found() -> None:
    """At a level of 0.001 one of 400 accusations or more has a probability of 6 %."""
    fair = [law(draws(800, seed), seed) for seed in range(400)]
    assert sum(min(each.p) < LEVEL for each in fair) <= 2
    assert sum(min(each.p) < 0.05 for each in fair) <= 0.08 * len(fair)
    shift = fair[0].least_shift
    hot = [law(draws(800, seed, 1 / (1 - shift)), seed) for seed in range(100)]
    assert sum(min(each.p) < LEVEL for each in hot) >= (FOUND - 0.1) * len(hot)
    assert np.median([each.temperature for each in hot]) == pytest.approx(1 / (1 - shift), rel=0.05)


def test_rounding_is_no_fault_and_the_stated_share_of_runners_up_is_found() -> None:
    scores, source = draws(600, 1), np.random.default_rng(0)

    def p(kept: Any) -> float:
        return beyond_rounding(scores.margin * kept, scores.margin, 0.1)

    rounded = [p(source.normal(0, 0.1, 600) > scores.margin) for _ in range(400)]
    assert sum(each < LEVEL for each in rounded) == 0
    share, near = found_at_zero(scores, 0.1), ~np.isnan(scores.runner)
    assert 0 < share < 0.5
    kept = [p(near & (source.random(600) < share)) for _ in range(200)]
    assert sum(each < LEVEL for each in kept) >= (FOUND - 0.1) * len(kept)
    assert np.isnan(found_at_zero(scores, 9.0))
    assert joined([scores, scores]).gap.shape == (1200,)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (((1, 0, "00"), (8, 2, "00"), (1, 90, "00")), ""),
        (((1, 0, "01"), (8, 2, "01"), (1, 90, "01")), "1 of 2 with 8 requests in flight; from the beginning."),
        (((1, 0, "00"), (8, 2, "11"), (1, 90, "00")), "; only with several requests in flight."),
        (((1, 0, "00"), (8, 2, "00"), (1, 90, "01")), "0 of 2 with 8 requests in flight; first seen after 91 requests."),
    ],
)  # fmt: skip
def test_a_fault_of_load_or_of_time_is_told_from_one_from_the_beginning(
    wrong: Sequence[tuple[int, int, str]], words: str
) -> None:
    rounds = Rounds(None, (), lambda *_: None)  # type: ignore[arg-type]
    bad = Difference(2.0, "")
    rounds += [
        Round(k, sent, [bad if each == "1" else None for each in row]) for k, sent, row in wrong
    ]
    assert rounds.when().endswith(words) and bool(rounds.when()) is bool(words)
    assert rounds.when(tie=2.0) == ""


@pytest.mark.slow
def test_the_command_writes_its_header_first_and_asks_prompts_that_make_a_server_draft(
    serving: Serving,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, tokens in (("rounds.TOKENS", 16), ("referred.TOKENS", 16), ("referred.LONG", 8)):
        monkeypatch.setattr(f"evaluation.lossless.{name}", tokens)
    monkeypatch.setattr("evaluation.lossless.command.DRAFTING", DRAFTING[:1])
    (tmp_path / "prompts").write_text("Tell me a story.\n")
    options = f"--server {serving.url} --reference bundled/target --in-flight 2"
    json_ = tmp_path / "found.json"
    assert (
        mars(f"check {options} --draws 20 --repeats 20 --prompts {tmp_path}/prompts --json {json_}")
        == 0
    )
    out = capsys.readouterr().out
    assert out.startswith(f"Server   {serving.url}, model bundled\nAgainst  bundled/target")
    document = json.loads(json_.read_text())
    assert document["reference"] == "bundled/target"
    noise = next(each for each in document["findings"] if each["check"] == TOKENS)
    assert "The noise is that of MARS: 0 of" in noise["reason"]
    asked = [each.get("prompt") for each in serving.requests if each.get("temperature") == 0]
    assert len({json.dumps(each) for each in asked if each}) == 2
