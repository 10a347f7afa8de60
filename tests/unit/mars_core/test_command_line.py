"""The command line on a pair in local folders: JSON that a program can read, a table that a person
can, errors in one sentence."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from evaluation import progress
from mars_core.decoder import ModelCache, PassShapes
from mars_playground.__main__ import main
from tests.checkpoints import CHARACTERS, SPECIAL, tiny_checkpoint, tiny_tokenizer
from tests.eagle_heads import random_head, save_head, tiny_config

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The options of a short run on a pair."""
    root = tmp_path_factory.mktemp("pair")
    target = tiny_checkpoint("llama", root / "target", seed=0)
    draft = tiny_checkpoint("llama", root / "draft", seed=1)
    return f"--target {target} --drafter {draft} --prompt abc --max-new-tokens 8"


@pytest.fixture(scope="module")
def eagle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same on a target with a head."""
    root = tmp_path_factory.mktemp("eagle")
    target = tiny_checkpoint("llama", root / "target", num_hidden_layers=8)
    model = AutoModelForCausalLM.from_pretrained(target, dtype="float32")
    head = save_head(random_head(tiny_config(model.config), model), root / "head")
    return f"--target {target} --drafter eagle3:{head} --prompt abc --max-new-tokens 8"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command line, words separated by blanks: status, output, errors."""
    return lambda words: (main(words.split()), *capsys.readouterr())


