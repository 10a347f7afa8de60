"""Every command of the pages and docstrings runs as it stands, or is in ``NOT_RUN`` with the
reason; its options are read in any case."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import app
from evaluation.harness.command import main as lm_eval
from mars_core.models import BUNDLED_PAIR, ModelPool
from mars_core.session import Session
from mars_core.types import DrafterConfig
from mars_playground.__main__ import main as mars
from tests.served_server import MODEL, serve_models
from tests.unit.evaluation.records.test_records import LINE, VLLM

pytestmark = pytest.mark.usefixtures("loaded_once")
ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
    ROOT / "integrations/vllm/README.md",
    ROOT / "mars_core/demo/weights/README.md",
)
SOURCES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if not {"tests", "build", "dist"} & {*path.relative_to(ROOT).parts}
    and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
]
PROGRAMS = r"mars|mars-playground|python3?|make|pip|lm_eval|vllm|docker|git|curl|createdb|systemctl|\.ci/[\w-]+"
COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(?:{PROGRAMS}) \S")
Main = Callable[[list[str]], Any]

# Run as they stand, with these words added where they would take minutes.
SMALL = "--limit 1 --max-new-tokens 4 --quiet"
FEW = "--draws 20 --repeats 20 --prompts prompts.txt"
RUN = {
    'mars compare --prompt "What is gravity?" --rule mars --max-new-tokens 64': "--pair bundled",
    "mars models": "",
    "mars rules": "",
    'mars run --prompt "What is the capital of France?" --rule none': "--pair bundled",
    'mars compare --pair bundled --prompt "Tell me a story about Mia and a lantern." --rule mars --theta 0.9 --k 5 '
    "--temperature 1 --max-new-tokens 128 --seed 0": "",
    'mars compare --pair bundled --prompt "Ivan has 51 toy cars and puts 3 in each bag. How many bags does he need?" '
    "--rule mars --rule typical --set theta=0.85 --drafter eagle3 --tree 12/6/2 --temperature 1": "",
    "mars columns": "",
    "mars-playground --help": "",
    'mars run --pair bundled --prompt "Tom had a red ball."': "",
    "mars --print-completion bash >> ~/.bash_completion": "",
    "mars check --server http://localhost:8000": FEW,
    "mars check --server http://localhost:8000 --against http://localhost:8001": FEW,
    "mars check --server http://localhost:8000 --reference model.gguf": f"{FEW} --reference bundled/target",
    'mars compare --prompt "What is gravity?" --rule mars --server http://localhost:8000': "--pair bundled "
    "--max-new-tokens 8",
    'mars compare --prompt "What is gravity?" --rule mars --server http://localhost:8000 --server http://localhost:8001': "--pair bundled "
    "--max-new-tokens 8",
    'mars compare --prompt "What is gravity?" --rule mars --answer answer.json': "--pair bundled --max-new-tokens 4",
    "mars import /tmp/mars.jsonl": "",
    "mars export tokens tokens.parquet --rule mars --since 2026-11-01": "",
    ".venv/bin/mars eval run --pair bundled --suite demo_arithmetic --limit 40 --rules none,strict,mars --theta 0.84,0.9,0.96 "
    "--temperature 0,1 --seeds 3": f"--seeds 1 --placebo-seeds 1 {SMALL}",
    "mars eval run --pair bundled --prompt '7 + 8 =' --reference 15 --prompt 'Tell me a story.' --rules strict,mars "
    "--theta 0.84,0.88,0.9,0.94,0.98 --seeds 5": f"--seeds 1 {SMALL}",
    "mars eval run --pair bundled --suite demo_arithmetic --rules none,strict,mars --batch 1,4,8,16 --k 1,3,5 "
    "--no-placebos": f"{SMALL} --batch 1,2 --k 1,2",
    "mars eval run --pair smollm2-135m --suite instructions --limit 20 --lengths 512,1024,2048 --rules none,strict,mars "
    "--no-placebos": f"--pair bundled {SMALL} --lengths 80,160",
    ".venv/bin/mars eval report latest": "",
    "mars publish site --tag best": "",
    "mars eval run --pair bundled --suite demo_arithmetic --rules strict,mars --theta 0.9,0.97 --batch 16 "
    "--interventions 1000": f"{SMALL} --interventions 2 --placebo-seeds 1",
    "mars advise --pair bundled --suite demo_arithmetic --margin 0.98 --rules mars,mars-gap "
    "--batch 8 --time-alone 16": "--time-alone 1 --margin 0.5 --alpha 0.3 --limit 8 --max-new-tokens 24 --quiet",
    "mars eval match --pair bundled --suite demo_arithmetic --rules mars,mars-gap,random --tau 4.05 "
    "--batch 8": "--tau 4.8 --limit 8 --max-new-tokens 24 --quiet",
    "mars eval run --help": "",
    "mars eval run … --plan-only": "",
    "mars eval resume STUDY": "",
    "mars eval export STUDY --folder F": "",
    "mars eval delete STUDY": "",
    "mars eval run --pair smollm2-135m --suite instructions --limit 300 --rules strict,mars,mars-gap,topk-delta,topk-ratio,"
    "asd,fuzzy,cascade-opt,cascade-token,lenience,ensemble,easd,fly --set 'mars.theta=0.9,0.97,0.99 - 0.12*min(1, entropy/2)' "
    "--set mars-gap.gap=0.7,2.4 --set topk-delta.n=10 --set topk-delta.delta=0.3 --drafter eagle3 --k 3 --draft-mode greedy "
    "--temperature 0 --seeds 1 --seed 0 --system 'Answer briefly.' --max-new-tokens 40 --margin 0.98 --batch 16 "
    "--device cuda --dtype float32 "
    "--name 'SmolLM2-135M, instructions: chains at temperature 0'": "--pair bundled --device cpu --plan-only",
    "mars eval run --pair smollm2-135m --suite instructions_fresh --limit 300 --rules "
    "strict,mars,mars-gap --set mars.theta=0.97,0.9 --set mars-gap.gap=0.7 --drafter eagle3 "
    "--k 3 --draft-mode greedy --temperature 0 --seeds 1 --seed 0 --system 'Answer briefly.' "
    "--max-new-tokens 200 --margin 0.98 --batch 16 --device cpu --no-placebos --interventions"
    " 1000 --name 'SmolLM2-135M, fresh instructions: tokens of strict relaxed alone'": "--pair bundled --device cpu --plan-only",
    "mars eval run --pair smollm2-135m --suite instructions_fresh --limit 300 --rules "
    "strict,mars,mars-gap --set mars.theta=0.97,0.9 --set mars-gap.gap=0.7 --drafter eagle3 "
    "--k 3 --draft-mode greedy --temperature 0 --seeds 1 --seed 0 --system 'Answer briefly.' "
    "--max-new-tokens 200 --margin 0.98 --batch 16 --device cpu --name 'SmolLM2-135M, fresh "
    "instructions: chains at temperature 0'": "--pair bundled --device cpu --plan-only",
    "mars eval run --pair smollm2-135m --suite instructions_fresh --limit 300 --rules "
    "strict,mars --theta 0.97,0.9 --drafter eagle3 --tree 24/6/4 --draft-mode greedy "
    "--temperature 0 --seeds 1 --seed 0 --system 'Answer briefly.' --max-new-tokens 200 "
    "--margin 0.98 --batch 16 --device cpu --placebo-seeds 1 --name 'SmolLM2-135M, fresh "
    "instructions: trees at temperature 0'": "--pair bundled --device cpu --plan-only",
    "mars eval run --pair smollm2-135m --suite instructions_fresh --limit 300 --rules "
    "strict,lenience,topk-ratio,topk-delta,cascade-token --set topk-delta.n=10 --set "
    "topk-delta.delta=0.3 --drafter eagle3 --k 3 --draft-mode greedy --temperature 0 --seeds "
    "1 --seed 0 --system 'Answer briefly.' --max-new-tokens 200 --margin 0.98 --batch 16 "
    "--device cpu --placebo-seeds 1 --name 'SmolLM2-135M, fresh instructions: other rules "
    "beside random places, chains at temperature 0'": "--pair bundled --device cpu --plan-only",
    "mars eval run --pair smollm2-135m --suite instructions_fresh --limit 300 --rules "
    "strict,mars,lenience,topk-ratio --set mars.theta=0.97,0.9 --drafter eagle3 --k 3 "
    "--draft-mode greedy --temperature 1 --seeds 1 --seed 0 --system 'Answer briefly.' "
    "--max-new-tokens 200 --margin 0.98 --batch 16 --device cpu --placebo-seeds 1 --name "
    "'SmolLM2-135M, fresh instructions: chains at temperature 1'": "--pair bundled --device cpu --plan-only",
    "mars eval run --server http://localhost:8000 --rules strict,mars --theta 0.84,0.9 --suite gsm8k.jsonl --seeds 3 "
    "--concurrency 1,4,16": SMALL,
    "mars eval run --server http://localhost:8001 --baseline http://localhost:8000 --rules strict,server "
    "--suite gsm8k.jsonl": SMALL,
    "mars eval run --server http://localhost:8000 --server-model MODEL --rules strict,mars --suite gsm8k.jsonl": SMALL,
}
NOT_RUN = {  # expressions of full commands, without variables of the environment before them
    r"make .+": "installs, measures, uploads or serves; each is rehearsed by make -n",
    r"(mars|python -m (mars_playground|hosting\.deploy))( eval)?( [a-z_]+)?( …| FILE….*| owner/name .*)?": "only named",
    r"torchrun .+": "trains for hours",
    r"python -m (bench|training)\b.*": "takes minutes, and writes results or weights",
    r"python -m (evaluation|ui)\.[\w.]+( STUDY)?": "serves, or writes an example that is part of the program",
    r"python docs/figures/draw\.py": "writes the figures; test_docs.py draws them",
    r"mars eval run --plan FILE": "tests/unit/evaluation/study/test_command.py has one",
    r"mars eval run --target qwen2\.5-coder.*": "needs a file of 0.5 GB",
    r"mars eval judge STUDY": "asks a language model; tests/unit/evaluation/judge has one",
    r"mars eval report STUDY --folder F": "writes files; tests/unit/evaluation/study/test_command.py does",
    r"mars eval follow STUDY.*": "decodes for long; tests/unit/evaluation/study/test_follow.py runs it",
    r"mars eval run … --ray.*": "starts processes, as tests/faults/test_nodes.py does",
    r"\.venv/bin/lm_eval .+": "reads 10,000 files first; tests/unit/evaluation/harness/test_command.py runs it without them",
    r"(\.venv/bin/)?mars fetch.*": "downloads, as tests/unit/mars_core/test_gguf.py does from a folder",
    r"mars-playground|python app\.py": "serves until it is stopped, as app.py does in tests/faults",
    r"(event=\$\()?curl .+|sed .+": "asks a page, as tests/unit/ui/test_api.py does; a server of vLLM; another machine",
    r"(\.venv/bin/)?pip .+|apt-get .+|git .+": "downloads",
    r"docker .+": "needs a container engine",
    r"(cp|cd|nginx|systemctl|systemd-analyze|journalctl|jq|createdb|pg_dump) .+": "needs root, a service or PostgreSQL's own role",
    r".*\bvllm (serve|/).*|vllm serve.*|python -m vllm\..+|integrations/vllm/try .+": "needs vLLM; make vllm runs it",
    r"python batch\.py TARGET DRAFT K SLOTS": "needs vLLM; bench.batches runs it",
    r"python serve\.py MODEL\.gguf KIND \[THREADS \[CONTEXT\]\]": "needs xllamacpp; make llama runs it",
    r"\.ci/build-in-chroot FOLDER": "needs root and Debian packages",
}
EXAMPLES = {  # pages with examples in Python, and the tests that run them
    "README": "test_python.py",
    "api": "ui/test_api.py",
    "contributing": "test_docs.py",
    "data": "storage/test_data_docs.py",
    "evaluation": "evaluation/study/test_command.py",
    "token-view": "ui/test_token_view.py",
}
VARIABLES = re.compile(r"^(?:[A-Z_]+=(?:\"[^\"]*\"|\$\([^)]*\)|\S+) +)+")


def commands(page: Path) -> list[str]:
    """Simple commands: of the blocks of shell, in their order, then those within sentences, where |
    separates alternatives."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [
        line.strip() for block in blocks for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines()
    ]
    code = [re.sub(r"(^|\s+)# .*", "", line) for line in lines]
    parts = [part for line in code if line for part in re.split(r" && | \| |; ", line)]
    return [*parts, *spans(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))]


