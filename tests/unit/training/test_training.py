"""The bundled pair's text is repeatable, varied, arithmetically right, and disjoint from what measures the
pair; the recipe runs, and the weights in the repository are what the model card says they are."""

from __future__ import annotations

import random
import re
from hashlib import sha256
from itertools import islice, product
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest

from mars_core.models import BUNDLED_PAIR, ModelPool, Pair
from mars_core.models.source import WEIGHTS_FOLDER as WEIGHTS
from mars_core.types import DrafterConfig, DraftMode, PromptConfig, Sampling, Trace, TreeShape
from tests.folders import load
from tests.live_pairs import traced
from training.demo.corpus import documents, held_out
from training.demo.problems import LIMIT, problem
from training.train import main

GREEDY = DrafterConfig("model", mode=DraftMode.GREEDY)
CHAIN = DrafterConfig("eagle3", mode=DraftMode.GREEDY)
TREE = DrafterConfig("eagle3", mode=DraftMode.GREEDY, tree=TreeShape(24, 7, 4))


@pytest.fixture(scope="module")
def bundled() -> Pair:
    return ModelPool().get(BUNDLED_PAIR)


def generate(
    pair: Pair, text: str, kind: str, temperature: float, seed: int = 0, *, chat: bool = True
) -> Trace:
    drafter = DrafterConfig(kind, tree=TREE.tree if kind == "eagle3" else None)
    prompt = PromptConfig(text, chat=chat)
    return traced(pair, drafter, Sampling(temperature), prompt=prompt, new=64, seed=seed)


def test_quick_recipe_makes_a_pair_that_loads_and_runs(tmp_path: Path) -> None:
    main(["--quick", "--out", str(tmp_path)])
    pair = load(tmp_path / "target", tmp_path / "draft")
    trace = generate(pair, "What is 2 + 2?", "model", 1.0)
    assert trace.summary.new_tokens > 0
    assert trace.token_ids == generate(pair, "What is 2 + 2?", "none", 1.0).token_ids


def test_weights_are_small_safe_and_complete() -> None:
    files = {
        path.relative_to(WEIGHTS).as_posix(): path.stat().st_size
        for path in WEIGHTS.rglob("*")
        if path.is_file()
    }
    head = sum(size for name, size in files.items() if name.startswith("smollm2-eagle3/"))
    assert head < 25_000_000 and sum(files.values()) - head < 32_000_000
    folders = ("target", "draft", "eagle3", "classifier")
    assert {*map("/".join, product(folders, ("model.safetensors", "config.json")))} <= files.keys()
    assert sum(size for name, size in files.items() if name.startswith("eagle3/")) <= 4_000_000
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in files)
    classifier = (WEIGHTS / "classifier/model.safetensors").read_bytes()
    assert sha256(classifier).hexdigest() in (WEIGHTS / "README.md").read_text(encoding="utf-8")


def answered(
    pair: Pair, drafter: DrafterConfig, temperature: float, count: int, rule: str = "strict"
) -> tuple[float, float, float]:
    """Of the first held-out problems: the share of right answers, τ, and the share of tokens with
    r > 0.9."""
    problems, sampling = held_out()[:count], Sampling(temperature)
    traces = [
        traced(pair, drafter, sampling, prompt=each.question, new=160, seed=seed, rule=rule)
        for seed, each in enumerate(problems)
    ]
    tokens = [token for trace in traces for token in trace.tokens]
    right = (
        trace.text.rstrip().endswith(f"#### {each.answer}")
        for trace, each in zip(traces, problems, strict=True)
    )
    tau = len(tokens) / sum(trace.summary.steps for trace in traces)
    return fmean(right), tau, fmean(token.r > 0.9 for token in tokens)


def test_pair_can_do_what_its_card_says(bundled: Pair) -> None:
    """On the first 6 of the 300 held-out problems of the card; the bounds are those that the pair
    was made to reach.

    A pair that is right half of the time gets 6 of 6 with a chance of 2 %. Standard errors of τ
    over these problems: 0.28 of 3.98 and 0.31 of 7.0 (tree) at temperature 0, 0.16 of 5.2 (chain),
    0.18 of 3.3 and 0.11 of 4.3 (mars) at temperature 1.
    """
    strict, tree, chain, sampled, mars = (
        answered(bundled, *each)
        for each in (
            (GREEDY, 0.0, 6),
            (TREE, 0.0, 6),
            (CHAIN, 0.0, 3),
            (GREEDY, 1.0, 4),
            (GREEDY, 1.0, 4, "mars"),
        )
    )
    assert strict[0] == tree[0] >= 0.9
    assert strict[1] >= 3.5 and tree[1] >= 1.25 * strict[1] and chain[1] > 4.5
    assert mars[1] > sampled[1] and 0.1 <= sampled[2] <= 0.35


_EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")


def test_every_equation_is_true_and_the_answer_is_the_last_result() -> None:
    rng = random.Random(0)
    for _ in range(2_000):
        item = problem(rng)
        results = []
        for a, sign, b, result in _EQUATION.findall(item.solution):
            left, right = int(a), int(b)
            expected = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}[
                sign
            ]
            assert int(result) == expected
            results.append(int(result))
        assert results[-1] == item.answer
        assert 0 < item.answer <= LIMIT
        assert item.solution.endswith(f"\n#### {item.answer}")


def test_held_out_problems_never_train_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems that the stream has are not in it once they are held out."""
    assert len({item.question for item in held_out()}) == 600
    requests = [document.request for document in islice(documents(1), 60) if document.request]
    monkeypatch.setattr(
        "training.demo.corpus.held_out",
        lambda: [SimpleNamespace(question=each) for each in requests],
    )
    assert len(requests) > 20
    assert not {*requests} & {document.request for document in islice(documents(1), 60)}
