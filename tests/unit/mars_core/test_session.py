"""From text to trace: prompts, stops, limits, cancellation, failure; and the trace explains every
decision by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from mars_core.models import Pair
from mars_core.rules import RULES, Siblings
from mars_core.session import Run, Session
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    Outcome,
    Processors,
    PromptConfig,
    RuleConfig,
    Sampling,
    ShiftKind,
    Status,
    StopReason,
    Trace,
    TreeShape,
)
from tests import live_pairs
from tests.checkpoints import BOS, SPECIAL
from tests.live_pairs import config_for, decoded, random_pair, traced
from tests.unit.mars_core.test_classifier import classified

WARM = Sampling(1.0)
TOGETHER = "rule none and drafter none can only be used together"
LAST = 7  # the id that ends a text
CHAIN, SAMPLED = (
    DrafterConfig("model", mode=mode) for mode in (DraftMode.GREEDY, DraftMode.SAMPLED)
)
TREE = DrafterConfig("eagle3", mode=DraftMode.GREEDY, tree=TreeShape(20, 4, 5))
NONE, NGRAM = DrafterConfig("none"), DrafterConfig("ngram", mode=DraftMode.GREEDY)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return random_pair(eos=frozenset())


@pytest.fixture(scope="module")
def free(pair: Pair) -> Trace:
    """Of 40 tokens, whatever they are."""
    return traced(pair, CHAIN, WARM, new=40)


@pytest.fixture(scope="module")
def headed(pair: Pair) -> Pair:
    return live_pairs.headed(pair)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": PromptConfig("")}, "The prompt is empty"),
        ({"max_new_tokens": 253}, "max_new_tokens is 253.*4 tokens.*1 to 252.*256"),
        ({"prompt": PromptConfig("x" * 100_000)}, "prompt has 100000 tokens.*does not fit.*256"),
        ({"drafter": NONE}, f"The rule is mars and the drafter none; {TOGETHER}"),
        (
            {"drafter": replace(NGRAM, mode=DraftMode.SAMPLED)},
            "is sampled; drafter ngram takes greedy",
        ),
        (
            {"drafter": replace(TREE, tree=None)},
            "has no EAGLE-3 head; choose drafter model, suffix, ngram or none",
        ),
        (
            {"drafter": replace(CHAIN, tree=TreeShape())},
            "tree is set; drafter model drafts chains only",
        ),
        (
            {"rule": RuleConfig("ensemble"), "drafter": NGRAM},
            "needs the drafter's probabilities; drafter ngram has none",
        ),
        (
            {"rule": RuleConfig("fly"), "drafter": SAMPLED},
            "rule fly is defined for coupled and greedy drafts only",
        ),
        ({"rule": RuleConfig("fly"), "drafter": TREE}, "rule fly is defined for chains only"),
        ({"prefix": (1, 10_000)}, "Token 1 of the given beginning has id 10000; .* are 0 to "),
        ({"prefix": (LAST, 1)}, f"Token 0 of the given beginning, id {LAST}, ends the text"),
        ({"prefix": (1,) * 250}, "4 tokens and the given beginning 250; 1 to 2 fit into .*256"),
        ({"prefix": (1,) * 252}, "prompt and beginning alone do not fit into .*256"),
    ],
)
def test_bad_input_gets_one_sentence(
    pair: Pair, headed: Pair, change: dict[str, Any], message: str
) -> None:
    chosen = headed if change.get("drafter") is TREE else pair
    config = replace(config_for(chosen, CHAIN, WARM, rule="mars"), **change)
    with pytest.raises(ValueError, match=message) as caught:
        Session(replace(chosen, eos_ids=frozenset((LAST,)))).start(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "drafter", "temperature"),
    [
        *((rule, TREE, 0.0) for rule in ("strict", "mars", "topk-delta")),
        *((rule, TREE, 1.0) for rule in ("mars", "mars-reference", "threshold")),
        *product(("strict", "mars", "mars-algorithm1"), (CHAIN,), (0.0, 1.0)),
        *((rule, SAMPLED, 1.0) for rule in ("strict", "mars", "mars-algorithm1")),
    ],
)
def test_trace_accounts_for_every_drafted_token(
    headed: Pair, rule: str, drafter: DrafterConfig, temperature: float
) -> None:
    trace = traced(headed, drafter, Sampling(temperature), rule=rule)
    assert trace.config.drafter.model == (headed.head_ref if drafter.tree else headed.draft_ref)
    assert [token.position for token in trace.tokens] == list(range(24))
    summary = trace.summary
    assert summary.accepted + summary.relaxed + summary.rejected == summary.drafted
    assert summary.drafted == sum(step.drafted for step in trace.steps)
    assert (
        summary.accepted + summary.relaxed + summary.recovered + summary.bonus
        == summary.new_tokens
        == 24
    )
    assert summary.tau == summary.new_tokens / summary.steps
    for step in trace.steps:
        assert len(step.nodes) == step.drafted
        assert all(node.parent < number for number, node in enumerate(step.nodes, start=1))
        at = 0
        for token in step.emitted:
            assert token.parent == at
            assert token.draft_position == (step.nodes[at - 1].depth if at else 0) + 1
            at = token.node or at
        emitted = {token.node: token.outcome for token in step.emitted if token.node}
        assert len(emitted) == step.kept
        for number, node in enumerate(step.nodes, start=1):
            assert node.outcome is emitted.get(number, Outcome.REJECTED)
        refused = [token for token in step.tokens if token.outcome is Outcome.REJECTED]
        end = step.emitted[-1]
        siblings = [
            number for number, node in enumerate(step.nodes, start=1) if node.parent == end.parent
        ]
        assert [token.node for token in refused] == (
            siblings if end.outcome is Outcome.RECOVERED else []
        )
        assert all(token.position == end.position for token in refused)


@pytest.mark.parametrize("drafter", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_what_the_trace_says_of_a_token_is_what_a_fresh_pass_says(
    headed: Pair, drafter: DrafterConfig, temperature: float
) -> None:
    """p, logprob, rank, margin and entropy from one pass over the full text; their sums are the
    run's."""
    trace = traced(headed, drafter, Sampling(temperature), rule="mars", new=40)
    ids = torch.tensor([[*trace.prompt_ids, *trace.token_ids]])
    logits = headed.target(ids).logits[0, len(trace.prompt_ids) - 1 : -1]
    for token in (
        token for step in trace.steps for token in step.tokens
    ):  # a rejected one has the position of the next
        row = logits[token.position]
        distribution = (row / temperature if temperature else row).softmax(-1)
        p = distribution[token.id] if temperature else float(row.argmax() == token.id)
        assert token.p == pytest.approx(float(p), abs=1e-4)
        assert token.logprob == pytest.approx(float(row.log_softmax(-1)[token.id]), abs=1e-3)
        assert token.rank == 1 + int((row > row[token.id]).sum())
        assert (token.z1, token.z2) == pytest.approx(row.topk(2).values.tolist(), abs=1e-3)
        assert token.entropy == pytest.approx(
            float(-(distribution * distribution.log()).sum()), abs=1e-3
        )
    summary = trace.summary
    assert summary.log_likelihood == pytest.approx(sum(token.logprob for token in trace.tokens))
    assert summary.perplexity == pytest.approx(math.exp(-summary.log_likelihood / 40))


