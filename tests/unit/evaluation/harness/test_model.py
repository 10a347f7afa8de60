"""The model mars as lm-eval asks it: its arguments and those of a task, and the answers of hf,
without drafts and with strict ones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.harness.options import NAMES, OptionError, read_generation, read_options
from evaluation.harness.telemetry import pooled
from mars_core.models import BUNDLED_PAIR
from mars_core.types import DrafterConfig, DraftMode, Processors, Sampling, TreeShape
from tests.unit.evaluation.calls import expect
from tests.unit.evaluation.harness.conftest import HERE, generate, request

DOCS = Path(__file__).parents[4] / "docs"


def test_every_argument_is_in_the_documentation() -> None:
    text = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    missing = [name for name in NAMES if f"`{name}`" not in text]
    assert not missing


def test_drafters_are_named_as_on_the_command_line() -> None:
    chains = replace(BUNDLED_PAIR, drafter="eagle3", k=3, tree=None)
    sampled = DrafterConfig("model", mode=DraftMode.SAMPLED)
    for pair, arguments, expected in (
        (BUNDLED_PAIR, {}, DrafterConfig("model")),
        (BUNDLED_PAIR, {"draft_mode": "sampled"}, sampled),
        (BUNDLED_PAIR, {"drafter": "ngram", "k": 3}, DrafterConfig("ngram", k=3)),
        (BUNDLED_PAIR, {"drafter": "eagle3"}, DrafterConfig("eagle3", tree=BUNDLED_PAIR.tree)),
        (
            BUNDLED_PAIR,
            {"drafter": "eagle3:some/folder", "tree": "chain", "k": 4},
            DrafterConfig("eagle3", k=4),
        ),
        (chains, {"k": 4}, DrafterConfig("eagle3", k=4)),
        (chains, {"tree": "8/6/2"}, DrafterConfig("eagle3", k=3, tree=TreeShape(8, 6, 2))),
    ):
        assert read_options(arguments).settings.config(pair) == expected


def another(by_kind: dict[str, Any], **arguments: Any) -> Any:
    """The model mars with the same target."""
    from evaluation.harness.model import MarsLM

    return MarsLM(target=str(by_kind["none"].pair.target_ref.name), **arguments, **HERE)


PENALISED = Processors(repetition_penalty=1.3, no_repeat_ngram_size=2)
BIASED = Processors(logit_bias=(("[4, 5]", 2.0), ("[6]", -math.inf)))


@pytest.mark.parametrize(
    ("settings", "sampling", "length"),
    [
        ({}, Sampling(), 99),
        ({"do_sample": False, "temperature": 1.0, "max_gen_toks": 7}, Sampling(), 7),
        ({"temperature": 0.7, "top_p": 0.9, "top_k": 20}, Sampling(0.7, 20, 0.9), 99),
        ({"do_sample": True}, Sampling(1.0), 99),
        ({"temperature": None, "max_gen_toks": "7"}, Sampling(), 7),
        ({"max_gen_toks": None, "max_new_tokens": 5}, Sampling(), 5),
        ({"max_tokens": 5}, Sampling(), 5),
        (
            {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_p": None},
            Sampling(processors=PENALISED),
            99,
        ),
        (
            {"do_sample": True, "min_p": 0.1, "typical_p": 0.9},
            Sampling(1.0, processors=Processors(0.1, 0.9)),
            99,
        ),
        ({"sequence_bias": [[[4, 5], 2]], "bad_words_ids": [[6]]}, Sampling(processors=BIASED), 99),
        ({"sequence_bias": {(4, 5): 2.0}, "bad_words_ids": [[6]]}, Sampling(processors=BIASED), 99),
        (
            {"do_sample": True, "temperature": 0.5, "top_k": None, "top_p": None, "num_beams": 1},
            Sampling(0.5),
            99,
        ),
    ],
)
def test_generation_is_read_as_lm_eval_means_it(
    settings: dict[str, Any], sampling: Sampling, length: int
) -> None:
    generation = read_generation(settings, "</s>", 99)
    expect(generation, sampling=sampling, max_new_tokens=length, until=("</s>",))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_beams": 4}, "num_beams=4"),
        ({"bad_words_ids": [6]}, r"bad_words_ids \[6\]; they must be a list of pairs"),
        ({"bad_words_ids": [[-1]]}, "whole numbers from 0 on"),  # no text "[-1]" is banned
        ({"sequence_bias": [[[1], "x"]]}, "sequence_bias is .*'x'"),
        ({"max_gen_toks": "abc"}, "max_gen_toks is 'abc'; it must be a whole number"),
        ({"until": 5}, "A value of until is 5; it must be a text"),
    ],
)
def test_what_would_change_the_answers_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read_generation(settings, None, 99)


@pytest.mark.parametrize(
    ("context", "settings", "sentence"),
    [
        ("ab", {"temperature": -1.0}, "temperature is -1; it must be a number from 0 to 100"),
        ("ab", {"max_gen_toks": 0}, "max_new_tokens is 0"),
        ("", {}, "The prompt is empty"),
    ],
)
def test_an_answer_that_cannot_be_written_is_one_sentence(
    tiny: dict[str, Any], context: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(OptionError, match=sentence):
        generate(tiny["strict"], context, **settings)


def test_what_theta_means_on_the_pair_is_in_the_log(
    tiny: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        another(tiny, rule="mars", theta=0.8)
    assert "On this pair θ = 0.8 calls" in caplog.text


def test_lm_evals_seed_is_the_models_unless_it_has_one(tiny: dict[str, Any]) -> None:
    answers = []
    for lm_evals, seed in ((5, None), (6, 5), (6, None)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(lm_evals)
            model = another(tiny, rule="none", seed=seed)
        answers += generate(model, "ab", do_sample=True, temperature=1.0)
    assert answers[0] == answers[1] != answers[2]


PROMPTS = ("Once upon a time", "2 + 2 =", "a\nb", "Grüße, 世界", " ")


def assert_alike(by_kind: dict[str, Any], *contexts: str, **generation: Any) -> list[str]:
    """All models give the answers of ``hf``; returns them."""
    answers = {name: generate(model, *contexts, **generation) for name, model in by_kind.items()}
    for name, texts in answers.items():
        assert texts == answers["hf"], name
    return answers["hf"]


@pytest.mark.parametrize("kind", ["tiny", "with_bos"])
def test_same_answers_as_hf(kind: str, request: pytest.FixtureRequest) -> None:
    answers = assert_alike(request.getfixturevalue(kind), *PROMPTS)
    assert len(set(answers)) > 2


def test_a_stop_string_cuts_as_hf_cuts(with_bos: dict[str, Any]) -> None:
    prompt, full = max(
        zip(PROMPTS, generate(with_bos["hf"], *PROMPTS), strict=True), key=lambda pair: len(pair[1])
    )
    for stops in (
        [full[3]],
        [full[6:9]],
        ["never there", full[10:12], full[5:7]],
        full[4:6],
        [],
    ):
        answers = assert_alike(with_bos, prompt, PROMPTS[1], until=stops)
        assert len(answers[0]) < len(full) or not stops


def test_a_chat_template_is_written_and_read_as_in_hf(with_bos: dict[str, Any]) -> None:
    conversation = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    texts = {
        (
            model.apply_chat_template(conversation),
            model.apply_chat_template(conversation, add_generation_prompt=False),
        )
        for model in with_bos.values()
    }
    assert len(texts) == 1
    context = texts.pop()[0]
    ids = with_bos["hf"].tok_batch_encode([context])[0][0].tolist()
    assert ids.count(with_bos["hf"].tokenizer.bos_token_id) == 1
    assert with_bos["strict"].tok_encode(context) == ids
    assert_alike(with_bos, context)


def test_thinking_reaches_a_template_that_has_the_switch_and_is_refused_by_another(
    with_bos: dict[str, Any],
) -> None:
    model = another(with_bos, rule="none", enable_thinking=False)
    conversation = [{"role": "user", "content": "Hi"}]
    with pytest.raises(
        OptionError, match="thinking is off, but the chat template of this model has no such switch"
    ):
        model.apply_chat_template(conversation)
    model.tokenizer.chat_template = (
        "{{ messages[0].content }}{% if enable_thinking is false %} without{% endif %}"
    )
    assert model.apply_chat_template(conversation) == "Hi without"


def test_the_answer_is_what_follows_the_end_of_the_thinking(tiny: dict[str, Any]) -> None:
    full = generate(tiny["none"], PROMPTS[0])[0]
    mark = full[6:9]
    model = another(tiny, rule="none", think_end_token=mark)
    assert generate(model, PROMPTS[0]) == [full.rpartition(mark)[2].lstrip()]


def test_a_tasks_stops_are_for_the_answer_and_not_for_the_thinking_before_it(
    tiny: dict[str, Any],
) -> None:
    full = generate(tiny["none"], PROMPTS[0])[0]
    mark, thinks = full[6:9], full[:6]
    answer = full.rpartition(mark)[2].lstrip()
    stop = next(
        letter for letter in answer[1:] if letter in thinks or letter in full.rpartition(mark)[0]
    )
    model = another(tiny, rule="strict", think_end_token=mark)
    assert generate(model, PROMPTS[0], until=[stop]) == [answer.partition(stop)[0]]
    row = model.telemetry[-1]
    assert (row["status"], row["stop_reason"]) == ("completed", "stop_string")


def test_a_prompt_that_is_too_long_loses_its_beginning_as_in_hf(with_bos: dict[str, Any]) -> None:
    long = "abc" * (with_bos["hf"].max_length // 3)
    assert_alike(with_bos, long, max_gen_toks=8)
    assert (
        with_bos["strict"].telemetry[-1]["cut_tokens"]
        == len(long) + 1 + 8 - with_bos["hf"].max_length
    )


def test_sampling_repeats_and_differs_between_documents_and_repeats(tiny: dict[str, Any]) -> None:
    model = tiny["none"]
    sampled: dict[str, Any] = {"do_sample": True, "temperature": 1.0}
    twice = [generate(model, "ab", "ab", **sampled) for _ in "12"]
    assert twice[0] == twice[1] and twice[0][0] != twice[0][1]
    repeated = request("ab", repeats=2, **sampled)
    first, second = model.generate_until([repeated, repeated], disable_tqdm=True)
    assert first == twice[0][0] != second


def test_answers_of_a_batch_are_those_of_single_runs(with_bos: dict[str, Any]) -> None:
    single = with_bos["strict"]
    together = another(with_bos, rule="strict", drafter=str(single.pair.draft_ref.name))
    together.batch = 2
    long = "abc" * (single.max_length // 3)  # loses its beginning: it runs alone
    contexts = ["ab", "cd", long, "gh"]
    assert generate(together, *contexts) == generate(single, *contexts)
    rows = sorted(
        (row["doc_id"], row["batch"], row["wall_s"] is None) for row in together.telemetry
    )
    assert rows == [(0, 2, True), (1, 2, True), (2, 1, False), (3, 2, True)]
    assert pooled(together.telemetry)["tokens_per_s"] is None
    assert another(with_bos, batch_size="auto:3").batch == 16


def test_ranking_answers_is_refused_in_a_sentence(tiny: dict[str, Any]) -> None:
    for method in ("loglikelihood", "loglikelihood_rolling"):
        with pytest.raises(OptionError, match="generate_until"):
            getattr(tiny["none"], method)([])