def spans(text: str) -> list[str]:
    texts = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    several = [span.split(" | ") for span in texts if COMMAND.match(span)]
    return [
        one
        for first, *more in several
        for one in (first, *(f"{first.rpartition(' ')[0]} {each}" for each in more))
    ]


@cache
def everything() -> dict[str, set[str]]:
    """Where each command is named."""
    pages_of: dict[str, set[str]] = {}
    for page in PAGES:
        for command in commands(page):
            pages_of.setdefault(VARIABLES.sub("", command), set()).add(page.name)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for command in spans(node.value):
                    pages_of.setdefault(VARIABLES.sub("", command), set()).add(path.name)
    return pages_of


def words(command: str, **replacements: str) -> list[str]:
    """With what stands for a reader's names replaced."""
    values = {
        "run …": "run --pair bundled --suite demo_arithmetic --limit 1 --max-new-tokens 4 --quiet",
        " …": "",
        "[": "",
        "]": "",
        "STUDY": "latest",
        "--server-model MODEL": f"--server-model {MODEL}",
    }
    for name, meant in (values | replacements).items():
        command = command.replace(name, meant)
    return shlex.split(command)


def main_of(arguments: list[str]) -> tuple[Main | None, list[str]]:
    """What a command of this program calls, and with what; None: a module without a command
    line."""
    match arguments:
        case ["mars" | ".venv/bin/mars", *rest]:
            return mars, rest
        case ["mars-playground", *rest] | ["python", "app.py", *rest]:
            return app.main, rest
        case [".venv/bin/lm_eval", *rest]:
            return lm_eval, rest
        case ["python" | ".venv/bin/python", "-m", module, *rest] if not module.startswith("vllm"):
            spec = importlib.util.find_spec(module)
            assert spec, f"there is no module {module}"
            return getattr(
                import_module(f"{module}.__main__" if spec.submodule_search_locations else module),
                "main",
                None,
            ), rest
    return None, []


