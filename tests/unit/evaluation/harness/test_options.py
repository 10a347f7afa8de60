"""Arguments of the model ``mars`` and of a task, as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.harness.model import MarsLM
from evaluation.harness.options import NAMES, OptionError, read_generation, read_options
from evaluation.harness.telemetry import Telemetry, pooled
from mars_core.arguments import read_drafter
from mars_core.rules import RULES
from mars_core.types import DrafterConfig, DraftMode, Sampling, TreeShape
from tests.unit.evaluation.harness.conftest import HERE, ask

DOCS = Path(__file__).parents[4] / "docs"


def test_every_argument_is_in_the_documentation() -> None:
    text = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    missing = [name for name in NAMES if f"`{name}`" not in text]
    assert not missing


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.parameters], ids=lambda rule: rule.name)
def test_every_parameter_of_every_rule_may_stand_beside_it(rule: Any) -> None:
    given = {parameter.name: parameter.high for parameter in rule.parameters}
    assert read_options({"rule": rule.name, **given}).rule_config.parameters == given
    assert not {parameter.name for parameter in rule.parameters} & set(NAMES)


@pytest.mark.parametrize("none", ["none", None])
def test_none_is_no_default(none: str | None, bundled: dict[str, Any]) -> None:
    """lm-eval makes None of the word in ``drafter=none``."""
    pair = bundled["none"].pair
    for name in ("rule", "drafter"):
        options = read_options({name: none})
        assert getattr(options, name) == "none"
    assert read_drafter(read_options({"drafter": none, "rule": "strict"}), pair) == DrafterConfig("none")


def test_drafters_are_named_as_on_the_command_line(bundled: dict[str, Any]) -> None:
    pair = bundled["eagle3"].pair
    asked: dict[str, dict[str, Any]] = {
        "pair's own": {},
        "ngram": {"drafter": "ngram", "k": 3},
        "tree": {"drafter": "eagle3"},
        "chain": {"drafter": "eagle3:some/folder", "chain": True, "k": 4},
    }
    found = {name: read_drafter(read_options(given), pair) for name, given in asked.items()}
    assert found == {
        "pair's own": DrafterConfig("model"),
        "ngram": DrafterConfig("ngram", k=3),
        "tree": DrafterConfig("eagle3", tree=TreeShape()),
        "chain": DrafterConfig("eagle3", k=4),
    }
    assert read_drafter(read_options({"draft_mode": "sampled"}), pair).mode is DraftMode.SAMPLED


@pytest.mark.parametrize(
    ("given", "sampling", "length"),
    [
        ({}, Sampling(), 99),
        ({"do_sample": False, "temperature": 1.0, "max_gen_toks": 7}, Sampling(), 7),
        ({"temperature": 0.7, "top_p": 0.9, "top_k": 20}, Sampling(0.7, 20, 0.9), 99),
        ({"do_sample": True}, Sampling(1.0), 99),
        ({"do_sample": True, "temperature": 0.5, "top_k": None, "top_p": None, "num_beams": 1}, Sampling(0.5), 99),
    ],
)
def test_generation_is_read_as_lm_eval_means_it(given: dict[str, Any], sampling: Sampling, length: int) -> None:
    found = read_generation(given, "</s>", 99)
    assert (found.sampling, found.max_new_tokens, found.until) == (sampling, length, ("</s>",))


@pytest.mark.parametrize("given", [{"num_beams": 4}, {"repetition_penalty": 1.1}, {"max_length": 9}])
def test_what_would_change_the_answers_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        read_generation(given, None, 99)


def test_lm_evals_seed_is_the_models_unless_it_has_one(tiny: dict[str, Any]) -> None:
    target = tiny["none"].pair.target_ref.name
    answers = []
    for lm_evals, own in ((5, None), (6, 5), (6, None)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(lm_evals)
            model = MarsLM(target=target, rule="none", seed=own, **HERE)
        answers += ask(model, "ab", do_sample=True, temperature=1.0)
    assert answers[0] == answers[1] != answers[2]


def test_telemetry_is_on_disk_as_soon_as_an_answer_is_there(tmp_path: Path) -> None:
    telemetry = Telemetry(str(tmp_path / "new"), 1)
    numbers = ("new_tokens", "steps", "wall_s", "drafted", "accepted", "relaxed", "tv_sum", "log_likelihood")
    for value in (2, 4):
        telemetry.add(dict.fromkeys(numbers, value))
        assert telemetry.path is not None and telemetry.path.read_text(encoding="utf-8").count("\n") == value // 2
    assert telemetry.path is not None and telemetry.path.name.endswith("_rank1.jsonl")
    assert pooled(telemetry.rows)["tau"] == 1.0 and pooled(telemetry.rows)["tv_sum"] == 3.0
    assert pooled([])["tau"] is None
