"""Parameters that depend on the position: every token is decided as by the rule with the value
there, and what the state of a run says is what its trace has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, cycle, product

import pytest
import torch
from tokenizers import AddedToken

from mars_core import verification
from mars_core.models import Pair
from mars_core.rules import RULES, expressions, split_values
from mars_core.rules.expression import parse
from mars_core.session import Session
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    Outcome,
    Processors,
    RunConfig,
    Sampling,
    Token,
    Trace,
    TreeShape,
)
from mars_core.verification import Known, RunState, Span, Terms, chain_draft
from tests.checkpoints import tiny_model, tiny_tokenizer
from tests.live_pairs import DRAFTS, config_for, decoded, disturbed, headed, pair_of, ready_pair
from tests.unit.mars_core.test_verification import (
    CHAINS,
    SAMPLINGS,
    TREES,
    VALUES,
    decide,
    drawn_case,
    takes,
)
from tests.unit.mars_core.test_verification import (
    decoded as decoded_rows,
)

RELAXING = [name for name, rule in RULES.items() if not rule.lossless]
LIVE = {
    **{name: each for name, each in DRAFTS.items() if "chain" in name},
    "greedy tree": DrafterConfig("eagle3", tree=TreeShape(9, 3, 3), mode=DraftMode.GREEDY),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.9 - 0.1*min(1, entropy/2)", 0.9 - 0.1 * 0.25),
        ("max(p1, 0.2, gap) if position >= 3 else 0", 1.5),
        ("-exp(log(2)) + abs(-3)", 1.0),
        ("(tv < 0.05*position) * 0.5", 0.5),
        ("thinking('[', ']') + 2", 3.0),
        ("1", 1.0),
    ],
)
def test_an_expression_is_its_arithmetic(text: str, value: float) -> None:
    known = {"entropy": 0.5, "p1": 0.6, "gap": 1.5, "position": 3.0, "thinking": 1.0, "tv": 0.1}
    variables = {
        name: torch.full((2, 1), each, dtype=torch.float64) for name, each in known.items()
    }
    assert parse(text).value(variables).flatten().tolist() == pytest.approx([value] * 2)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "9**9**9",
        "lambda: 1",
        "theta",
        "min()",
        "exp(1, 2)",
        "thinking('a')",
        "'a'",
        "1 < p1 < 2",
        "9" * 199 + ".0e300",
        "(" * 190,
        "-" * 60 + "1",
        "1" + "+1" * 100,
        "1\0",
        "",
        "thinking + thinking('a', 'b')",
    ],
)
def test_what_is_not_arithmetic_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^theta (is|has) ") as refused:
        RULES["mars"].values({"theta": text or " "})
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 600


def test_values_are_parted_at_commas_outside_of_parentheses_and_quotes() -> None:
    assert split_values("0.9,min(1, max(p1, 0.2)), 1") == ["0.9", "min(1, max(p1, 0.2))", "1"]
    quoted = ["thinking('(', ')')", "thinking(')', '\\')')", "1", 'thinking(",", "it\'s")', "2"]
    assert split_values(", ".join(quoted)) == quoted
    assert split_values("it's, 2") == ["it's, 2"]  # to the end where no quote closes it
    with pytest.raises(ValueError, match="one whole number"):
        RULES["topk-ratio"].values({"n": "position"})
    assert RULES["mars"].values({"theta": "0.5", "where": 1}) == {"theta": 0.5, "where": "1"}
    assert expressions({"a": "p1", "b": 1.0}).keys() == {"a"}


def live_cases(rule: str) -> Iterator[tuple[DraftMode, str, Sampling]]:
    """Every mode and shape that the rule judges, at one temperature after the other."""
    samplings = cycle(SAMPLINGS)
    for mode, tree in product(RULES[rule].modes, TREES):
        if takes(rule, tree) and (mode is not DraftMode.SAMPLED or tree in CHAINS):
            for _ in range(2):
                yield mode, tree, next(samplings)


@pytest.mark.parametrize("rule", [name for name in RELAXING if name != "fly"])
def test_every_token_is_decided_as_by_the_rule_with_the_value_there(rule: str) -> None:
    """And so are TV and KL. (fly decides several at once.)"""
    usual = VALUES.get(rule, {})
    varied = [each for each in RULES[rule].parameters if not each.is_integer]
    for (mode, tree, sampling), parameter in product(live_cases(rule), varied):
        usual_value = usual.get(parameter.name, parameter.default)
        dynamic = {**usual, parameter.name: f"{usual_value} * (0.5 + entropy/2)"}
        logits, draft, u = drawn_case(tree, 5)
        options = draft, rule, sampling, u
        rows = decide(logits, *options, dynamic, mode)
        for number, node in enumerate(rows.nodes):
            assert parameter.low <= node.parameter <= parameter.high
            fixed = decide(logits, *options, {**usual, parameter.name: node.parameter}, mode)
            other = fixed.nodes[number]
            assert (node.emit, node.tv, node.kl) == pytest.approx(
                (other.emit, other.tv, other.kl), abs=1e-9, nan_ok=True
            )
            for child in rows.children[number]:
                one, other = rows.nodes[child], fixed.nodes[child]
                assert (one.keep, one.strict) == (other.keep, other.strict)
                assert one.forgiveness == pytest.approx(other.forgiveness, abs=1e-9)


@pytest.mark.parametrize("rule", RELAXING)
def test_outside_of_its_scope_strict_decides(rule: str) -> None:
    usual, seen = VALUES.get(rule, {}), set()
    for seed, (mode, tree, sampling) in enumerate(live_cases(rule)):
        logits, draft, u = drawn_case(tree, seed)
        scoped, all_, none = (
            decide(logits, draft, name, sampling, u, values, mode)
            for name, values in (
                (rule, {**usual, "where": "position == 1"}),
                (rule, usual),
                ("strict", {}),
            )
        )
        for number, node in enumerate(scoped.nodes):
            inside = int(draft.depths[number]) == 1
            if rule == "fly" and inside:  # its window ends outside
                continue
            seen.add(inside)
            expected = all_ if inside else none
            other = expected.nodes[number]
            assert (node.parameter, node.emit) == (inside, other.emit)
            assert (node.tv, node.kl) == pytest.approx((other.tv, other.kl), nan_ok=True)
            if not (math.isnan(node.overshoot) or math.isnan(other.overshoot)):
                assert node.overshoot == pytest.approx(other.overshoot)
            for child in scoped.children[number]:
                assert scoped.nodes[child].keep == expected.nodes[child].keep
    assert seen == ({False} if rule == "fly" else {False, True})


@pytest.mark.parametrize("before", [False, True])
def test_thinking_is_read_along_the_draft(before: bool) -> None:
    """From the token after the first of the span to the one that ends it."""
    ids, span = torch.tensor([0, 4, 2, 5, 1]), Span(4, 5)
    logits, _, u = drawn_case("chain of 3", 0)
    u = replace(u, uniform=u.uniform[:1].expand(5), noise=u.noise[:1].expand(5, -1))
    draft, run = chain_draft(ids, torch.ones(4)), RunState(7, before, 0.5)
    sent = torch.tensor(run.words).view(torch.float64)
    values = {"theta": "thinking*0.5 + position/100 + tv/1000"}
    terms = Terms(RULES["mars"], values, Sampling(1.0), DraftMode.GREEDY, span=span)
    known = Known(logits[:1].expand(5, -1), u, run=sent)
    rows = decoded_rows(verification.decide(terms, draft, known))
    inside = [before, True, True, False, False]
    expected = [0.5 * phase + (7 + at) / 100 + 0.0005 for at, phase in enumerate(inside)]
    assert [node.parameter for node in rows.nodes] == pytest.approx(expected)
    assert span.inside(ids.tolist()[1:], before) is False and span.inside([4, 2], before)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return ready_pair()


def spent_before(trace: Trace) -> Iterator[tuple[Token, float]]:
    """Every token with the TV of the steps before its own."""
    sums = accumulate(
        (sum(token.tv for token in step.emitted) for step in trace.steps), initial=0.0
    )
    for step, spent in zip(trace.steps, sums, strict=False):
        for token in step.tokens:
            yield token, spent


DYNAMIC = {"theta": "0.4 + 0.1*min(4, entropy) + 0.001*position + 0.01*tv"}


@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(1.0)], ids=str)
@pytest.mark.parametrize("name", LIVE)
def test_the_value_of_a_parameter_follows_from_the_trace(
    pair: Pair, name: str, sampling: Sampling
) -> None:
    config = config_for(pair, LIVE[name], sampling, rule="mars", new=24, **DYNAMIC)
    for token, spent in spent_before(decoded(pair, config)):
        expected = 0.4 + 0.1 * min(4, token.entropy) + 0.001 * token.position + 0.01 * spent
        assert token.parameter == pytest.approx(min(1, expected), abs=1e-5)


@pytest.mark.parametrize("rule", ["threshold", "typical"])
def test_of_several_expressions_the_value_is_that_of_the_first_one_displayed(
    pair: Pair, rule: str
) -> None:
    names = [parameter.name for parameter in RULES[rule].parameters]
    values = {name: f"0.{number} + 0*p1" for number, name in enumerate(names, start=3)}
    config = config_for(pair, LIVE["greedy chain"], Sampling(1.0), rule=rule, new=6, **values)
    trace = decoded(
        pair, replace(config, rule=replace(config.rule, parameters=dict(reversed(values.items()))))
    )
    assert [*trace.config.rule.parameters] == names
    assert {token.parameter for token in trace.tokens} == {0.3}


def budget(pair: Pair, share: float, **options: object) -> RunConfig:
    where = f"tv < {share}*position"
    return config_for(pair, LIVE["greedy chain"], rule="always", where=where, new=60, **options)


@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(1.0)], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_a_tv_budget_is_exceeded_by_one_step_at_most(
    pair: Pair, share: float, sampling: Sampling
) -> None:
    trace = decoded(pair, budget(pair, share, sampling=sampling))
    spent = 0.0
    for step in trace.steps:
        before, first = spent, step.tokens[0].position
        spent += sum(token.tv for token in step.emitted)
        assert spent <= max(before, share * step.emitted[-1].position + step.kept) + 1e-9
        assert spent == before or before < share * (first + step.kept)
    assert (spent > 0) is (share > 0)


@pytest.mark.parametrize("scope", [True, False], ids=["thinking", "answer"])
@pytest.mark.parametrize("name", [name for name in LIVE if "chain" in name])
def test_a_scope_begins_and_ends_with_the_token_after_the_mark_within_an_accepted_block(
    name: str, scope: bool
) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([AddedToken("<think>"), AddedToken("</think>")])
    target = tiny_model("llama", vocab_size=len(tokenizer))
    pair = headed(pair_of(target, disturbed(target, 0.05), tokenizer, frozenset()))
    end = tokenizer.convert_tokens_to_ids("</think>")
    often = Sampling(
        2.0, processors=Processors(logit_bias=(("<think>", -math.inf), (f"[{end}]", 8)))
    )
    after = 0
    for seed in range(6):
        trace = decoded(
            pair,
            config_for(
                pair,
                LIVE[name],
                often,
                rule="always",
                prompt="once <think> upon",
                seed=seed,
                where="thinking" if scope else "1 - thinking",
            ),
        )
        ended = False
        for step in trace.steps:
            before = ended
            for token in step.emitted:
                inside = ended is not scope
                assert token.parameter == inside
                assert inside or token.outcome is not Outcome.RELAXED
                after += ended and not before
                ended = ended or token.id == end
    answer = decoded(pair, replace(trace.config, prefix=(5, end, 6)))
    assert {token.parameter for token in answer.tokens} == {not scope}
    assert after > 0


@pytest.mark.parametrize(
    ("drafter", "values", "message"),
    [
        ("greedy chain", {"where": "thinking"}, "this target has no token '<think>'"),
        ("greedy chain", {"where": "thinking", "probability": "thinking('a', 'b')"}, "one"),
        ("greedy chain", {"where": "thinking('|', '|')"}, "'|' and '|' are one token"),
        ("coupled tree", {"where": "tv < 1"}, "where reads tv, which is missing on these drafts"),
        ("greedy chain", {"probability": "1 +"}, "probability is '1 \\+'"),
    ],
)
def test_what_a_run_does_not_have_is_named(
    pair: Pair, drafter: str, values: dict[str, str], message: str
) -> None:
    drafters = LIVE | {"coupled tree": DrafterConfig("eagle3", tree=TreeShape(9, 3, 3))}
    config = config_for(pair, drafters[drafter], Sampling(1.0), rule="random", **values)
    with pytest.raises(ValueError, match=message):
        Session(pair).check(config)