@pytest.mark.parametrize(
    "shape", [None, TreeShape(12, 3, 1), TreeShape(12, 3, 4)], ids=["chain", "thin", "tree"]
)
@pytest.mark.parametrize(
    "rule", ["strict", "mars", "lenience", "topk-delta", "random", "fuzzy", "fly", "judge"]
)
def test_a_run_records_what_its_tv_is(headed: Pair, rule: str, shape: TreeShape | None) -> None:
    if shape and RULES[rule].siblings is Siblings.REFUSED:
        return
    pair = classified(headed)
    config = config_for(pair, DrafterConfig("eagle3", tree=shape), WARM, rule=rule, new=12)
    trace = decoded(pair, config)
    kind, recorded = trace.config.shift_kind, trace.config.environment.get("tv")
    assert recorded == (None if kind is ShiftKind.EXACT else kind)
    unknown = [math.isnan(each) for token in trace.tokens for each in (token.tv, token.kl)]
    assert any(unknown) == (kind is ShiftKind.MISSING)  # without a draft it is 0
    assert math.isnan(trace.summary.tv_sum) == (kind is ShiftKind.MISSING)
    for other in (
        replace(config, sampling=Sampling()),
        replace(config, drafter=replace(config.drafter, mode=DraftMode.GREEDY)),
    ):
        assert Session(pair).start(other).config.shift_kind is ShiftKind.EXACT
    assert replace(config, environment={"server": "vllm"}).shift_kind is ShiftKind.UNKNOWN
    assert replace(config, environment={"tv": "<b>"}).shift_kind is ShiftKind.UNKNOWN


