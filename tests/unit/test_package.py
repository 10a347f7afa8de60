"""The metadata agrees with the locks, and ``mars`` gives every command line of the packages.
``make wheel`` installs the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import app
from hosting.settings import ServerSettings
from mars_core import __version__

ROOT = Path(__file__).parents[2]
STORED = ("list", "report latest")  # commands on stored numbers
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "locks").glob("*.txt"))
DECLARED = {"": PROJECT["dependencies"]} | PROJECT["optional-dependencies"]


def requirements(lines: Iterable[str]) -> dict[str, Requirement]:
    return {canonicalize_name(each.name): each for each in map(Requirement, lines)}


def test_each_extra_has_a_lock() -> None:
    extras = PROJECT["optional-dependencies"]
    locks = {path.stem for path in (ROOT / "locks").glob("*.txt")}
    assert locks == {"run", "torch-cpu", "torch-cuda", *extras}


@pytest.mark.parametrize("extra", DECLARED)
def test_each_locked_version_is_within_the_declared_range(extra: str) -> None:
    declared = requirements(DECLARED[extra])
    project = declared.pop(PROJECT["name"], None)  # dev has the other extras
    assert (project.extras if project else set()) == (
        {*DECLARED} - {"", "dev"} if extra == "dev" else set()
    )
    for name, requirement in declared.items():
        (version,) = set(re.findall(rf"^{name}==([^ ;]+)", LOCKS, re.MULTILINE))
        assert requirement.specifier.contains(version), f"{requirement}: run `make lock`"
        assert {each.operator for each in requirement.specifier} in ({">=", "<"}, {"=="}), (
            f"{requirement} is open"
        )


def test_the_requirements_of_a_space_are_the_dependencies_as_locked() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned, declared = requirements(lines), requirements(PROJECT["dependencies"])
    assert {name: each.extras for name, each in pinned.items()} == {
        name: each.extras for name, each in declared.items()
    }
    for name, requirement in pinned.items():
        assert re.search(rf"^{name}{requirement.specifier} ", LOCKS, re.MULTILINE), requirement


def test_make_leaves_these_commands_and_they_run_this_checkout_from_any_folder(
    make_commands: Path, tmp_path: Path
) -> None:
    for command in (["mars", "columns"], ["mars-playground", "--version"]):
        script = make_commands / command[0]
        assert script.read_text(encoding="utf-8").startswith(f"#!{make_commands}/python\n")
        done = subprocess.run(
            [script, *command[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        assert done.stdout.startswith(("### runs", __version__))
    assert PROJECT["scripts"].keys() <= {path.name for path in make_commands.iterdir()}
    rules = "\nrun: $(BIN)/mars\n", "\n$(EVAL_READY): locks/eval.txt $(BIN)/mars\n"
    assert all(rule in (ROOT / "Makefile").read_text(encoding="utf-8") for rule in rules)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ServerSettings(port=7000)),
        (["--host", "::1", "--port", "80"], ServerSettings(host="::1", port=80)),
        (["--port=0"], "PORT is '0'; it must be a whole number"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["page"], "unrecognized arguments: page"),
    ],
)
def test_the_page_reads_its_arguments_before_the_environment(
    arguments: list[str],
    expected: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done: list[object] = []
    monkeypatch.setattr(app, "serve", done.append)
    monkeypatch.setenv("PORT", "7000")
    monkeypatch.delenv("HOST", raising=False)
    with suppress(SystemExit):  # of argparse
        app.main(arguments)
    assert done == [expected] or str(expected) in f"{done} {capsys.readouterr().err}"


MODELS = {"torch", "transformers"}
PAGE = {"gradio", "plotly"}
COMMANDS = """
import sys
from mars_playground.__main__ import main, parser
parser()
found = []
for words, absent in eval(sys.argv[1]):
    words and main(words)
    found += absent & {*sys.modules}
print(found)
"""


@pytest.mark.parametrize(
    "steps",
    [
        [
            ("", MODELS | PAGE | {"sqlalchemy", "pandas", "scipy"}),  # the help alone
            ("rules", MODELS | PAGE | {"sqlalchemy", "pandas"}),
            ("models", MODELS | PAGE | {"sqlalchemy", "pandas"}),
            ("columns", MODELS | {"gradio", "pandas"}),
            *((f"eval {name} --db {{db}}", MODELS | {"gradio"}) for name in STORED),
        ],
        [("run --prompt x --pair nonsense", PAGE | {"sqlalchemy"})],
    ],
    ids=["stored", "decoding"],
)
def test_a_command_imports_only_what_it_needs(
    steps: list[tuple[str, set[str]]], tmp_path: Path
) -> None:
    """One that decodes nothing imports no models, and one that decodes no page."""
    db = f"sqlite:///{tmp_path}/runs.db"
    read = [(command.format(db=db).split(), absent) for command, absent in steps]
    words = [sys.executable, "-c", COMMANDS, str(read)]
    child = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert child.stdout.splitlines()[-1] == "[]", child.stderr


def test_readme_names_the_commands_of_a_fresh_machine_and_ci_runs_them() -> None:
    """Each as it stands there: `make run` until the page answers, and `make test`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert block
    commands = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    assert commands == ["make run", "make test"]
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    main = [line.strip() for line in script.splitlines()]
    assert "setsid make run &" in main and "\nmake check\npage\nmake test\n" in script
    for target in commands:
        rule = subprocess.run(
            [*target.split(), "--dry-run", "--always-make"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ".ci/venv" in rule.stdout and "pip install" in rule.stdout


def test_what_ci_leaves_out_is_noted_where_it_passes_and_only_there(tmp_path: Path) -> None:
    """With the commit, and not where files differ from it."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/green", tmp_path / ".ci/green")
    (tmp_path / ".ci/green.tsv").touch()

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    run("git", "init", "-q")
    run("git", "add", ".")
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
    commit = run("git", "rev-parse", "--short=8", "HEAD").stdout.strip()
    assert run(".ci/green", "vllm", "false").returncode == 1
    assert run(".ci/green", "nonsense", "true").returncode == 2
    assert "passed on" not in run(".ci/green").stdout
    assert run(".ci/green", "vllm", "true").returncode == 0
    assert re.search(
        rf"make vllm +passed on [\d-]{{10}}, commit {commit}\n", run(".ci/green").stdout
    )
    (tmp_path / ".ci/green").write_text((tmp_path / ".ci/green").read_text() + "\n")
    assert run(".ci/green", "llama", "true").returncode == 0
    assert "make llama  has not passed" in run(".ci/green").stdout
