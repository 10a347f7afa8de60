"""Measures the accuracy of the bundled EAGLE-3 head per draft step, on the target's greedy answers to held-out problems.

``python -m training.measure_head`` logs it. Teacher-forced: a chain is judged on the answer's tokens, so that its first
miss is where drafting would stop, and τ of greedy chains follows without the engine.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from mars_core.demo.corpus import Document, held_out
from mars_core.eagle3.checkpoint import load_head
from mars_core.eagle3.config import read_config
from mars_core.eagle3.head import Eagle3Head
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from training.head_chain import unroll
from training.tokenizer import split_document
from training.train_head import greedy_answers, open_target, study

log = logging.getLogger(__name__)
NEW_TOKENS = 160


@torch.no_grad()
def hits(head: Eagle3Head, target: LlamaForCausalLM, prompt: list[int], answer: list[int], steps: int) -> Tensor:
    """bool [M, steps]: whether step s of the chain whose root is token m of the answer (M = its length − 1) is the next token.

    False after the end of the answer.
    """
    ids = torch.tensor([prompt + answer])
    features, _ = study(target, ids, head.config.taps)
    last, length = ids.shape[1] - 1, len(answer) - 1
    roots = torch.arange(len(prompt), last)
    read = torch.cat([ids[:, 1:], ids.new_zeros(1, steps)], 1)
    padded = torch.cat([features[:, :-1], features.new_zeros(1, steps, features.shape[-1])], 1)
    first, *later = unroll(head, read, padded, roots[None] - 1, steps)
    drafted = torch.stack([each[0].argmax(-1) for each in (first[:, roots - 1], *later)], 1)
    places = roots[:, None] + 1 + torch.arange(steps)
    assert places.shape == (length, steps)
    return (drafted == ids[0, places.clamp(max=last)]) & (places <= last)


def emitted(hit: Tensor) -> tuple[int, int]:
    """Tokens and rounds of one answer after its first token, drafted in chains; hit [M, K] as returned by ``hits``."""
    accepted: list[int] = hit.long().cumprod(1).sum(1).tolist()
    rounds = place = 0
    while place < len(accepted):
        place += accepted[place] + 1
        rounds += 1
    return len(accepted), rounds


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.measure_head", description=__doc__)
    parser.add_argument("--folder", type=Path, default=WEIGHTS, help="holds target/ and eagle3/")
    parser.add_argument("--count", type=int, default=40, help="problems")
    parser.add_argument("--steps", type=int, default=8, help="longest chain")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    target, tokenizer = open_target(options.folder / "target")
    raw = json.loads((options.folder / "eagle3" / "config.json").read_text(encoding="utf-8"))
    head = load_head(options.folder / "eagle3", read_config(raw, target.config, "eagle3", "target"), target)
    prompts = [split_document(Document(item.question, ""))[0] for item in held_out()[: options.count]]
    answers = greedy_answers(target, tokenizer, prompts, NEW_TOKENS)
    tables = [
        hits(head, target, tokenizer.encode(prompt, add_special_tokens=False), answer, options.steps)
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    for step in range(options.steps):
        possible = sum(max(0, len(table) - step) for table in tables)
        log.info(
            "step %d: %.3f of %d", step + 1, sum(int(table[:, step].sum()) for table in tables) / possible, possible
        )
    for k in range(1, options.steps + 1):
        counts = [emitted(table[:, :k]) for table in tables]
        log.info("chain of %d: τ %.3f", k, sum(tokens for tokens, _ in counts) / sum(rounds for _, rounds in counts))


if __name__ == "__main__":
    main()
