"""Trains a classifier of the target's hidden states, for rule ``judge`` or as ``score`` of
expressions: ``python -m training.judge --out FOLDER``.

Labels as in AutoJudge (2504.20039): strict writes a text that answers the prompt rightly; each
drafted token that it rejects replaces the target's in turn, and strict goes on with the same noise.
Where the answer stays right, the drafted token stays in the text, and counts as harmless. A
logistic regression, or with ``--hidden`` a layer before it, learns this from the last hidden state
after the drafted token, or with ``--reads position`` from the one before it.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from evaluation.item import Item, Suite
from evaluation.scoring.answer import MARK
from evaluation.scoring.metrics import scores
from evaluation.scoring.names import STRICT
from evaluation.suites.read import read_suite
from mars_core.decoder import ANY_SHAPE
from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.models.classifier import KIND, Classifier, ClassifierConfig, Reads
from mars_core.session import Session
from mars_core.settings import Settings, read_lane
from mars_core.settings.command_line import add_options, machine
from mars_core.settings.setting import chosen
from mars_core.settings.setting import options as options_of
from mars_core.types import Outcome, RunConfig, Trace
from training.demo.corpus import documents

log = logging.getLogger(__name__)
HELD_OUT = 0.2  # of the prompts
RECALL = 0.9  # of the held-out tokens that change the answer, those with a score of 0.5 or more
SLOTS = 16  # runs that are decoded together
_DECAYS = (1e-3, 1e-2, 1e-1, 1.0)
_SETTINGS = (
    *("pair", "target", "classifier", "drafter", "k", "draft_mode", "tree", "system"),
    *("temperature", "max_new_tokens", "seed", "device", "dtype"),
)


class Mismatch(NamedTuple):
    """A drafted token that strict rejects; ``states`` [2, H]: after the token before it, and after
    it; ``changes``: whether the answer is wrong with it."""

    prompt: int
    states: Tensor
    changes: bool


def mismatches(pair: Pair, configs: Sequence[RunConfig], suite: Suite) -> Iterator[Mismatch]:
    """Yield the mismatches of the prompts that strict answers rightly, one of each in turn.
    ``configs``: of the items of ``suite``."""

    def is_right(number: int, text: str) -> bool:
        by_metric = scores(suite, suite.items[number], [text], execute_code=False)
        return next(iter(by_metric.values()), 0.0) == 1

    # Of each prompt: the text in which drafted tokens replace those of the target, and the output
    # position from which on they are tried.
    written = enumerate(_written(pair, configs))
    searches = {at: (run, 0) for at, run in written if is_right(at, run.text)}
    while tried := {at: config for at, each in searches.items() if (config := _next(pair, *each))}:
        runs = _written(pair, list(tried.values()))
        searches = {at: searches[at] for at in tried}
        for (at, config), run in zip(tried.items(), runs, strict=True):
            right = is_right(at, run.text)
            yield Mismatch(at, _states(pair, (*run.prompt_ids, *config.prefix)), not right)
            searches[at] = run if right else searches[at][0], len(config.prefix)


def _next(pair: Pair, text: Trace, start: int) -> RunConfig | None:
    """Return strict after the first token that it rejected in ``text``, from output position
    ``start`` on; None where there is none."""
    config = text.config
    for token in (token for step in text.steps for token in step.tokens):
        left = len(config.prefix) + config.max_new_tokens - token.position - 1
        rejected = token.outcome is Outcome.REJECTED and token.id not in pair.eos_ids
        if rejected and token.position >= start and left > 0:
            prefix = (*config.prefix, *text.token_ids)[: token.position]
            return replace(config, prefix=(*prefix, token.id), max_new_tokens=left)
    return None


def _written(pair: Pair, configs: Sequence[RunConfig]) -> list[Trace]:
    runs = dict(Session(pair).together(configs, SLOTS, telemetry=False))
    return [runs[number].trace() for number in range(len(configs))]


@torch.inference_mode()
def _states(pair: Pair, ids: Sequence[int]) -> Tensor:
    read = pair.target.get_decoder()(torch.tensor([ids], device=pair.device), use_cache=False)
    last: Tensor = read.last_hidden_state[0, -2:]
    return last.float().cpu().clone()


def trained(examples: Sequence[Mismatch], reads: Reads, hidden: int, seed: int) -> Classifier:
    """Train with the weight decay that ranks the held-out examples best. Raises ValueError where a
    part has examples of one kind only."""
    states = torch.stack([each.states[-1 if reads is Reads.TOKEN else 0] for each in examples])
    changes = torch.tensor([float(each.changes) for each in examples])
    prompts = torch.tensor([each.prompt for each in examples])
    held_out = prompts >= (1 - HELD_OUT) * (int(prompts.max()) + 1)
    for name, part in (("held-out", held_out), ("training", ~held_out)):
        if len(changes[part].unique()) < 2:
            raise ValueError(
                f"Of {int(part.sum())} {name} mismatches all or none change the answer; read more "
                "prompts."
            )
    config = ClassifierConfig(reads, states.shape[1], hidden)
    fits = [_fit(config, states[~held_out], changes[~held_out], each, seed) for each in _DECAYS]
    scores = [each(states[held_out])[:, 0] for each in fits]
    areas = [area(each, changes[held_out]) for each in scores]
    best = areas.index(max(areas))
    harmful = scores[best][changes[held_out] > 0]
    border = harmful.quantile(1 - RECALL, interpolation="lower")
    output = fits[best].layers[-1]
    assert isinstance(output, nn.Linear)
    with torch.no_grad():
        output.bias.sub_(border.logit(1e-6))
    accepted = float((fits[best](states[held_out])[:, 0] < 0.5).float().mean())
    log.info(
        "%d mismatches, %.1f %% change the answer; of the held-out ones %.1f %% are kept, ROC area "
        "%.3f",
        len(examples),
        100 * float(changes.mean()),
        100 * accepted,
        areas[best],
    )
    return fits[best]


def area(scores: Tensor, changes: Tensor) -> float:
    """Under the ROC curve: how often one that changes the answer has the larger score."""
    larger = scores[changes > 0][:, None] - scores[changes == 0]
    return float(((larger > 0).float() + (larger == 0).float() / 2).mean())


def _fit(
    config: ClassifierConfig, states: Tensor, changes: Tensor, decay: float, seed: int
) -> Classifier:
    """Learns from standardised states; the first layer then takes them as they are."""
    torch.manual_seed(seed)
    classifier = Classifier(config)
    mean, scale = states.mean(0), states.std(0).clamp(min=1e-6)
    standard = (states - mean) / scale
    weights = [each for each in classifier.parameters() if each.ndim == 2]
    optimiser = torch.optim.LBFGS(
        classifier.parameters(), max_iter=200, line_search_fn="strong_wolfe"
    )

    def loss() -> float:
        optimiser.zero_grad()
        logits = classifier.layers(standard)[:, 0]
        value = nn.functional.binary_cross_entropy_with_logits(logits, changes)
        value = value + decay * torch.stack([each.square().sum() for each in weights]).sum()
        value.backward()
        return float(value.detach())

    optimiser.step(loss)
    first = classifier.layers[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.weight.div_(scale)
        first.bias.sub_(first.weight @ mean)
    return classifier.requires_grad_(False)


def save(classifier: Classifier, target: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(classifier.state_dict(), folder / "model.safetensors")
    described = {"model_type": KIND, **classifier.config._asdict(), "target": target}
    (folder / "config.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def prompts(name: str | None, count: int, seed: int) -> Suite:
    """Return at most so many of a suite, or problems of the kind that trained the bundled pair."""
    if name:
        return read_suite(name, count)
    problems = (each for each in documents(seed) if MARK in each.answer and each.request)
    items = (
        Item(str(number), (each.request,), (each.answer.rpartition(MARK)[2].strip(),))
        for number, each in enumerate(islice(problems, count))
    )
    return Suite("problems", tuple(items), "problems", "", (STRICT,))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.judge", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the classifier")
    add_options(parser, options_of(Settings, *_SETTINGS))
    parser.add_argument(
        "--suite",
        help="prompts with references: a file or a built-in suite, such as instructions_fresh, which "
        "has other tasks than instructions (default: problems for the bundled pair)",
    )
    parser.add_argument("--prompts", type=int, default=300, help="at most (default 300)")
    parser.add_argument("--reads", choices=[*Reads], default=Reads.TOKEN.value)
    parser.add_argument("--hidden", type=int, default=0, help="units of a hidden layer (default 0)")
    parser.set_defaults(pair=BUNDLED_PAIR.key, max_new_tokens=160, seed=1)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings, pool = chosen(Settings, options, *_SETTINGS), ModelPool(**machine(options))
    pair = replace(pool.get(settings.spec()), shapes=ANY_SHAPE)  # not exact, but fast
    suite = prompts(options.suite, options.prompts, settings.seed)
    wanted = replace(settings, rules=(read_lane("strict"),), protect=())
    (strict,) = Session(pair).configs(wanted)
    configs = [
        replace(strict, prompt=replace(strict.prompt, text=item.turns[0]), seed=strict.seed + at)
        for at, item in enumerate(suite.items)
    ]
    examples = []
    for example in mismatches(pair, configs, suite):
        examples.append(example)
        if len(examples) % 100 == 0:
            log.info("%d mismatches", len(examples))
    if not examples:
        parser.error(
            f"Of the {len(configs)} prompts of {suite.name} none has a reference, is answered "
            "rightly and has a rejected draft."
        )
    classifier = trained(examples, Reads(options.reads), options.hidden, settings.seed)
    save(classifier, pair.target_ref.name, options.out)


if __name__ == "__main__":
    main()
