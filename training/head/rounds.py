"""Rounds of training: each writes a shard of new texts, learns from it and forgets it.

The head, its optimisers and the curve are saved, so that training continues where it was
stopped.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, AutoTokenizer

from mars_core.decoder import input_embedding, is_fast, prepare
from mars_core.eagle3.head import Eagle3Head
from mars_core.models.errors import ModelError
from training.head.learning import Learner, Learning, batches
from training.head.model import (
    build_head,
    cell_bytes,
    default_feature_layers,
    empty_head,
    save_head,
    stored_head,
)
from training.head.processes import TrainingProcess
from training.head.synthesis import Synthesis, TextSample, TextWriter

log = logging.getLogger("training.head")
_CURVE, _STATE = "curve.jsonl", "state.pt"
GPU_CELLS = 2**20  # of Synthesis, at most
_GPU_SHARE = 0.25  # of a GPU's free memory, for the cells of either stream of texts
GPU_BATCH = 16_384  # of Learning: an update of fewer entries takes as long


@dataclass(slots=True)
class TrainingProgress:
    """``tokens``: new ones, of all processes; ``visited``: those learnt from, every visit
    counted; ``seconds``: of wall time, up to the end of the last round."""

    rounds: int = 0
    tokens: int = 0
    visited: int = 0
    updates: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)  # a line a visit


class Training:
    def __init__(
        self,
        options: argparse.Namespace,
        process: TrainingProcess,
        texts: Synthesis | None = None,
    ) -> None:
        began = time.monotonic()
        self._options, self._process = options, process
        on_cpu = process.device.type == "cpu"
        how = Learning(rate=options.rate)
        self._how = how if on_cpu else replace(how, batch=GPU_BATCH)
        self._target = self._opened()
        prepare(self._target)
        if not is_fast(self._target):
            raise ModelError(
                f"{options.target} has layers of another kind than Llama's; this recipe trains no "
                "head for it."
            )
        tokenizer: Any = AutoTokenizer.from_pretrained(options.target)
        self._feature_layers = default_feature_layers(self._target.config.num_hidden_layers)
        stored = self._stored()
        self._progress = TrainingProgress(**stored["progress"] if stored else {})
        self._began = began - self._progress.seconds
        seed = options.seed + 1_000 * self._progress.rounds + process.rank
        self._rng = random.Random(seed)
        if texts is None:
            texts = Synthesis() if on_cpu else Synthesis(cells=self._gpu_cells())
        self._writer = TextWriter(self._target, tokenizer, self._feature_layers, texts, seed)
        self._learner = None if stored is None else self._restored(stored)

    def _gpu_cells(self) -> int:
        free, _ = torch.cuda.mem_get_info(self._process.device)
        return min(
            GPU_CELLS, int(_GPU_SHARE * free) // cell_bytes(self._target, self._feature_layers)
        )

    def _opened(self) -> Any:
        source: Any = AutoModelForCausalLM
        model = source.from_pretrained(self._options.target, dtype=torch.bfloat16)
        return model.to(self._process.device).eval().requires_grad_(False)

    def run(self) -> None:
        """Rounds until ``tokens`` new ones are spent."""
        while self._left(self._progress.tokens) > 0:
            self._round(self._options.shard // self._process.count)

    def _left(self, tokens: int) -> float:
        """Return the share of the training that is left after ``tokens`` tokens."""
        return 1 - tokens / float(self._options.tokens)

    def _round(self, share: int) -> None:
        began = time.monotonic()
        samples = self._written(share)
        written = time.monotonic() - began
        if self._learner is None:
            self._learner = self._begun(samples)
        self._learn(self._learner, samples)
        progress = self._progress
        progress.rounds += 1
        progress.seconds = time.monotonic() - self._began
        left = self._left(progress.tokens)
        if self._process.rank == 0:
            self._keep(self._learner, left < self._options.decay)
        log.info(
            f"round {progress.rounds}: {progress.tokens:,} tokens, "
            f"{progress.tokens / progress.seconds:.0f} a second ({written:.0f} s of "
            f"{time.monotonic() - began:.0f} s writing), {max(0.0, left):.0%} left"
        )

    def _written(self, share: int) -> list[TextSample]:
        """Write a shard; say every half minute how far it is."""
        samples, tokens, said = list[TextSample](), 0, time.monotonic()
        for sample in self._writer.samples(share):
            samples.append(sample)
            tokens += len(sample.ids) - self._writer.prefix
            if time.monotonic() - said > 30:
                said = time.monotonic()
                log.info("writing: %s of %s tokens", f"{tokens:,}", f"{share:,}")
        return samples

    def _begun(self, samples: list[TextSample]) -> Learner:
        """Begin: the draft vocabulary holds the ids that the first texts use most; of equal ones the
        lower id, which a tokenizer learnt earlier."""
        written = torch.cat([sample.ids[self._writer.prefix :] for sample in samples])
        counts = written.bincount(minlength=self._target.config.vocab_size).float()
        every = self._process.reduced(counts.to(self._process.device))
        ranked = every.sort(descending=True, stable=True).indices
        ids = ranked[: self._options.vocabulary].sort().values
        head = build_head(self._opened(), self._feature_layers, ids, samples, self._options.seed)
        self._process.average(
            [parameter.data for parameter in head.parameters() if parameter.requires_grad]
        )
        return self._learner_of(head)

    def _restored(self, stored: dict[str, Any]) -> Learner:
        weights = stored["head"] | {"embed_tokens.weight": input_embedding(self._target).weight}
        head = empty_head(self._target, self._feature_layers, len(weights["d2t"]))
        head.load_state_dict(weights)
        learner = self._learner_of(head)
        for part, state in zip(learner.optimiser.parts, stored.get("optimisers", ()), strict=False):
            part.load_state_dict(state)
        return learner

    def _learner_of(self, head: Eagle3Head) -> Learner:
        return Learner(
            head, self._how, self._writer.prefix, self._options.seed + self._process.rank
        )

    def _learn(self, learner: Learner, samples: list[TextSample]) -> None:
        """Visits the samples; the agreement of the first visit is on texts that the head has not
        seen."""
        new_tokens = self._process.reduced_count(
            sum(len(sample.ids) - self._writer.prefix for sample in samples)
        )
        for visit in range(self._how.visits):
            loss, agreement, tokens = self._visit(learner, samples, visit, new_tokens)
            self._progress.visited += int(tokens)
            line = {
                "round": self._progress.rounds + 1,
                "visit": visit + 1,
                "fresh": self._progress.tokens + new_tokens,
                "visited": self._progress.visited,
                "loss": round(loss / tokens, 4),
                "agreement": round(agreement / tokens, 4),
                "seconds": round(self._progress.seconds),
            }
            log.info("visit %(visit)d: loss %(loss).4f, agreement %(agreement).4f", line)
            self._progress.curve.append(line)
        self._progress.tokens += new_tokens

    def _visit(
        self, learner: Learner, samples: list[TextSample], visit: int, new_tokens: int
    ) -> list[float]:
        """Make one visit; return the sums over its tokens of loss and agreement, and their
        number."""
        groups = list(batches(samples, self._how.batch, self._rng))
        count = self._process.reduced_count(len(groups), dist.ReduceOp.MIN)
        sums = torch.zeros(3, dtype=torch.float64, device=self._process.device)
        for number, group in enumerate(groups[:count]):
            share = (visit + number / count) / self._how.visits
            left = self._left(self._progress.tokens + round(new_tokens * share))
            self._progress.updates += 1
            warm = self._progress.updates / self._how.warm_up
            scale = min(1.0, warm, max(0.0, left) / self._options.decay)
            sums += learner.update(group, scale, self._process.average)
        totals: list[float] = self._process.reduced(sums).tolist()
        return totals

    def _last_state(self) -> Path:
        """Return the state of the last share of the training, in which the rate depends on the
        tokens in all: it serves these only."""
        return Path(self._options.out / f"state-{self._options.tokens}.pt")

    def _stored(self) -> dict[str, Any] | None:
        for file in (self._last_state(), self._options.out / _STATE):
            if file.is_file():
                stored: dict[str, Any] = torch.load(file, map_location=self._process.device)
                return stored
        if self._options.head is None:
            return None
        return {"progress": {}, "head": stored_head(self._options.head, self._target)}

    def _keep(self, learner: Learner, last: bool) -> None:
        file = self._last_state() if last else self._options.out / _STATE
        state = {
            "progress": asdict(self._progress),
            "head": {
                name: value
                for name, value in learner.head.state_dict().items()
                if not name.startswith("embed_tokens.")
            },
            "optimisers": [part.state_dict() for part in learner.optimiser.parts],
        }
        torch.save(state, file.with_suffix(".part"))
        file.with_suffix(".part").replace(file)
        curve = "".join(json.dumps(line) + "\n" for line in self._progress.curve)
        (self._options.out / _CURVE).write_text(curve, encoding="utf-8")
        for form in ("specforge", "speculators"):
            save_head(learner.head, self._target, self._options.out / form, form)