def test_in_a_log_every_stage_has_a_line_and_numbers_have_few(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 101.0, 102.0, 118.0, 119.0, 120.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    for text in ("weights, 5 MB", *(f"weights, 5 MB: {n} of 9" for n in (1, 2, 3)), "done"):
        progress.show_progress(text)
    progress.show_progress("")
    assert capsys.readouterr().err.splitlines() == [
        "weights, 5 MB",
        "weights, 5 MB: 3 of 9",
        "done",
    ]


def test_loading_says_what_it_reads_with_its_size_and_compares_tokenizers_first(
    call: Call, models: str, tmp_path: Path
) -> None:
    _, _, errors = call(f"compare {models}")
    stages = [line for line in errors.splitlines() if line.startswith("Loading ")]
    assert stages[0] == "Loading torch and transformers"
    sized = [line for line in stages if re.search(r": weights, \d+ MB", line)]
    assert {line.split()[1].rstrip(":") for line in sized} == {"target", "draft"}
    assert stages.index("Loading target: tokenizers") < stages.index(sized[0])
    target = shutil.copytree(models.split()[1], tmp_path / "target")
    draft = tiny_checkpoint("llama", tmp_path / "draft")
    tiny_tokenizer(draft, vocabulary=(*SPECIAL, *CHARACTERS[::-1]))
    for folder in (target, draft):
        (folder / "model.safetensors").unlink()
    code, _, errors = call(f"compare --target {target} --drafter {draft} --prompt abc")
    assert code == 2 and "do not share a vocabulary: id 3 is" in errors.splitlines()[-1]


def printed(call: Call, words: str) -> dict[str, Any]:
    """The JSON object of a successful run."""
    code, out, _ = call(f"{words} --json")
    document: dict[str, Any] = json.loads(out)
    assert code == 0
    return document


def test_compare_prints_one_json_object(models: str, call: Call) -> None:
    options = "--rule mars --theta 0.9 --k 3 --temperature 1 --seed 7 --prompt <b>hi</b>"
    document = printed(call, f"compare {models} {options}")
    assert [run["rule"] for run in document["runs"]] == ["strict", "mars"]
    assert document["config"]["seed"] == 7
    for run in document["runs"]:
        assert len(run["token_ids"]) == run["summary"]["new_tokens"] == 8
        assert [token["id"] for token in run["tokens"] if token["outcome"] != "rejected"] == run[
            "token_ids"
        ]
        assert run["config"]["drafter"]["k"] == 3
    assert document["runs"][1]["config"]["rule"]["parameters"] == {"theta": 0.9}
    assert document["runs"][0]["divergence"] is None
    assert document["runs"][0]["threshold"] is None
    assert document["runs"][1]["threshold"]["positions"] == 127


def test_a_banned_word_is_not_written(models: str, call: Call) -> None:
    (run,) = printed(call, f"run {models}")["runs"]
    more = f"--ban [{run['token_ids'][0]}] --repetition-penalty 1.2"
    document = printed(call, f"run {models} {more}")
    assert run["token_ids"][0] not in document["runs"][0]["token_ids"]
    assert document["config"]["sampling"]["processors"]["repetition_penalty"] == 1.2


def test_table_for_people_is_safe_for_a_terminal(models: str, call: Call) -> None:
    code, out, _ = call(f"compare {models} --rule mars --rule none")
    assert code == 0
    assert all(word in out for word in ("strict", "mars theta=0.9", "none", "tok/s", "τ"))
    assert "nan" not in out
    assert out.count("On this pair θ = 0.9 calls ") == 1
    (row,) = (line.split() for line in out.splitlines() if line.startswith("none "))
    assert row[7] == "–"  # nothing was drafted, so that no share of it was accepted
    assert "\x1b" not in out


def test_a_tv_that_is_a_bound_or_missing_is_labelled(models: str, eagle: str, call: Call) -> None:
    out = call(f"compare {models} --temperature 1 --rule lenience --rule mars")[1]
    bounds = {
        line.split()[0]: line.count("≤")
        for line in out.splitlines()
        if line.startswith(("strict ", "lenience ", "mars "))
    }
    assert bounds == {"strict": 0, "lenience": 3, "mars": 0} and "not known" not in out
    tree = "--tree 8/3/2"
    assert "TV and KL are not known" in call(f"run {eagle} --temperature 1 --rule mars {tree}")[1]


def test_a_pair_that_is_not_exact_is_reported(
    models: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not exact" not in call(f"run {models}")[1]
    monkeypatch.setattr("mars_core.models.checks.exactness.CANDIDATES", (PassShapes(2, 64, 128),))
    product = ModelCache.forward
    monkeypatch.setattr(
        ModelCache,
        "forward",
        lambda self, ids, *rest, **more: product(self, ids, *rest, **more) + 1e-5 * len(ids),
    )
    assert "not exact: its logits near position " in call(f"run {models}")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--thinking on",
            "thinking is on, but no chat template is used; it must be left at the model's default.",
        ),
        ("--set theta", "takes NAME=VALUE"),
        (
            "--rule topk-delta --set n=2.5",
            "n is 2.5; rule topk-delta takes 1 to 1000, whole numbers only.",
        ),
        ("--set speed=1", "has a parameter speed"),
        ("--target /nowhere/at/all", "/nowhere/at/all"),
        ("--device abacus", "abacus"),
        ("--pair mine", "pair is 'mine'; it must be one of smollm2-135m, bundled, "),
        (
            "--set typical.delta=0.2",
            "No rule of strict, mars has a parameter typical.delta; there are: mars.theta",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    models: str, call: Call, arguments: str, message: str
) -> None:
    code, out, err = call(f"compare {models} {arguments}")
    assert (code, out) == (2, "")
    *stages, sentence = err.splitlines()
    assert message in sentence and all(each.startswith(("Loading ", "Freeing ")) for each in stages)


def test_a_prompt_that_is_not_utf_8_is_named(models: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "prompt"
    file.write_bytes(b"caf\xe9")
    code, out, err = call(f"run {models.replace('--prompt abc', f'--prompt-file {file}')}")
    expected = f"{file}, line 1: byte 4 is not UTF-8; save the file as UTF-8.\n"
    assert (code, out) == (2, "") and err.endswith(expected)


def test_several_values_are_lanes_of_one_comparison(models: str, call: Call) -> None:
    options = "--rule mars --rule typical --theta 0.8,0.9 --set typical.delta=0.3"
    varied = "--set mars.theta=0.9,0.9-0.1*min(1,entropy/2) --scope tv<0.05*position"
    runs = printed(call, f"compare {models} --rule mars {varied}")["runs"]
    assert [run["config"]["rule"]["parameters"] for run in runs] == [
        {},
        {"theta": 0.9, "where": "tv<0.05*position"},
        {"theta": "0.9-0.1*min(1,entropy/2)", "where": "tv<0.05*position"},
    ]
    runs = printed(call, f"compare {models} {options}")["runs"]
    rules = [(run["rule"], run["config"]["rule"]["parameters"]) for run in runs]
    assert [name for name, _ in rules] == ["strict", "mars", "mars", "typical"]
    assert [parameters.get("theta") for _, parameters in rules[1:3]] == [0.8, 0.9]
    assert rules[3][1]["delta"] == 0.3
    code, _, err = call(f"run {models} --theta 0.8,0.9")
    sentence = "The options name 2 rules or values; run takes 1, compare takes several.\n"
    assert (code, err) == (2, sentence)


@pytest.mark.parametrize("interrupted", ["warm_up", "start"])
def test_ctrl_c_before_the_first_run_is_status_130(
    models: str, call: Call, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"mars_core.session.Session.{interrupted}", interrupt)
    assert call(f"run {models}")[:2] == (130, "")


def test_a_name_in_a_models_file_reaches_the_terminal_escaped(
    eagle: str, tmp_path: Path, call: Call
) -> None:
    (stored,) = re.findall(r"eagle3:(\S+)", eagle)
    head = Path(shutil.copytree(stored, tmp_path / "head"))
    config = head / "config.json"
    hostile = {
        "target_hidden_size": 999,
        "speculators_config": {"verifier": {"name_or_path": "\x1b[2Jevil"}},
    }
    config.write_text(json.dumps({**json.loads(config.read_text()), **hostile}))
    code, out, err = call(f"run {eagle} --drafter eagle3:{head}")
    assert (code, out) == (2, "")
    assert "(made for ␛[2Jevil)" in err and "\x1b" not in err


def test_an_output_that_lacks_a_character_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True)
    )
    assert main(["rules"]) == 0
    assert b"mars" in written.getvalue() and b"z?/z? > ?" in written.getvalue()


SEPARATE = """
import sys
from mars_playground.__main__ import main
print(main(["run", "--prompt", "a", "--rule", "nonsense"]), "torch" in sys.modules)
import torch
class Missing:
    def __getattr__(self, name): raise SystemExit(f"looked up {name}")
torch.ops.mkldnn = Missing()
torch.backends.mkldnn.is_available = lambda: False
print(main(sys.argv[1:]), "transformers" in sys.modules, "scipy.optimize" in sys.modules)
from transformers.utils import is_scipy_available
print(is_scipy_available())
"""


def test_a_separate_process_refuses_before_torch_and_reads_the_prompt_without_onednn_and_optimisers(
    models: str,
) -> None:
    """No operator of oneDNN is looked up where there is none, and SciPy's optimisers are never
    imported."""
    words = f"run {models} --prompt - --rule none --json"
    command = [sys.executable, "-c", SEPARATE, *words.split()]
    done = subprocess.run(
        command, input="hello", capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr
    refused, *document, run, scipy = done.stdout.splitlines()
    assert (refused, run, scipy) == ("2 False", "0 True False", "True")
    assert json.loads("".join(document))["runs"][0]["summary"]["prompt_tokens"] == len("hello")
