"""Labels of a classifier, and what it learns from them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluation.item import Item, Suite
from evaluation.scoring.names import STRICT
from evaluation.suites.read import read_suite
from mars_core.models import BUNDLED_PAIR, ModelPool
from mars_core.models.classifier import Reads, load_classifier, plan_classifier
from mars_core.types import DrafterConfig, ModelRef
from tests.checkpoints import tiny_model
from tests.live_pairs import config_for
from training.judge import RECALL, Mismatch, area, mismatches, prompts, save, trained


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize("reads", Reads)
def test_a_classifier_finds_what_changes_the_answer(
    reads: Reads, hidden: int, tmp_path: Path
) -> None:
    """From the state that it reads; 0.5 finds most of them; saved and read it is the same."""
    states = torch.randn(400, 2, 16, generator=torch.Generator().manual_seed(1)) * 3 + 7
    signal = states[:, 1 if reads is Reads.TOKEN else 0, 2] > 8
    examples = [
        Mismatch(n // 4, each, bool(c))
        for n, (each, c) in enumerate(zip(states, signal, strict=True))
    ]
    classifier = trained(examples, reads, hidden, seed=1)
    read = states[:, 1 if reads is Reads.TOKEN else 0]
    scores = classifier(read)[:, 0]
    assert area(scores, signal.float()) > 0.95
    held_out = scores[320:][signal[320:]]
    border = float(held_out.quantile(1 - RECALL, interpolation="lower"))
    assert border == pytest.approx(0.5, abs=1e-3)
    save(classifier, "tests/target", tmp_path)
    target = tiny_model("llama").config
    target.hidden_size = 16
    plan = plan_classifier(ModelRef(str(tmp_path)), target, "the target", lambda _: None)
    again, _ = load_classifier(plan, torch.device("cpu"), lambda _: None)
    assert again.reads is reads and torch.equal(again(read)[:, 0], scores)


def test_each_rejected_token_is_tried_in_the_text_that_answers_rightly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token after which the answer is wrong is not in the texts that follow; what strict answers
    wrongly teaches nothing."""
    pair, tried = ModelPool().get(BUNDLED_PAIR), list[tuple[int, ...]]()

    def states(_pair: object, ids: tuple[int, ...]) -> torch.Tensor:
        tried.append(ids)
        return torch.zeros(2, 1)

    monkeypatch.setattr("training.judge._states", states)
    text = "Ravi has 32 books and Omar has 28. How many more does Ravi have?"
    items = tuple(Item(answer, (text,), (answer,)) for answer in ("4", "5"))
    config = config_for(pair, DrafterConfig("model", k=3), prompt=text, new=40)
    suite = Suite("problems", items, metrics=(STRICT,))
    measured = list(mismatches(pair, [config, config], suite))
    assert measured and len(measured) == len(tried) and {each.prompt for each in measured} == {0}
    assert {each.changes for each in measured} == {True, False}
    for (before, example), after in zip(zip(tried, measured, strict=True), tried[1:], strict=False):
        assert len(before) < len(after)
        assert (after[: len(before)] == before) is not example.changes


def test_prompts_to_learn_from_are_not_those_of_the_suite() -> None:
    own = {item.turns for item in read_suite("instructions").items}
    learnt = prompts("instructions_fresh", 300, seed=1).items
    assert len(learnt) == 300 and not own & {item.turns for item in learnt}
    (problem,) = prompts(None, 1, seed=1).items
    assert problem.references[0].isdecimal()
