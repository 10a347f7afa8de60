"""Trains the bundled EAGLE-3 head for the bundled target: ``python -m training.train_head`` (2503.01840, its own recipe).

The head learns to draft several tokens from one pass of the target: every entry reads the target's hidden states, and from
some of them (anchors) a chain continues that feeds the head's own output back, as in drafting. Stored in EAGLE's format.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as serialised
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, PreTrainedTokenizerFast

from mars_core.decoder import input_embedding
from mars_core.demo.corpus import documents
from mars_core.eagle3.checkpoint import aliases
from mars_core.eagle3.head import Eagle3Head, HeadConfig
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from training.head_chain import unroll
from training.tokenizer import split_document
from training.train import Recipe, Stage, Text, encoded, optimise, pack, texts

log = logging.getLogger(__name__)
_TEXT = replace(Recipe(), window=192, batch=32)


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """Sizes and budgets. ``text``: batch, window, rate and seed; ``steps``: drafted tokens of a chain."""

    text: Recipe = _TEXT
    intermediate: int = 1024
    steps: int = 7
    step_decay: float = 0.9  # loss weight of a step, relative to the previous one
    anchors: int = 96  # chains of a window
    stages: tuple[Stage, Stage] = (Stage(4_608_000, decay=False), Stage(2_764_800))  # texts, then own answers too
    own_share: float = 0.5  # requests that the target answers itself (greedy) in the second stage
    block: int = 256  # documents whose share of requests the target answers in one batch
    answer_tokens: int = 96  # at most


QUICK = HeadRecipe(
    text=replace(Recipe(), window=48, batch=2), intermediate=64, steps=3, anchors=8,
    stages=(Stage(192, decay=False), Stage(192)), block=4, answer_tokens=4,
)  # fmt: skip


def open_target(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The target in float32 and evaluation mode."""
    target: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return target.eval(), tokenizer


