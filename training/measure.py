"""Measures the bundled pair on held-out problems, and writes its model card.

``python -m training.measure`` writes ``weights/README.md``: accuracy, τ of both draft modes, the
share of low margins.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template

from bench.common.decoding import complete, config_of
from mars_core.demo.corpus import documents, held_out, held_out_requests
from mars_core.models import Pair, custom_pair
from mars_core.models.pool import ModelPool
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, RuleConfig, Trace, TreeShape
from training.tokenizer import split_document
from training.train import Recipe

log = logging.getLogger(__name__)
K = 5
THETA = 0.9
NEW_TOKENS = 160
TREE = TreeShape(24, 7, 4)
GREEDY, SAMPLED, CHAIN, BRANCHED = "greedy", "sampled", "EAGLE-3 chain", "EAGLE-3 tree"
DRAFTERS = {
    GREEDY: DrafterConfig("model", None, K, DraftMode.GREEDY),
    SAMPLED: DrafterConfig("model", None, K, DraftMode.SAMPLED),
    CHAIN: DrafterConfig("eagle3", None, K, DraftMode.GREEDY),
    BRANCHED: DrafterConfig("eagle3", None, K, DraftMode.GREEDY, TREE),
}
_EQUATION = re.compile(r"\d+ [-+*/] \d+ = \d+")


class PairMeasurement(NamedTuple):
    """One rule on all problems. ``low_margin``: share of emitted positions with r > θ."""

    rule: str
    temperature: float
    drafts: str
    accuracy: float
    tau: float
    low_margin: float
    relaxed_share: float


def measure(pair: Pair, rule: str, temperature: float, drafts: str, count: int) -> PairMeasurement:
    """Answers the first ``count`` held-out problems; the seed of each run is the problem's
    number."""
    problems = held_out()[:count]
    traces = [
        _run(pair, item.question, rule, temperature, drafts, seed)
        for seed, item in enumerate(problems)
    ]
    tokens = [token for trace in traces for token in trace.tokens]
    right = [
        trace.text.rstrip().endswith(f"#### {item.answer}")
        for trace, item in zip(traces, problems, strict=True)
    ]
    steps, relaxed = (
        sum(getattr(trace.summary, name) for trace in traces) for name in ("steps", "relaxed")
    )
    low = sum(token.r > THETA for token in tokens) / len(tokens)
    settings = (rule, temperature, drafts)
    result = PairMeasurement(
        *settings, sum(right) / len(right), len(tokens) / steps, low, relaxed / len(tokens)
    )
    drafted = [step for trace in traces for step in trace.steps if step.nodes]
    rates = [
        sum(step.kept >= depth for step in drafted) / len(drafted) for depth in range(1, K + 1)
    ]
    log.info("%s, accepted by position: %s", result, " ".join(f"{share:.3f}" for share in rates))
    return result


def _run(pair: Pair, text: str, rule: str, temperature: float, drafts: str, seed: int) -> Trace:
    prompt, drafter = PromptConfig(text), DRAFTERS[drafts]
    return complete(
        pair, config_of(pair, prompt, drafter, temperature, NEW_TOKENS, seed, RuleConfig(rule))
    )


def card(
    pair: Pair,
    rows: Sequence[PairMeasurement],
    examples: Sequence[Trace],
    count: int,
    equations: tuple[int, int],
    provenance: str,
) -> str:
    """The model card. Every number in it is measured here or part of the recipe.

    ``equations``: number of equations in the training data, and in total; ``provenance``: how these
    weights differ from the recipe.
    """
    assert pair.draft is not None and pair.head is not None
    models = (pair.target, pair.draft, pair.head)
    shared = (
        "lm_head.",
        "lm_head.",
        "embed_tokens.",
    )  # tables that are stored once: a pair in memory has copies
    sizes = [
        sum(value.numel() for name, value in model.named_parameters() if not name.startswith(table))
        / 1e6
        for model, table in zip(models, shared, strict=True)
    ]
    options: dict[str, Any] = {
        "trim_blocks": True,
        "undefined": StrictUndefined,
        "keep_trailing_newline": True,
    }
    template = Template(
        (Path(__file__).parent / "card.md.jinja").read_text(encoding="utf-8"), **options
    )
    text: str = template.render(
        sizes=sizes,
        feature_layers=pair.head.config.feature_layers,
        recipe=Recipe(),
        rows=rows,
        examples=examples,
        count=count,
        equations=equations,
        provenance=provenance,
        k=K,
        theta=THETA,
        tree=TREE,
    )
    return text


def known_equations(pair: Pair, count: int) -> tuple[int, int]:
    """Number of equations of the first ``count`` held-out problems in the training data, and in
    total."""
    wanted = [
        equation for item in held_out()[:count] for equation in _EQUATION.findall(item.solution)
    ]
    equations: set[str] = set()
    for number, stage in enumerate(Recipe().target_stages):
        left = stage.tokens
        for item in documents(Recipe().seed + 10 * number, stage.practice_share):
            equations.update(_EQUATION.findall(item.answer))
            left -= sum(
                len(pair.tokenizer.encode(part, add_special_tokens=False))
                for part in split_document(item)
            )
            if left <= 0:
                break
    return sum(equation in equations for equation in wanted), len(wanted)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.measure", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=WEIGHTS, help="holds target/, draft/ and eagle3/"
    )
    parser.add_argument("--count", type=int, default=300, help="problems")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    pair = ModelPool().get(
        custom_pair(*(str(options.folder / name) for name in ("target", "draft", "eagle3")))
    )
    plan = [(rule, 0.0, drafts) for drafts in (GREEDY, BRANCHED) for rule in ("strict", "mars")]
    plan += [("strict", 0.0, CHAIN)]
    plan += [
        (rule, 1.0, drafts) for drafts in (GREEDY, SAMPLED, BRANCHED) for rule in ("strict", "mars")
    ]
    rows = [measure(pair, *each, options.count) for each in plan]
    prompts = (held_out()[0].question, held_out_requests(1)[0])
    examples = [_run(pair, prompt, "strict", 1.0, GREEDY, 0) for prompt in prompts]
    note = options.folder / "PROVENANCE.md"
    provenance = note.read_text(encoding="utf-8").strip() if note.exists() else ""
    text = card(
        pair, rows, examples, options.count, known_equations(pair, options.count), provenance
    )
    (options.folder / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