class Read(BaseException):
    """A parser has accepted all options."""


def test_every_command_is_run_or_has_a_reason() -> None:
    pages_of = everything()
    reasons = {
        name: [each for each in NOT_RUN if re.fullmatch(each, name)]
        for name in pages_of.keys() - RUN
    }
    assert not [
        f"{name!r} of {pages_of[name]} is neither in RUN nor in NOT_RUN"
        for name, each in reasons.items()
        if not each
    ]
    assert not RUN.keys() - pages_of, "no page names these any more"
    assert not NOT_RUN.keys() - {each for several in reasons.values() for each in several}, (
        "nothing is left out for these"
    )
    bare = [
        block
        for page in PAGES
        for block in re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    ]
    assert not [line for block in bare for line in block.splitlines() if COMMAND.match(line)], (
        "a block of commands begins with ```sh"
    )


def test_every_page_with_examples_in_python_has_a_test_that_runs_them() -> None:
    assert {
        page.stem for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")
    } == EXAMPLES.keys()
    for page, file in EXAMPLES.items():
        text = (ROOT / "tests/unit" / file).read_text(encoding="utf-8")
        assert f"{page}.md" in text and ("exec(" in text or "run_path(" in text), file


@pytest.mark.parametrize("command", sorted(everything()))
def test_the_options_of_every_command_are_read(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main, rest = main_of(words(command.partition(" >> ")[0]))
    if main is None:
        return
    parse = argparse.ArgumentParser.parse_args

    def read(*arguments: Any, **more: Any) -> None:
        parse(*arguments, **more)
        raise Read

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", read)
    monkeypatch.setattr("sys.argv", ["a program"])  # lm-eval's command changes it
    with pytest.raises((Read, SystemExit)) as ended:
        main(rest)
    if (
        isinstance(ended.value, SystemExit) and ended.value.code
    ):  # a name alone may leave out what it needs
        assert re.search(r"arguments .*(?:are|is) required", capsys.readouterr().err)


def test_make_knows_every_target() -> None:
    targets = {command for command in everything() if command.startswith("make ")}
    for command in sorted(targets):
        done = subprocess.run(
            ["make", "-n", *shlex.split(command)[1:]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_every_file_that_a_command_reads_exists() -> None:
    named = re.compile(
        r"(?<![\w/.])(?:\./)?((?:deploy|locks|docs|integrations|bench|\.ci)/[\w./-]*[\w]|requirements[\w-]*\.txt)(?!:)"
    )
    paths = {path for command in everything() for path in named.findall(command)}
    assert len(paths) > 8 and not [path for path in paths if not (ROOT / path).exists()]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    session = Session(ModelPool(device="cpu", dtype="float32").get(BUNDLED_PAIR))
    with (
        serve_models(session) as one,
        serve_models(session, drafter=DrafterConfig("none")) as other,
    ):
        yield {"http://localhost:8000": one.url, "http://localhost:8001": other.url}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the files that a reader has, and a separate database."""
    problem = {
        "question_id": 1,
        "category": "math",
        "turns": ["What is 17 + 25?"],
        "reference": ["42"],
    }
    (tmp_path / "gsm8k.jsonl").write_text(json.dumps(problem), encoding="utf-8")
    (tmp_path / "answer.json").write_text(json.dumps(VLLM), encoding="utf-8")
    (tmp_path / "mars.jsonl").write_text(json.dumps(LINE), encoding="utf-8")
    (tmp_path / "prompts.txt").write_text("Tell me a story.\n", encoding="utf-8")
    monkeypatch.setattr("evaluation.lossless.command.ENOUGH", 1)  # of fewer drafts more is asked
    monkeypatch.setattr("evaluation.lossless.draws.RESAMPLES", 1_999)
    for name in ("rounds.TOKENS", "referred.TOKENS", "sampled.LONG", "referred.LONG"):
        monkeypatch.setattr(f"evaluation.lossless.{name}", 12)
    monkeypatch.setenv("MARS_DATABASE_URL", f"sqlite:///{tmp_path / 'runs.db'}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page", [page for page in PAGES if RUN.keys() & {*commands(page)}], ids=lambda page: page.stem
)
def test_the_commands_of_a_page_run(
    page: Path,
    folder: Path,
    servers: dict[str, str],
    make_commands: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replacements = servers | {
        "postgresql://…": os.environ["MARS_DATABASE_URL"],
        "/tmp/mars.jsonl": str(folder / "mars.jsonl"),
    }
    for command in dict.fromkeys(commands(page)):
        if command not in RUN:
            continue
        if ">>" in command:  # the command that make wrote, as a shell finds it
            environment = {
                **os.environ,
                "PATH": f"{make_commands}:{os.environ['PATH']}",
                "HOME": str(folder),
            }
            subprocess.run(["bash", "-c", command], env=environment, check=True)
            assert "_shtab_mars" in (folder / ".bash_completion").read_text(encoding="utf-8")
            continue
        main, rest = main_of(words(f"{command} {RUN[command]}", **replacements))
        assert main is not None
        try:
            assert main(rest) == 0, (command, *capsys.readouterr())
        except SystemExit as end:  # of argparse's help
            assert not end.code, command
        capsys.readouterr()