def build_head(target: LlamaForCausalLM, intermediate: int, seed: int) -> Eagle3Head:
    """Attention as the target's; embedding (frozen), last norm and vocabulary projection start as the target's."""
    config, count = target.config, target.config.num_hidden_layers
    layer = copy.deepcopy(config)
    layer.update({"intermediate_size": intermediate, "num_hidden_layers": 1})
    taps = tuple(sorted({2, count // 2, count - 3}))
    torch.manual_seed(seed)
    head = Eagle3Head(HeadConfig(layer, config.hidden_size, config.vocab_size, config.vocab_size, taps))
    for module in head.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=config.initializer_range)
    table = input_embedding(target).weight.data
    head.embed_tokens.weight.data.copy_(table)
    head.embed_tokens.requires_grad_(False)
    head.lm_head.weight.data.copy_(table)
    head.norm.weight.data.copy_(target.model.norm.weight.data)
    return head


def chain_loss(
    head: Eagle3Head, recipe: HeadRecipe, ids: Tensor, features: Tensor, wanted: Tensor, weights: Tensor, anchors: Tensor
) -> Tensor:  # fmt: skip
    """Forward KL, step by step: each a weighted mean over its rows, then a mean over steps.

    ids [B, N] as in ``unroll``; wanted [B, N, V]: the target's log-probabilities after reading an entry's token;
    weights [B, N]: of what an entry predicts.
    """
    scales, losses = [recipe.step_decay**step for step in range(recipe.steps)], []
    for step, logits in enumerate(unroll(head, ids, features, anchors, recipe.steps)):
        aim, weight = wanted, weights
        if step > 0:
            places = anchors + step
            aim = wanted.gather(1, places[..., None].expand(-1, -1, wanted.shape[-1]))
            weight = weights.gather(1, places)
        divergence = (aim.exp() * (aim - logits.float().log_softmax(-1))).sum(-1)
        losses.append(scales[step] * (divergence * weight).sum() / weight.sum())
    return torch.stack(losses).sum() / sum(scales)


def train_head(
    recipe: HeadRecipe, tokenizer: PreTrainedTokenizerFast, target: LlamaForCausalLM, out: Path, compiled: bool
) -> Eagle3Head:
    """Two stages: the corpus, then the corpus with part of its requests answered by the target. Saves checkpoints."""
    target.requires_grad_(False)
    head = build_head(target, recipe.intermediate, recipe.text.seed)
    judge, ask = (torch.compile(chain_loss), torch.compile(study)) if compiled else (chain_loss, study)
    writer = copy.deepcopy(target).bfloat16()
    generator = torch.Generator().manual_seed(recipe.text.seed)

    def loss(ids: Tensor, weights: Tensor) -> Tensor:
        with torch.no_grad():
            features, logits = ask(target, ids[:, :-1], head.config.taps)
            wanted = logits[:, 1:].float().log_softmax(-1)
        ahead = weights[:, 1:]
        starts = ahead[:, : ahead.shape[1] - recipe.steps + 1]
        anchors = torch.multinomial(starts, recipe.anchors, generator=generator)
        return judge(head, recipe, ids[:, 1:-1], features[:, :-1], wanted, ahead, anchors)

    keep = partial(save_head, head, target, out)
    seed = recipe.text.seed
    sources = texts(tokenizer, seed + 2), answers(recipe, tokenizer, writer, seed + 12)
    for source, stage in zip(sources, recipe.stages, strict=True):
        optimise(head, loss, pack(recipe.text, source), recipe.text, stage, keep)
    keep()
    return head


def study(target: LlamaForCausalLM, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The target's values for ids [B, T]: the inputs of its tapped layers [B, T, taps · H] and its logits [B, T, V]."""
    output = target(ids, use_cache=False, output_hidden_states=True)
    return torch.cat([output.hidden_states[tap] for tap in taps], -1), output.logits


def answers(
    recipe: HeadRecipe, tokenizer: PreTrainedTokenizerFast, target: LlamaForCausalLM, seed: int
) -> Iterator[Text]:
    """The corpus, where the target has answered ``own_share`` of the requests itself, greedily."""
    rng, stream = random.Random(seed), documents(seed)
    while True:
        block = list(islice(stream, recipe.block))
        pairs = [encoded(tokenizer, item) for item in block]
        own = [n for n, item in enumerate(block) if item.request and rng.random() < recipe.own_share]
        prompts = [split_document(block[n])[0] for n in own]
        for n, written in zip(own, greedy_answers(target, tokenizer, prompts, recipe.answer_tokens), strict=True):
            pairs[n] = pairs[n][0], written
        yield from pairs


@torch.no_grad()
def greedy_answers(
    target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: list[str], tokens: int
) -> list[list[int]]:
    """The target's answer at temperature 0, up to and including its end token."""
    given = tokenizer(prompts, padding=True, padding_side="left", add_special_tokens=False, return_tensors="pt")
    writer: Any = target  # the annotation of generate does not allow it
    ids, seen = given.input_ids, given.attention_mask
    output = writer.generate(ids, attention_mask=seen, max_new_tokens=tokens, do_sample=False)
    rows: list[list[int]] = output[:, ids.shape[1] :].tolist()
    end = tokenizer.eos_token_id
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def save_head(head: Eagle3Head, target: LlamaForCausalLM, folder: Path) -> None:
    """The format of the EAGLE authors and SpecForge, in bf16; the embedding is the target's and is not stored."""
    layer = head.config.layer
    rotary: Any = layer.rope_parameters
    sizes = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
        "hidden_act", "rms_norm_eps",
    )  # fmt: skip
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **{name: getattr(layer, name) for name in sizes},
        "rope_theta": rotary["rope_theta"],
        "max_position_embeddings": layer.max_position_embeddings,
        "vocab_size": head.config.target_vocabulary,
        "draft_vocab_size": head.config.draft_vocabulary,
        "bos_token_id": target.config.bos_token_id,
        "eos_token_id": target.config.eos_token_id,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(head.config.taps)},
    }
    tensors = {
        aliases(name)[0]: value.detach().to(torch.bfloat16).contiguous()
        for name, value in head.named_parameters()
        if not name.startswith("embed_tokens.")
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(serialised(tensors, metadata={"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.train_head", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few tokens only, to test the recipe")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder that receives eagle3/")
    parser.add_argument("--target", type=Path, default=WEIGHTS / "target", help="the model that the head serves")
    parser.add_argument("--compile", action="store_true", help="torch.compile the loss (needs a C++ compiler)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    target, tokenizer = open_target(options.target)
    train_head(QUICK if options.quick else HeadRecipe(), tokenizer, target, options.out / "eagle3", options.compile)


if __name__ == "__main__":
    main()