def test_same_configuration_gives_the_same_trace_but_for_time(pair: Pair) -> None:
    first, second, other = (traced(pair, CHAIN, WARM, rule="mars", seed=n) for n in (5, 5, 6))
    assert [step.tokens for step in first.steps] == [step.tokens for step in second.steps]
    assert other.token_ids != first.token_ids
    # what it ran on is said of this run, not of the one whose settings these are
    stored = replace(first.config, environment={"torch": "0.1", "batch": "8"})
    assert Session(pair).start(stored).config == first.config


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_decisions_can_be_recomputed_from_the_trace(pair: Pair, temperature: float) -> None:
    """mars on greedy drafts: accepted iff it is the target's token or one of the two best at low
    margin; TV = f (1 − p)."""
    trace = traced(pair, CHAIN, Sampling(temperature), rule="mars", new=80)
    outcomes = set()
    for token in (token for step in trace.steps for token in step.tokens):
        outcomes.add(token.outcome)
        low = token.z1 > 0 and token.z2 / token.z1 > 0.9
        if token.outcome in (Outcome.ACCEPTED, Outcome.RELAXED, Outcome.REJECTED):
            relaxed = low and token.id in (token.id1, token.id2)
            assert token.forgiveness == (relaxed and token.p < 1), (
                "where p is 1 there is nothing to forgive"
            )
            assert (token.outcome is Outcome.ACCEPTED) == (token.id == token.own)
            assert (token.outcome is Outcome.REJECTED) == (token.id != token.own and not relaxed)
            assert token.tv == pytest.approx(relaxed * (1 - token.p), abs=1e-6)
        else:
            assert token.id == token.own
            assert token.outcome is Outcome.RECOVERED or token.tv == 0
        assert token.gap == token.z1 - token.z2
        assert temperature or token.edge == token.gap
        assert token.top[0].id == token.id1
    if temperature:
        assert outcomes == set(Outcome)


def test_eos_ends_the_run_inside_a_draft_and_is_in_the_trace(headed: Pair, free: Trace) -> None:
    for position in (0, 2, 3, 6):
        token = free.tokens[position]
        if token.id in free.token_ids[:position]:
            continue
        ending = replace(headed, eos_ids=frozenset((token.id,)))
        for drafter in (NONE, CHAIN, NGRAM, TREE):
            trace = traced(ending, drafter, WARM, new=40)
            assert trace.token_ids == free.token_ids[: position + 1]
            assert (trace.status, trace.stop_reason) == (Status.COMPLETED, StopReason.EOS)


def test_stop_string_ends_the_text_at_the_token_that_completes_it(pair: Pair, free: Trace) -> None:
    stop = free.text[7:10]
    at = free.text.index(stop)
    trace = traced(pair, CHAIN, WARM, prompt=PromptConfig("once", stop=("never", stop)), new=40)
    assert trace.stop_reason is StopReason.STOP_STRING
    assert trace.text == free.text[: at + 3]
    assert trace.summary.new_tokens == len(trace.tokens)


def test_the_name_of_a_special_token_is_a_stop_string_though_it_has_no_text(pair: Pair) -> None:
    often = Sampling(1.0, processors=Processors(logit_bias=((f"[{BOS}]", 3.0),)))
    runs = (traced(pair, CHAIN, often, new=40, seed=seed) for seed in range(20))
    free = next(run for run in runs if BOS in run.token_ids[1:] and run.token_ids[0] != BOS)
    written = free.token_ids[: free.token_ids.index(BOS) + 1]
    stopping = PromptConfig("once", stop=(SPECIAL[BOS],))
    trace = traced(pair, CHAIN, often, prompt=stopping, new=40, seed=free.config.seed)
    assert (trace.stop_reason, trace.token_ids) == (StopReason.STOP_STRING, written)
    assert trace.text and SPECIAL[BOS] not in trace.text


def test_time_between_two_steps_is_not_the_run_s(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10_000_000))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    run: Run = Session(pair).start(config_for(pair, CHAIN, WARM, rule="mars"))
    first = next(run)
    for _ in range(100_000):
        next(clock)
    assert next(run).elapsed_s - first.elapsed_s < 100
