"""Classifiers of the target's hidden states: what they read, what is refused, and runs of rules
that read their score."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.models.classifier import (
    KIND,
    Classifier,
    ClassifierConfig,
    Reads,
    load_classifier,
    plan_classifier,
)
from mars_core.models.errors import ModelError
from mars_core.models.idle import Engines
from mars_core.models.loading import plan
from mars_core.session import Session
from mars_core.settings import Settings
from mars_core.types import (
    DraftMode,
    ModelRef,
    Outcome,
    Sampling,
    ShiftKind,
)
from tests.live_pairs import DRAFTS, config_for, decoded, loaded_pair, random_pair, ready_pair


def classified(pair: Pair, reads: Reads = Reads.TOKEN) -> Pair:
    """With a random classifier, whose scores are on both sides of 0.5."""
    torch.manual_seed(5)
    width = pair.target.config.get_text_config().hidden_size
    classifier = Classifier(ClassifierConfig(reads, width)).requires_grad_(False)
    ref = ModelRef("tests/classifier", "3" * 40)
    return replace(pair, classifier=classifier, classifier_ref=ref, engines=Engines())


@pytest.fixture(scope="module")
def pair() -> Pair:
    return classified(ready_pair())


def score(pair: Pair, ids: tuple[int, ...]) -> float:
    """By a plain pass."""
    assert pair.classifier is not None
    read = pair.target.get_decoder()(torch.tensor([ids]), use_cache=False).last_hidden_state
    return float(pair.classifier(read[0, -1:]))


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "temperature"),
    [*((each, 1.0) for each in DRAFTS), ("greedy chain", 0.0), ("tree", 0.0)],
)
def test_a_run_relaxes_what_the_classifier_calls_harmless_and_nothing_else(
    pair: Pair, name: str, temperature: float
) -> None:
    sampling = Sampling(temperature)
    configs = [
        config_for(pair, DRAFTS[name], sampling, rule="judge", new=30, seed=seed, harm=harm)
        for seed, harm in enumerate((0.5, 0.0))
    ]
    trace, strict = (decoded(pair, config) for config in configs)
    assert trace.config.environment["classifier"] == "tests/classifier@" + "3" * 40
    outcomes = set()
    for token in (token for step in trace.steps for token in step.tokens):
        before = (*trace.prompt_ids, *trace.token_ids[: token.position])
        if token.outcome in (Outcome.RELAXED, Outcome.REJECTED):
            harmless = score(pair, (*before, token.id)) < 0.5
            assert harmless is (token.outcome is Outcome.RELAXED)
            outcomes.add(token.outcome)
    assert Outcome.RELAXED in outcomes
    alone = config_for(pair, DRAFTS[name], sampling, new=30, seed=1)
    assert strict.token_ids == decoded(pair, alone).token_ids
    exact = trace.config.drafter.mode is DraftMode.GREEDY or not sampling.temperature
    kind = ShiftKind.EXACT if exact else ShiftKind.MISSING
    assert trace.config.shift_kind is kind


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_transformers_modules_are_read_too(kind: str, tmp_path: Path) -> None:
    pair = classified(loaded_pair(kind, tmp_path, fast=False), Reads.POSITION)
    config = config_for(
        pair, DRAFTS["coupled chain"], rule="lenience", new=16, lenience="1e-6 + score"
    )
    trace = decoded(pair, config)
    for token in trace.tokens:
        before = (*trace.prompt_ids, *trace.token_ids[: token.position])
        assert token.parameter == pytest.approx(1e-6 + score(pair, before), abs=1e-4)


def test_the_score_of_the_position_is_a_weight(pair: Pair) -> None:
    """DIVERSED: ensemble with a weight of each position, whose distribution is exact."""
    other = classified(pair, Reads.POSITION)
    config = config_for(
        other, DRAFTS["sampled chain"], Sampling(1.0), rule="ensemble", weight="score"
    )
    trace = decoded(other, config)
    assert trace.config.shift_kind is ShiftKind.EXACT
    for token in trace.tokens:
        before = (*trace.prompt_ids, *trace.token_ids[: token.position])
        assert token.parameter == pytest.approx(score(other, before), abs=1e-5)


@pytest.mark.parametrize(
    ("reads", "options", "why"),
    [
        (None, {"rule": "judge"}, "Rule judge reads the score of a classifier of the token.*none"),
        (Reads.POSITION, {"rule": "judge"}, "of the token, and the pair custom has position"),
        (None, {"rule": "mars", "theta": "score"}, "theta reads .* of the position.*none"),
        (Reads.TOKEN, {"rule": "mars", "where": "score"}, "of the position, .* has token"),
        (Reads.TOKEN, {"rule": "judge", "harm": "score"}, "harm reads .* position, .* has token"),
    ],
)
def test_a_pair_without_the_classifier_is_refused(
    pair: Pair, reads: Reads | None, options: dict[str, Any], why: str
) -> None:
    other = replace(pair, classifier=None) if reads is None else classified(pair, reads)
    with pytest.raises(ValueError, match=why):
        Session(other).check(config_for(other, DRAFTS["coupled chain"], **options))


def test_the_bundled_pair_brings_a_classifier_which_a_run_records_where_it_reads_it() -> None:
    pair = ModelPool(device="cpu").get(BUNDLED_PAIR)
    assert pair.classifier and pair.classifier_ref and pair.classifier.reads is Reads.TOKEN
    prompt = BUNDLED_PAIR.prompts[1]
    judge, mars = (
        decoded(pair, config_for(pair, DRAFTS["greedy chain"], rule=rule, prompt=prompt, new=48))
        for rule in ("judge", "mars")
    )
    recorded = f"bundled/classifier@{pair.classifier_ref.revision}"
    assert judge.config.environment["classifier"] == recorded
    assert any(token.outcome is Outcome.RELAXED for token in judge.tokens)
    assert "classifier" not in mars.config.environment


def test_an_option_overrides_the_pair_s_classifier(tmp_path: Path) -> None:
    other = stored(tmp_path, hidden_size=256)
    spec = Settings(pair="bundled", classifier=other.name).spec()
    plans = plan(spec, lambda _: None)
    assert plans.classifier and plans.classifier.ref == other
    headed = Settings(pair="bundled", head="./head").spec()
    assert headed.classifier == BUNDLED_PAIR.classifier == ModelRef("bundled/classifier")


def stored(folder: Path, inner: int = 0, **changes: object) -> ModelRef:
    config = ClassifierConfig(Reads.TOKEN, 16, inner)
    raw = {"model_type": KIND, **config._asdict()} | changes
    (folder / "config.json").write_text(json.dumps(raw), encoding="utf-8")
    save_file(Classifier(config).state_dict(), folder / "model.safetensors")
    return ModelRef(str(folder))


def read(ref: ModelRef, width: int = 16) -> Classifier:
    target = random_pair().target.config
    target.hidden_size = width
    plan = plan_classifier(ref, target, "the target", lambda _: None)
    return load_classifier(plan, torch.device("cpu"), lambda _: None)[0]


@pytest.mark.parametrize("inner", [0, 3])
def test_a_folder_is_read_as_it_was_saved(tmp_path: Path, inner: int) -> None:
    torch.manual_seed(1)
    classifier, states = read(stored(tmp_path, inner)), torch.randn(4, 20)
    tensors = classifier.state_dict()
    hidden = states[:, 4:]
    if inner:
        hidden = torch.nn.functional.silu(
            hidden @ tensors["layers.0.weight"].T + tensors["layers.0.bias"]
        )
    last = f"layers.{2 if inner else 0}"
    expected = (hidden @ tensors[f"{last}.weight"].T + tensors[f"{last}.bias"]).sigmoid()
    torch.testing.assert_close(classifier(states), expected)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model_type": "llama"}, "model_type .* must be token-classifier"),
        ({"reads": "text"}, "reads .* is 'text'; it must be token or position"),
        ({"hidden_size": 8}, "hidden_size .* is '8'; it must be 16, as in the target"),
        ({"intermediate_size": -1}, "intermediate_size .* must be 0"),
        ({"intermediate_size": "x" * 99}, "intermediate_size .* must be 0"),
        ({"intermediate_size": 5}, "do not fit its config.json: layers.0.weight"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        read(stored(tmp_path, **changes))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    ref = stored(tmp_path)
    tensors = Classifier(ClassifierConfig(Reads.TOKEN, 16)).state_dict()
    tensors["layers.0.bias"][:] = torch.nan
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="not finite"):
        read(ref)
