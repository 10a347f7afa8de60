"""Going on from prefix tokens: the rest of one's text is the same text, another token gives what
the target alone gives from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mars_core.models import Pair
from mars_core.models.idle import Engines
from mars_core.session import Session
from mars_core.telemetry import first_divergence
from mars_core.types import (
    Cause,
    DrafterConfig,
    PrefixToken,
    PromptConfig,
    RunConfig,
    Sampling,
    StopReason,
    Trace,
    TreeShape,
)
from tests.checkpoints import tiny_model
from tests.live_pairs import config_for, decoded, headed, pair_of, random_pair, searched
from tests.replay import replayed
from tests.unit.mars_core.byte_level import BYTES, byte_level_tokenizer

NEW = 16
DRAFTERS = {
    "none": DrafterConfig("none"),
    "chain": DrafterConfig("model", k=5),
    "ngram": DrafterConfig("ngram", k=3),
    "head, chain": DrafterConfig("eagle3", k=4),
    "head, tree": DrafterConfig("eagle3", tree=TreeShape(12, 4, 3)),
}
SAMPLINGS = [Sampling(0.0), Sampling(0.8, top_k=20, top_p=0.9)]


@pytest.fixture(scope="module")
def free() -> Pair:
    return headed(random_pair(noise=0.05, eos=frozenset()))


@pytest.fixture(params=["free passes", "exact passes", "captured steps"])
def pair(request: pytest.FixtureRequest, free: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    if request.param == "captured steps":
        replayed(monkeypatch)
    pair = free if request.param == "free passes" else searched(free)
    return replace(pair, graphs=request.param == "captured steps", engines=Engines())


def config(
    pair: Pair,
    name: str,
    sampling: Sampling = SAMPLINGS[0],
    *,
    stop: tuple[str, ...] = (),
    new: int = NEW,
    seed: int = 3,
    **options: Any,
) -> RunConfig:
    prompt = PromptConfig("once", stop=stop)
    return config_for(pair, DRAFTERS[name], sampling, prompt=prompt, new=new, seed=seed, **options)


def run(pair: Pair, name: str, *options: Any, **named: Any) -> Trace:
    return decoded(pair, config(pair, name, *options, **named))


def spans(trace: Trace) -> list[PrefixToken]:
    """Every output token with its characters, given or new."""
    return [
        *trace.given,
        *(PrefixToken(token.id, token.piece, token.start, token.end) for token in trace.tokens),
    ]


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize(
    ("sampling", "lengths"), [(SAMPLINGS[0], (1, NEW - 1)), (SAMPLINGS[1], (7,))], ids=str
)
def test_from_its_tokens_a_run_writes_the_rest_of_its_text(
    pair: Pair, name: str, sampling: Sampling, lengths: tuple[int, ...]
) -> None:
    original = run(pair, name, sampling)
    for n in lengths:
        rest = run(pair, name, sampling, prefix=original.token_ids[:n], new=NEW - n)
        assert (rest.text, spans(rest)) == (original.text, spans(original))
        assert rest.token_ids == original.token_ids[n:]
        assert [token.position for token in rest.tokens] == list(range(n, NEW))
        assert [token.own for token in rest.tokens] == [token.own for token in original.tokens[n:]]
        assert (rest.summary.new_tokens, rest.summary.prompt_tokens) == (
            NEW - n,
            original.summary.prompt_tokens,
        )
        assert (rest.prompt_ids, rest.config.prefix) == (
            original.prompt_ids,
            original.token_ids[:n],
        )
        assert first_divergence(original, rest) is None


@pytest.mark.parametrize(("n", "sampling"), [(0, SAMPLINGS[0]), (5, SAMPLINGS[1])], ids=str)
def test_from_another_token_strict_writes_what_the_target_alone_writes(
    pair: Pair, n: int, sampling: Sampling
) -> None:
    original = run(pair, "none", sampling)
    other = next(each.id for each in original.tokens[n].top if each.id != original.tokens[n].id)
    alone, *drafted = (
        run(pair, name, sampling, prefix=(*original.token_ids[:n], other)) for name in DRAFTERS
    )
    for trace in (alone, *drafted):
        assert trace.token_ids == alone.token_ids
        divergence = first_divergence(original, trace)
        assert divergence is not None
        assert (divergence.position, divergence.cause) == (n, Cause.CHOSEN)


@pytest.mark.parametrize(
    ("prefix", "new", "message"),
    [
        (
            (1, 10_000),
            8,
            "Token 1 of the given beginning has id 10000; this target's ids are 0 to ",
        ),
        (
            (1, 2, 7),
            8,
            "Token 2 of the given beginning, id 7, ends the text; nothing can follow it",
        ),
        ((7, 1), 8, "Token 0 of the given beginning, id 7, ends the text"),
        (
            (1,) * 250,
            8,
            "prompt has 4 tokens and the given beginning 250; 1 to 2 fit into the context of tests/target, 256 tokens",
        ),
        (
            (1,) * 252,
            1,
            "prompt and beginning alone do not fit into the context of tests/target, 256",
        ),
    ],
)
def test_bad_beginnings_are_named(
    free: Pair, prefix: tuple[int, ...], new: int, message: str
) -> None:
    ending = replace(free, eos_ids=frozenset((7,)))
    with pytest.raises(ValueError, match=message) as caught:
        Session(ending).start(config(ending, "chain", prefix=prefix, new=new))
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


def test_a_stop_string_must_end_in_a_new_token(free: Pair) -> None:
    original = run(free, "chain")
    prefix = original.token_ids[:8]
    inside = original.text[2:5]
    across = original.text[original.tokens[8].start - 2 : original.tokens[8].end]
    assert len(across) > 2
    assert inside not in original.text[3:], (
        "the stop string of this test stands in the given part only"
    )
    free_text = run(free, "chain", prefix=prefix, new=NEW - 8, stop=(inside,))
    assert (free_text.stop_reason, free_text.text) == (StopReason.LENGTH, original.text)
    stopped = run(free, "chain", prefix=prefix, new=NEW - 8, stop=(across,))
    assert stopped.stop_reason is StopReason.STOP_STRING
    assert len(stopped.tokens) == 1


def test_a_run_that_never_began_has_the_text_of_its_prefix(free: Pair) -> None:
    original = run(free, "chain")
    trace = Session(free).start(config(free, "chain", prefix=original.token_ids[:5])).trace()
    assert trace.text == original.text[: original.tokens[4].end]
    assert (trace.given, trace.tokens) == (tuple(spans(original)[:5]), ())


@pytest.fixture(scope="module")
def bytes_pair() -> Pair:
    """A pair whose tokens are bytes."""
    return pair_of(
        tiny_model("llama", vocab_size=BYTES + 1), None, byte_level_tokenizer(), frozenset()
    )


@pytest.mark.parametrize("seed", range(2))
def test_text_and_spans_are_the_same_wherever_bytes_are_cut(bytes_pair: Pair, seed: int) -> None:
    """Noise in bytes is full of characters that are never finished, and of some that are."""
    original = run(bytes_pair, "ngram", Sampling(2.0), seed=seed)
    assert any(token.start == token.end for token in original.tokens)
    for n in range(NEW):
        rest = run(
            bytes_pair,
            "ngram",
            Sampling(2.0),
            seed=seed,
            prefix=original.token_ids[:n],
            new=NEW - n,
        )
        assert (rest.text, spans(rest)) == (original.text, spans(original))
