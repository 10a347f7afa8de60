"""Trains the bundled pair: tokenizer, target, and a draft distilled from the target.

``python -m training.train`` reproduces the weights in ``weights/``; ``--quick`` runs the same
recipe at a size that a test can afford. bf16 autocast on the CPU; Muon for the matrices, AdamW for
embeddings and norms.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mars_core.decoder import input_embedding
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from training.demo.corpus import documents
from training.optimiser import MatrixOptimiser
from training.tokenizer import split_document, train_tokenizer

log = logging.getLogger(__name__)

_REQUEST_WEIGHT = 0.2  # loss weight of request tokens, relative to answer tokens


@dataclass(frozen=True, slots=True)
class Stage:
    """A training stage with its optimisers. ``decay``: the learning rate falls linearly to 0,
    else it is constant."""

    tokens: int  # as the model sees them
    decay: bool = True
    practice_share: float = 0.0  # of the documents


@dataclass(frozen=True, slots=True)
class Recipe:
    """Sizes and budgets."""

    vocabulary: int = 1536
    tokenizer_samples: int = 20_000
    hidden: int = 256
    intermediate: int = 640
    heads: int = 4
    key_value_heads: int = 2
    target_layers: int = 12
    draft_layers: int = 1
    context: int = 1024
    window: int = 384
    batch: int = 16
    target_stages: tuple[Stage, ...] = (
        Stage(7_372_800, decay=False),
        Stage(3_686_400, practice_share=0.35),
    )
    draft_stages: tuple[Stage, ...] = (Stage(3_000_000),)
    learning_rate: float = 3e-3
    seed: int = 1


QUICK = Recipe(
    vocabulary=512,
    tokenizer_samples=400,
    hidden=64,
    intermediate=128,
    target_layers=3,
    context=256,
    window=96,
    batch=4,
    target_stages=(Stage(3_000, decay=False), Stage(2_000, practice_share=0.35)),
    draft_stages=(Stage(2_000),),
)

Loss = Callable[[Tensor, Tensor], Tensor]
TokenBatch = tuple[Tensor, Tensor]  # token ids, and the loss weights of what they predict
TokenText = tuple[list[int], list[int]]  # token ids of prompt and answer


def texts(
    tokenizer: PreTrainedTokenizerFast, seed: int, practice_share: float = 0.0
) -> Iterator[TokenText]:
    """Yield the corpus."""
    for item in documents(seed, practice_share):
        request, written = (
            tokenizer.encode(part, add_special_tokens=False) for part in split_document(item)
        )
        yield request, written


def pack(recipe: Recipe, texts: Iterator[TokenText]) -> Iterator[TokenBatch]:
    """Packed token ids [B, T+1] and the loss weight of each predicted position [B, T]."""
    ids: list[int] = []
    weights: list[float] = []
    shape = (recipe.batch, recipe.window + 1)
    size = math.prod(shape)
    for request, written in texts:
        ids += request + written
        weights += [_REQUEST_WEIGHT] * len(request) + [1.0] * len(written)
        if len(ids) >= size:
            learnt = torch.tensor(weights[:size]).view(shape)[:, 1:]
            yield torch.tensor(ids[:size]).view(shape), learnt
            ids, weights = ids[size:], weights[size:]


def build(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, layers: int) -> LlamaForCausalLM:
    torch.manual_seed(recipe.seed + layers)
    config = LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.key_value_heads,
        max_position_embeddings=recipe.context,
        tie_word_embeddings=True,
        **special_ids(tokenizer),
    )
    return LlamaForCausalLM(config)


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return those for the configuration of a model, and of its generation."""
    return {
        name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")
    }


def optimise(
    model: nn.Module, loss: Loss, data: Iterator[TokenBatch], recipe: Recipe, stage: Stage
) -> None:
    """Train one stage, after a warm-up of 40 steps."""
    optimiser = MatrixOptimiser(model, recipe.learning_rate, recipe.learning_rate)
    steps = max(1, stage.tokens // (recipe.batch * recipe.window))
    for step, (ids, weights) in enumerate(islice(data, steps)):
        scale = min(1.0, (step + 1) / 40) * ((steps - step) / steps if stage.decay else 1.0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(ids, weights)
        optimiser.update(value, scale)
        if step % 20 == 0 or step == steps - 1:
            log.info("step %d of %d: loss %.4f", step + 1, steps, float(value.detach()))


def train(
    model: nn.Module,
    loss: Loss,
    recipe: Recipe,
    stages: Sequence[Stage],
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
) -> None:
    """Train all stages, each on different documents."""
    for number, stage in enumerate(stages):
        data = pack(recipe, texts(tokenizer, seed + 10 * number, stage.practice_share))
        optimise(model, loss, data, recipe, stage)


def _logits(model: LlamaForCausalLM, ids: Tensor) -> Tensor:
    """Return the logits of what follows each token but the last, [B · T, V]."""
    logits: Tensor = model(ids[:, :-1], use_cache=False).logits
    return logits.flatten(0, 1).float()


def _weighted(losses: Tensor, weights: Tensor) -> Tensor:
    return (losses * weights.flatten()).sum() / weights.sum()


def train_target(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    model = build(recipe, tokenizer, recipe.target_layers)

    def loss(ids: Tensor, weights: Tensor) -> Tensor:
        after = ids[:, 1:].flatten()
        losses = nn.functional.cross_entropy(_logits(model, ids), after, reduction="none")
        return _weighted(losses, weights)

    train(model, loss, recipe, recipe.target_stages, tokenizer, recipe.seed)
    return model


def distil_draft(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, target: LlamaForCausalLM
) -> LlamaForCausalLM:
    """Train the draft, which starts from the target's embedding and learns the target's
    distribution (forward KL)."""
    draft = build(recipe, tokenizer, recipe.draft_layers)
    input_embedding(draft).weight.data.copy_(input_embedding(target).weight.data)
    target.eval().requires_grad_(False)

    def loss(ids: Tensor, weights: Tensor) -> Tensor:
        wanted, drafted = (_logits(each, ids).log_softmax(-1) for each in (target, draft))
        return _weighted((wanted.exp() * (wanted - drafted)).sum(-1), weights)

    train(draft, loss, recipe, recipe.draft_stages, tokenizer, recipe.seed + 1)
    return draft


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save bf16 safetensors, tokenizer and a generation config: a checkpoint like any other."""
    cast: Any = model.to  # its annotation allows devices only
    cast(torch.bfloat16).save_pretrained(folder)
    GenerationConfig(**special_ids(tokenizer), do_sample=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny pair, to test the recipe")
    parser.add_argument(
        "--out", type=Path, default=WEIGHTS, help="folder that receives target/ and draft/"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    recipe = QUICK if options.quick else Recipe()
    tokenizer = train_tokenizer(
        recipe.seed, recipe.tokenizer_samples, recipe.vocabulary, recipe.context
    )
    target = train_target(recipe, tokenizer)
    save(target, tokenizer, options.out / "target")
    draft = distil_draft(recipe, tokenizer, target.float())
    save(draft, tokenizer, options.out / "draft")


if __name__ == "__main__":
    main()
