"""Measures the bundled pair on problems that never trained it, and writes its model card.

``python -m training.measure`` writes ``weights/README.md``: accuracy, τ of both draft modes, the share of low margins.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mars_core.demo.corpus import documents, held_out, held_out_requests
from mars_core.models import Pair, custom_pair
from mars_core.models.pool import ModelPool
from mars_core.session import Session, run_config
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, RuleConfig, Sampling, Trace, TreeShape
from training.tokenizer import split_document
from training.train import Recipe, Stage
from training.train_head import HeadRecipe

log = logging.getLogger(__name__)
K = 5
THETA = 0.9
NEW_TOKENS = 160
TREE = TreeShape(24, 7, 4)
GREEDY, SAMPLED, CHAIN, BRANCHED = "greedy", "sampled", "EAGLE-3 chain", "EAGLE-3 tree"
DRAFTERS = {
    GREEDY: DrafterConfig("model", None, K),
    SAMPLED: DrafterConfig("model", None, K, DraftMode.SAMPLED),
    CHAIN: DrafterConfig("eagle3", None, K),
    BRANCHED: DrafterConfig("eagle3", None, K, tree=TREE),
}
_EQUATION = re.compile(r"\d+ [-+*/] \d+ = \d+")


@dataclass(frozen=True, slots=True)
class Measured:
    """One rule on all problems. ``low_margin``: share of emitted positions with r > θ."""

    rule: str
    temperature: float
    drafts: str
    accuracy: float
    tau: float
    low_margin: float
    relaxed_share: float


def measure(pair: Pair, rule: str, temperature: float, drafts: str, count: int) -> Measured:
    """Answers the first ``count`` held-out problems; the seed of each run is the problem's number."""
    session = Session(pair)
    problems = held_out()[:count]
    traces = [_run(session, item.question, rule, temperature, drafts, seed) for seed, item in enumerate(problems)]
    tokens = [token for trace in traces for token in trace.tokens]
    right = [trace.text.rstrip().endswith(f"#### {item.answer}") for trace, item in zip(traces, problems, strict=True)]
    result = Measured(
        rule=rule,
        temperature=temperature,
        drafts=drafts,
        accuracy=sum(right) / len(right),
        tau=len(tokens) / sum(trace.summary.steps for trace in traces),
        low_margin=sum(token.r > THETA for token in tokens) / len(tokens),
        relaxed_share=sum(trace.summary.relaxed for trace in traces) / len(tokens),
    )
    log.info("%s", result)
    return result


def _run(session: Session, text: str, rule: str, temperature: float, drafts: str, seed: int) -> Trace:
    config = run_config(
        session.pair,
        prompt=PromptConfig(text),
        rule=RuleConfig(rule),
        drafter=DRAFTERS[drafts],
        sampling=Sampling(temperature),
        max_new_tokens=NEW_TOKENS,
        seed=seed,
    )
    run = session.start(config)
    for _ in run:
        pass
    return run.trace()


def card(
    pair: Pair, rows: Sequence[Measured], examples: Sequence[Trace], count: int, seen: tuple[int, int], provenance: str
) -> str:
    """The model card. Every number in it is measured here or stands in the recipe.

    ``seen``: equations that were trained on, of how many; ``provenance``: how these weights differ from the recipe.
    """
    lines = [
        "---",
        "license: mit",
        "language: en",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "---",
        "",
        "# The bundled pair",
        "",
        *_about(pair),
        "## Data",
        "",
        "Text made by `mars_core/demo/corpus.py` (seeded; nothing is collected): stories of five plots, and word problems of one "
        "to three steps with numbers from 0 to 100, solved in free wording around decisive digits. The problems below never "
        f"occur in it as questions, but their arithmetic does: {seen[0]} of their {seen[1]} equations stand somewhere in the training text "
        "(there are only about ten thousand within these bounds). The accuracy below therefore shows that the pair reads a problem, "
        "chooses the steps and recalls the sums; it says nothing about sums it never saw.",
        "",
        *_recipe(),
        *([provenance, ""] if provenance else []),
        *_results(rows, count),
        "## Two outputs at temperature 1 (strict)",
        "",
        *(
            f"> **{trace.config.prompt.text}**\n>\n> {trace.text.replace(chr(10), chr(10) + '> ')}\n"
            for trace in examples
        ),
        "## Licence",
        "",
        "MIT, as the program.",
    ]
    return "\n".join(lines) + "\n"


