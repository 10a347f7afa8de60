"""The recipe for heads: values of written texts, chains, the loss and its gradient, a stopped
training, both formats."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from mars_core.decoder import prepare
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.errors import ModelError
from mars_core.types import DrafterConfig, PromptConfig, Sampling
from tests.checkpoints import tiny_checkpoint
from tests.folders import load
from tests.live_pairs import traced
from training.head.chain import finish, project, unroll
from training.head.learning import Distillation, Learner, Learning
from training.head.processes import TrainingProcess
from training.head.rounds import Training
from training.head.synthesis import Synthesis, TextSample, TextWriter

_SMALL = Synthesis(
    cells=256, length=64, user_tokens=16, answer_tokens=24, long_length=128, long_share=0.3
)
_HERE = TrainingProcess(0, 1, torch.device("cpu"))
_STEPS = 4


def _tiny() -> Eagle3Head:
    layer = LlamaConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
    )
    torch.manual_seed(3)
    head = Eagle3Head(HeadConfig(layer, 16, 20, 20, (0, 1, 2)))
    for weight in head.parameters():
        nn.init.normal_(weight, std=0.4)
    return head


def _drafted(head: Eagle3Head, ids: Tensor, features: Tensor, anchor: int) -> list[Tensor]:
    """One sequence [N], one entry after the other: the prefix up to ``anchor``, then tokens given
    by the teacher."""
    keys: list[Tensor] = []
    values: list[Tensor] = []
    states: list[Tensor] = []
    hidden = head.fuse(features[None, :1])
    for process in range(anchor + _STEPS):
        if process <= anchor:
            hidden = head.fuse(features[None, process : process + 1])
        residual, query, key, value = project(
            head, ids[None, process : process + 1], hidden, torch.tensor([[process]])
        )
        keys.append(key)
        values.append(value)
        attended = nn.functional.scaled_dot_product_attention(
            query, torch.cat(keys, 2), torch.cat(values, 2), enable_gqa=True
        )
        hidden, normed = finish(head, residual, attended)
        states.append(normed[0, 0])
    return states


@torch.no_grad()
def test_unrolled_chains_equal_drafting_one_by_one() -> None:
    head = _tiny()
    ids, features = torch.randint(0, 20, (2, 9)), torch.randn(2, 9, 48)
    anchors = torch.tensor([[0, 2, 5], [1, 3, 4]])
    steps = unroll(head, ids, features, anchors, _STEPS)
    assert [tuple(each.shape) for each in steps] == [(2, 9, 16)] + [(2, 3, 16)] * (_STEPS - 1)
    for row in range(2):
        for column, anchor in enumerate(anchors[row].tolist()):
            single = _drafted(head, ids[row], features[row], anchor)
            torch.testing.assert_close(
                steps[0][row, : anchor + 1], torch.stack(single[: anchor + 1]), atol=1e-5, rtol=0
            )
            chained = torch.stack([each[row, column] for each in steps[1:]])
            torch.testing.assert_close(
                chained, torch.stack(single[anchor + 1 :]), atol=1e-5, rtol=0
            )


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint("llama", tmp_path_factory.mktemp("target"))


def _open(folder: Path) -> tuple[Any, Any]:
    source: Any = AutoModelForCausalLM
    model = source.from_pretrained(folder, dtype=torch.float32).eval().requires_grad_(False)
    prepare(model)
    return model, AutoTokenizer.from_pretrained(folder)


@torch.inference_mode()
def test_written_texts_have_the_values_of_a_plain_pass_and_greedy_answers_are_the_targets(
    target: Path,
) -> None:
    """Rows have separate positions and start anew; the oracle is transformers'
    attention over one text."""
    model, tokenizer = _open(target)
    writer = TextWriter(model, tokenizer, (0, 1), _SMALL, 5)
    samples = list(writer.samples(900))
    plain = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    greedy = 0
    for sample in samples:
        output = plain(sample.ids[None, :-1], output_hidden_states=True)
        states = torch.cat([output.hidden_states[layer][0] for layer in (0, 1, -1)], -1)
        torch.testing.assert_close(sample.values, states, atol=2e-4, rtol=0)
        assert writer.prefix < sample.start < len(sample.ids)
        best = output.logits[0, sample.start - 1 :].argmax(-1)
        greedy += bool((best == sample.ids[sample.start :]).all())
    assert 0.3 < greedy / len(samples) < 0.9  # 0.6 of them
    assert max(len(sample.ids) for sample in samples) > _SMALL.length  # the long ones


def test_the_loss_is_the_divergence_and_its_gradient_the_one_of_autograd() -> None:
    torch.manual_seed(0)
    drafted, final, rows = torch.randn(300, 8), torch.randn(300, 8), torch.randn(12, 8)
    shares = torch.rand(300)
    one, two = drafted.clone().requires_grad_(), drafted.clone().requires_grad_()
    loss, agreed = Distillation.apply(one, final, rows, shares)  # type: ignore[no-untyped-call]
    aim, drafts = (final @ rows.T).log_softmax(-1), (two @ rows.T).log_softmax(-1)
    expected = ((aim.exp() * (aim - drafts)).sum(-1) * shares).sum()
    (3 * loss).backward()
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(one.grad, two.grad)
    assert agreed.tolist() == (aim.argmax(-1) == drafts.argmax(-1)).tolist()


def test_the_users_words_weigh_less_than_the_answer_and_the_template_nothing() -> None:
    sample = TextSample(torch.arange(12), 6, torch.zeros(11, 64))
    *_, weights = Learner(_tiny(), Learning(), 2, 0)._collated([sample])
    assert weights.tolist()[0] == pytest.approx([0, 0, 0.3, 0.3, *6 * [1]])


def _options(target: Path, out: Path, **others: Any) -> argparse.Namespace:
    out.mkdir(exist_ok=True)
    usual = {
        "tokens": 1_500,
        "head": None,
        "vocabulary": 40,
        "rate": 4e-3,
        "decay": 0.3,
    }
    return argparse.Namespace(target=str(target), out=out, shard=500, seed=1, **{**usual, **others})


class _Stopped(Exception):
    pass


def test_a_stopped_training_goes_on_and_both_formats_draft_what_strict_keeps(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = _options(target, tmp_path)
    updates: list[float] = []
    update = Learner.update

    def counted(self: Learner, samples: Sequence[TextSample], scale: float, share: Any) -> Any:
        if len(updates) == stop:
            raise _Stopped
        updates.append(scale)
        return update(self, samples, scale, share)

    monkeypatch.setattr(Learner, "update", counted)
    stop = -1
    done = Training(options, _HERE, _SMALL)
    keep, rounds = Training._keep, list[int]()

    def noted(self: Training, learner: Learner, last: bool) -> None:
        nonlocal stop
        keep(self, learner, last)
        rounds.append(self._progress.rounds)
        stop = len(updates) + 1  # in the next round

    monkeypatch.setattr(Training, "_keep", noted)
    with pytest.raises(_Stopped):
        done.run()
    assert rounds == [1]
    stop, first = -1, len(updates)
    monkeypatch.setattr(Training, "_keep", keep)
    Training(options, _HERE, _SMALL).run()
    curve = [
        json.loads(line)
        for line in (tmp_path / "curve.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [line["round"] for line in curve if line["visit"] == 1] == [1, 2, 3]
    assert (
        len(updates) > first and updates[0] < updates[first - 2] and updates[-1] < 0.5
    )  # warmed up, then down
    assert not list(tmp_path.glob("*.part"))
    for form in ("specforge", "speculators"):
        pair = load(target, head=tmp_path / form)
        assert pair.head is not None and pair.head.config.draft_vocabulary == 40
        texts = {
            kind: traced(
                pair,
                DrafterConfig(kind),
                Sampling(0.0),
                prompt=PromptConfig("ab", chat=False),
                new=24,
            )
            for kind in ("none", "eagle3")
        }
        assert texts["none"].token_ids == texts["eagle3"].token_ids
        assert texts["eagle3"].summary.drafted > 0


def test_a_head_goes_on_from_its_weights_and_vocabulary(target: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    Training(_options(target, first, tokens=400), _HERE, _SMALL).run()
    for form in ("specforge", "speculators"):
        options = _options(target, second, head=first / form, vocabulary=30)
        begun = Training(options, _HERE, _SMALL)._learner
        assert begun is not None
        stored = load_file(first / "specforge" / "model.safetensors")
        assert begun.head.d2t.tolist() == stored["d2t"].tolist()
        torch.testing.assert_close(
            begun.head.fc.weight.detach(), stored["fc.weight"].float(), atol=0, rtol=0
        )
        assert begun.head.fc.weight.requires_grad and not begun.head.lm_head.weight.requires_grad
    other = json.loads((first / "specforge" / "config.json").read_text(encoding="utf-8"))
    (first / "specforge" / "config.json").write_text(
        json.dumps({**other, "norm_output": True}), encoding="utf-8"
    )
    with pytest.raises(ModelError, match="not an EAGLE-3 head of this recipe"):
        Training(_options(target, second, head=first / "specforge"), _HERE, _SMALL)


def test_a_target_of_another_kind_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    target = tiny_checkpoint("gpt_neox", tmp_path / "target")
    with pytest.raises(ModelError, match="layers of another kind than Llama's"):
        Training(_options(target, tmp_path / "out"), _HERE, _SMALL)
