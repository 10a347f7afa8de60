"""Every measurement runs, in small sizes, and writes its result; those of the page, which need a
browser, are judged by numbers worked out by hand."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from bench.common.report import BenchReport, markdown
from bench.page import PageStart, figures
from tests.gguf_files import write_gguf

pytestmark = pytest.mark.usefixtures("loaded_once")
SMALL = {"--max-new-tokens": "8", "--rounds": "1"}


@pytest.mark.parametrize(
    ("module", "options", "rows"),
    [
        ("bench.__main__", {"--pair": "bundled", "--prompts": "1", **SMALL}, ["strict, n-grams"]),
        (
            "bench.batches",
            {"--prompts": "2", **SMALL},
            [
                "draft model: 4 slots / single runs",
                "transformers generate, float32: 4 slots / single runs",
            ],
        ),
        (
            "bench.exact",
            {"--prompts": "1", "--max-new-tokens": "8", "--dtype": "float32"},
            ["n-grams, continued"],
        ),
        (
            "bench.noise",
            {"--prompts": "1", **SMALL},
            ["speed, coupled over greedy strict, all texts together", "EAGLE-3 tree, greedy, mars"],
        ),
        ("bench.scale", {"--runs": "20", **SMALL}, ["report measured"]),
        ("bench.telemetry", {"--pairs": "1"}, ["mars, draft model, temperature 1, run 2"]),
    ],
)
def test_what_was_measured_is_written(
    module: str,
    options: dict[str, str],
    rows: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.batches.SLOTS", (1, 4))
    monkeypatch.setattr("bench.telemetry.TOKENS", 8)
    arguments = [each for option in options.items() for each in option]
    assert import_module(module).main([*arguments, "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.glob("*.md")
    text = file.read_text(encoding="utf-8")
    assert all(f"\n| {row} |" in text for row in rows)
    assert file.with_suffix(".json").exists()


def test_a_gguf_file_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("bench.gguf.LLAMA", tmp_path / "none")
    context = {"llama.context_length": 4096}
    file = write_gguf(tmp_path / "tiny.gguf", kind="Q8_0", numbers=context)
    options = f"--file {file} --only kl speed --tokens 4 --rounds 1 --out {tmp_path}".split()
    assert import_module("bench.gguf").main(options) == 0
    (result,) = tmp_path.glob("*.md")
    text = result.read_text(encoding="utf-8")
    assert all(f"\n| {row} |" in text for row in ("KL, in bfloat16", "strict, suffix"))


STARTS = [
    PageStart(4, usable_s, example_s, (900, 250)) for usable_s, example_s in ((4, 1.2), (6, 1.7))
]


def test_cold_clicks_are_apart_and_goals_are_judged() -> None:
    text = markdown(BenchReport("The page", figures=figures(STARTS)))
    for row in (
        "process start to a usable page | 5 s | ≤ 5 | yes | 3.50 to 6.50, n = 2",
        "usable page / Gradio alone imported | 1.25 × | ≤ 1.15 | no | 0.875 to 1.62, n = 2",
        "opening to the example's texts | 1.45 s | ≤ 1.5 | yes | 1.07 to 1.82, n = 2",
        "first click to its first token | 900 ms | ≤ 350 | no | 900 to 900, n = 2",
        "later clicks to their first token | 250 ms | ≤ 250 | yes | 250 to 250, n = 2",
    ):
        assert f"| {row} |" in text
