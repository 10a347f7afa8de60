"""What all measurements share."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.common.command import Options, Reports, measurement
from bench.common.measure import WARM_UP_PROMPTS, Decoded, TimedSample, digest, interleaved
from bench.common.report import BenchReport
from mars_core.types import PromptConfig


def test_a_result_has_the_command_the_machine_and_its_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @measurement("bench.x", "What it is.", max_runs=7)
    def main(options: Options) -> Reports:
        yield BenchReport("T", failed=True)
        assert len(list(options.out.glob("*-x-cpu.md"))) == 1, "each is written when it is there"
        yield BenchReport("T", facts={"runs": str(options.max_runs)}, failed=options.max_runs < 7)

    with pytest.raises(SystemExit):
        main(["--max-runs", "0"])
    assert "--max-runs: 0; it must be 1 or more" in capsys.readouterr().err
    assert main(["--max-runs", "6", "--out", str(tmp_path / "failed")]) == 1
    capsys.readouterr()
    assert main(["--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*-x-cpu.md")
    text = path.read_text(encoding="utf-8")
    assert capsys.readouterr().out == text
    assert f"- command: `python -m bench.x --out {tmp_path}`" in text and "- runs: 7" in text
    assert "- hardware: " in text and "device cpu" in text


def test_every_method_decodes_every_prompt_in_every_round() -> None:
    calls: list[tuple[str, str, int]] = []

    def method(name: str, prompt: PromptConfig, seed: int) -> Decoded:
        calls.append((name, prompt.text, seed))
        return Decoded((1, 2, len(prompt.text)), 2)

    names, prompts = ("a", "b", "c", "d"), [PromptConfig(text) for text in ("x", "yy", "zzz")]
    methods = {name: lambda prompt, seed, name=name: method(name, prompt, seed) for name in names}
    samples = interleaved(methods, prompts, 2)
    first = samples["a"][0]
    assert first == TimedSample(0, 0, first.seconds, 3, 2, digest([1, 2, 1])) and first.seconds > 0
    timed = calls[len(names) * WARM_UP_PROMPTS :]
    wanted = [(prompt.text, turn) for turn in range(2) for prompt in prompts]
    blocks = [timed[at : at + len(names)] for at in range(0, len(timed), len(names))]
    assert [{each[1:] for each in block} for block in blocks] == [{each} for each in wanted]
    orders = [tuple(name for name, *_ in block) for block in blocks]
    assert {tuple(sorted(order)) for order in orders} == {names} and len({*orders}) > 1