def _about(pair: Pair) -> list[str]:
    assert pair.draft is not None and pair.head is not None
    recipe = Recipe()
    sizes = [model.num_parameters() / 1e6 for model in (pair.target, pair.draft)]
    weights = (value for name, value in pair.head.named_parameters() if not name.startswith("embed_tokens."))
    own = sum(value.numel() for value in weights) / 1e6
    return [
        f"A target of {sizes[0]:.1f} M parameters ({recipe.target_layers} layers × {recipe.hidden}), a draft of {sizes[1]:.1f} M "
        f"({recipe.draft_layers} layer) with the same tokenizer ({recipe.vocabulary} entries, single digits), and an EAGLE-3 head of "
        f"{own:.1f} M that reads what enters the target's layers {', '.join(map(str, pair.head.config.taps))}. They exist to show "
        "speculative decoding at once, offline, on a CPU. They write short stories and solve grade-school word problems in the "
        "words of their own training text, and know nothing else: no facts, no other language, no conversation.",
        "",
    ]


def _recipe() -> list[str]:
    recipe, head = Recipe(), HeadRecipe()
    return [
        "## Recipe",
        "",
        f"`python -m training.train`: target {_millions(recipe.target_stages)} M tokens (the last "
        f"{_millions(recipe.target_stages[1:])} M with sheets of bare equations among the texts), draft {_millions(recipe.draft_stages)} M "
        "tokens of distillation (forward KL), Muon for the matrices and AdamW for the rest, bf16 autocast on a CPU; stored in bf16.",
        "",
        f"`python -m training.train_head`: the head drafts chains of {head.steps} from one look at the target, with the target's own "
        f"hidden states and its own outputs fed back, {_millions(head.stages)} M tokens of forward KL; in the last "
        f"{_millions(head.stages[1:])} M the target has answered half of the requests itself (greedily).",
        "",
    ]


def _results(rows: Sequence[Measured], count: int) -> list[str]:
    return [
        f"## Measured on {count} held-out problems",
        "",
        f"K = {K}, EAGLE-3 trees of {TREE.tokens} nodes (depth {TREE.depth}, top-k {TREE.top_k}), θ = {THETA}, chat template, float32; "
        f"`python -m training.measure --count {count}`. "
        "One seed a problem; no intervals.",
        "",
        "| rule | temperature | drafts | accuracy | τ | positions with r > 0.9 | relaxed |",
        "|---|---:|---|---:|---:|---:|---:|",
        *(
            f"| {row.rule} | {row.temperature:g} | {row.drafts} | {row.accuracy:.1%} | {row.tau:.2f} | {row.low_margin:.1%} "
            f"| {row.relaxed_share:.1%} |"
            for row in rows
        ),
        "",
    ]


def equations_seen(pair: Pair, count: int) -> tuple[int, int]:
    """How many equations of the first ``count`` held-out problems the target was trained on, of how many."""
    wanted = [equation for item in held_out()[:count] for equation in _EQUATION.findall(item.solution)]
    seen: set[str] = set()
    for number, stage in enumerate(Recipe().target_stages):
        left = stage.tokens
        for item in documents(Recipe().seed + 10 * number, stage.practice_share):
            seen.update(_EQUATION.findall(item.answer))
            left -= sum(len(pair.tokenizer.encode(part, add_special_tokens=False)) for part in split_document(item))
            if left <= 0:
                break
    return sum(equation in seen for equation in wanted), len(wanted)


def _millions(stages: Sequence[Stage]) -> str:
    return f"{sum(stage.tokens for stage in stages) / 1e6:.1f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.measure", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path(__file__).parent / "weights", help="holds target/, draft/ and eagle3/"
    )
    parser.add_argument("--count", type=int, default=300, help="problems")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    pair = ModelPool().get(custom_pair(*(str(options.folder / name) for name in ("target", "draft", "eagle3"))))
    plan = [(rule, 0.0, drafts) for drafts in (GREEDY, BRANCHED) for rule in ("strict", "mars")]
    plan += [("strict", 0.0, CHAIN)]
    plan += [(rule, 1.0, drafts) for drafts in (GREEDY, SAMPLED, BRANCHED) for rule in ("strict", "mars")]
    rows = [measure(pair, *each, options.count) for each in plan]
    prompts = (held_out()[0].question, held_out_requests(1)[0])
    examples = [_run(Session(pair), prompt, "strict", 1.0, GREEDY, 0) for prompt in prompts]
    note = options.folder / "PROVENANCE.md"
    provenance = note.read_text(encoding="utf-8").strip() if note.exists() else ""
    text = card(pair, rows, examples, options.count, equations_seen(pair, options.count), provenance)
    (options.folder / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
