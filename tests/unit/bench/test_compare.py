"""A regression is told from noise, what only one file holds is listed, and a file that is no result is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.compare import Verdict, changes, main, ratios, report
from bench.document import Document
from tests.unit.bench.documents import stored, timed
from tests.unit.bench.documents import write as write_document

Store = Callable[[str, Document], str]
PROMPTS, ROUNDS = 12, 3


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return lambda name, document: str(write_document(tmp_path / name, document))


def run(seed: int, prompts: int = PROMPTS, **slower: float) -> Document:
    """A base at 1 s and methods whose speed differs by prompt, with 2 % of noise, each ``slower`` by its factor."""
    noise = random.Random(seed)

    def seconds(factor: float) -> list[list[float]]:
        usual = (factor / (2 + 0.1 * prompt) for prompt in range(prompts))
        return [[each * noise.gauss(1, 0.02) for _ in range(ROUNDS)] for each in usual]

    return timed({"base": [[1.0] * ROUNDS] * prompts, **{name: seconds(factor) for name, factor in slower.items()}})


def verdicts(old: Document, new: Document) -> dict[str, Verdict]:
    found = changes(ratios(old), ratios(new), same_prompts=old.prompts == new.prompts)
    return {each.key.method + " share" * each.key.share: each.verdict for each in found}


def test_a_clear_regression_is_told_and_ends_with_1(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = run(1, steady=1, slow=1, quick=1), run(2, steady=1, slow=1.2, quick=0.8)
    told = {"steady": Verdict.NOISE, "slow": Verdict.REGRESSION, "quick": Verdict.IMPROVEMENT}
    assert verdicts(old, new) == told
    assert main([store("old.json", old), store("new.json", new)]) == 1
    line = next(each for each in capsys.readouterr().out.splitlines() if each.startswith("| speed of slow / base"))
    assert line.endswith("| regression |")


def test_noise_is_no_change(store: Store) -> None:
    names = {f"method {number}": 1.0 for number in range(10)}
    for seed in range(2):
        old, new = run(seed, PROMPTS, **names), run(seed + 100, PROMPTS, **names)
        assert set(verdicts(old, new).values()) == {Verdict.NOISE}
    assert main([store("old.json", old), store("new.json", new)]) == 0


@pytest.mark.parametrize(
    ("slower", "others", "verdict"), [(10, 0, Verdict.REGRESSION), (8, 0, Verdict.NOISE), (10, 20, Verdict.NOISE)]
)
def test_the_intervals_hold_together_with_95_per_cent(slower: int, others: int, verdict: Verdict) -> None:
    """Of 12 prompts 10 are slower: a draw takes 6 of the other 2 with probability 0.8 %, less than 2.5 %, more than 2.5 % / 21; 8: 18 %."""
    moved = [[0.5 * (1.1 if prompt < slower else 0.9)] for prompt in range(PROMPTS)]
    same = {f"other {number}": [[0.5]] * PROMPTS for number in range(others)}
    base = [[1.0]] * PROMPTS
    old, new = timed({"base": base, "own": [[0.5]] * PROMPTS, **same}), timed({"base": base, "own": moved, **same})
    assert verdicts(old, new)["own"] is verdict


def test_a_small_change_is_noise_however_steady_but_of_a_share_it_is_not() -> None:
    base = [[1.0]] * PROMPTS
    old = timed({"base": base, "own": [[0.5]] * PROMPTS, "own, meter off": [[0.495]] * PROMPTS})
    new = timed({"base": base, "own": [[0.507]] * PROMPTS, "own, meter off": [[0.495]] * PROMPTS})
    speeds = {"own": Verdict.NOISE, "own, meter off": Verdict.NOISE}
    assert verdicts(old, new) == {**speeds, "own share": Verdict.REGRESSION}
    text, worse = report(old, new)
    assert worse
    assert "| telemetry of own, temperature 0 | 1.0 % | 2.4 % | +1.4 points | +1.4 to +1.4 | regression |" in text


def test_few_prompts_say_nothing() -> None:
    assert verdicts(run(1, 5, own=1), run(2, 5, own=3)) == {"own": Verdict.UNKNOWN}
    assert verdicts(run(1, 6, own=1), run(2, 6, own=3)) == {"own": Verdict.REGRESSION}  # 2 · ½⁶ < 5 %


def test_what_one_file_holds_alone_is_listed() -> None:
    text, worse = report(run(1, common=1, gone=1), run(2, common=1, added=1))
    assert not worse
    assert "| speed of gone / base, temperature 0 | – | – | – | – | in the old file only |" in text
    assert "| speed of added / base, temperature 0 | – | – | – | – | in the new file only |" in text
    assert "| speed of common / base, temperature 0 | 2." in text


def test_a_ratio_of_a_goal_is_compared_and_one_that_explains_is_not() -> None:
    named = [(key.measure, key.method, key.baseline) for key in ratios(stored())]
    assert ("speed", "strict", "assisted") in named and ("tau", "eagle3 tree", "strict") in named
    assert ("tau", "eagle3 tree", "eagle3 chain") not in named and ("pace", "eagle3 tree", "eagle3 chain") not in named


def broken(text: str) -> str:
    """The stored document without its prompts."""
    return json.dumps({name: value for name, value in json.loads(text).items() if name != "prompts"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: "{", "Invalid JSON"),
        (lambda _: "[1]", "should be an object"),
        (lambda _: '{"tables": {}}', "'format' is missing"),
        (broken, "'prompts' is missing"),
        (lambda text: text.replace('"baseline": "base"', '"baseline": "else"'), "runs of else are missing"),
    ],
    ids=["no JSON", "a list", "old", "no prompts", "no runs"],
)
def test_a_broken_file_is_named_in_a_sentence(
    change: Callable[[str], str], said: str, tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    document = timed({"base": [[1.0]], "own": [[0.5]], "own, meter off": [[0.5]]})
    path = write_document(tmp_path / "broken.json", document)
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert main([store("good.json", document), str(path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error and said in error and error.count("\n") == 1
