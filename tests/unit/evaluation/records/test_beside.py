"""A saved answer is a lane beside ours: what its file says of each token is shown, and nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import mars_playground as mars
from mars_core.settings.recorded import cautions, settings_of
from mars_core.telemetry import first_divergence
from mars_core.types import UNKNOWN
from mars_playground.__main__ import main
from storage import RunStore
from tests.streaming_server import chunk, position
from tests.unit.evaluation.records.examples import stream

PROMPT = "Tell me a story about Mia and a lantern."
FEW = {"pair": "bundled", "rules": ["none"], "max_new_tokens": 12}


def answer(pieces: tuple[str, ...], *, as_stream: bool) -> str:
    """An answer of a chat with log probabilities, in one piece or as a captured stream."""
    content = [position(piece, -0.5, other=-2.25) for piece in pieces]
    usage = {"completion_tokens": len(pieces), "prompt_tokens": 9}
    head: dict[str, Any] = {"id": "chatcmpl-7", "model": "served"}
    if not as_stream:
        choice = {"message": {"content": "".join(pieces)}, "logprobs": {"content": content}}
        choices = [choice | {"finish_reason": "length"}]
        return json.dumps(head | {"choices": choices, "usage": usage})
    events = [head | chunk(*each) for each in zip(pieces, content, strict=True)]
    return stream(*events, head | chunk("", finish="length") | {"usage": usage})


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_saved_answer_is_a_lane_with_the_log_probabilities_of_its_file(
    tmp_path: Path, as_stream: bool
) -> None:
    ours = mars.compare(PROMPT, **FEW).traces[0]  # type: ignore[arg-type]
    pieces = (*(token.piece for token in ours.tokens[:5]), " nowhere")
    file = tmp_path / "answer.json"
    file.write_text(answer(pieces, as_stream=as_stream), encoding="utf-8")
    compared = mars.compare(PROMPT, answers=[file, file], **FEW)  # type: ignore[arg-type]
    strict, _, served, _ = compared.traces
    assert served.text == "".join(pieces) and [each.piece for each in served.tokens] == [*pieces]
    assert [each.logprob for each in served.tokens] == [-0.5] * 6
    assert [each.gap for each in served.tokens] == [1.75] * 6
    assert (served.summary.new_tokens, served.summary.prompt_tokens) == (6, 9)
    assert served.summary.steps == UNKNOWN and math.isnan(served.summary.tau)
    difference = first_divergence(strict, served)
    assert difference and difference.position == 5
    assert set(compared.order[-2:]) == {2, 3} and len(compared.texts) == 4
    with RunStore(f"sqlite:///{tmp_path}/runs.db") as store:
        saved = store.load(compared._save(store)).runs[2].trace
    assert (saved.text, saved.config) == (served.text, served.config)
    configs = [trace.config for trace in compared.traces]
    assert [lane.text for lane in settings_of(configs).rules] == ["strict", "none"]
    assert any("--answer FILE" in note for note in cautions(configs))
    assert "nowhere" in compared.to_html(figures=False)
    follow_up = compared.ask("Go on.")
    assert len(follow_up.traces) == 2


def test_an_answer_from_the_command_line_and_a_file_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answer.json"
    file.write_text(answer(("Mia", " sat"), as_stream=False), encoding="utf-8")
    command = ["compare", "--pair", "bundled", "--prompt", PROMPT, "--max-new-tokens", "4"]
    assert main([*command, "--answer", str(file)]) == 0
    out = capsys.readouterr().out
    assert "── server answer.json ──\nMia sat\n" in out
    ties = "MARS, gap (g = 0.7) would keep a drafted runner-up at 0 of"
    assert f"\nserver answer.json: {ties} 2 positions of this text.\n" in out
    document = json.loads(file.read_text())
    document["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = []
    file.write_text(json.dumps(document), encoding="utf-8")
    assert main([*command, "--answer", str(file)]) == 0
    assert f"{ties} 1 positions of this text whose log prob" in capsys.readouterr().out
    for text, why in (
        ("{}", "it is not a record of"),
        (answer((), as_stream=False), "without a text"),
    ):
        file.write_text(text, encoding="utf-8")
        assert main([*command, "--answer", str(file)]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(str(file)) and why in said and said.endswith(".")
