"""What goes to a Space, in which form, and how an upload ends. The Hub is a stand-in with the calls
of HfApi that are used."""

from __future__ import annotations

import inspect
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from huggingface_hub import HfApi, SpaceCard, SpaceHardware
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError
from packaging.requirements import Requirement

from hosting.deploy.__main__ import (
    _PRIVATE_NAME,
    DOCKER_FILES,
    FLAVOURS,
    GPU_PAIRS,
    ROOT,
    DeployError,
    main,
    staged,
)
from mars_core.models import CATALOG

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES = [
    each.rstrip("*") for each in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
]


class Hub:
    """Takes what HfApi takes, by its signatures, and keeps it. ``broken``: what a call
    raises."""

    def __init__(self, **broken: Exception) -> None:
        self.broken, self.calls = broken, dict[str, dict[str, Any]]()
        self.variables, self.files = dict[str, str](), set[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(HfApi, name))  # else HfApi has no such call

        def call(*arguments: object, **named: object) -> Any:
            bound = self.calls[name] = signature.bind(self, *arguments, **named).arguments
            if name in self.broken:
                raise self.broken[name]
            if name == "upload_folder":
                root = bound["folder_path"]
                self.files = {str(each.relative_to(root)) for each in root.rglob("*")}
            return {
                "space_info": SimpleNamespace(sha="a" * 40),
                "get_space_variables": self.variables,
                "upload_folder": SimpleNamespace(oid="b" * 40),
            }.get(name)

        return call


REQUEST = httpx.Request("POST", "https://huggingface.co/api")
REFUSED = HfHubHTTPError(
    f"no token: hf_{'s' * 34}", response=cast(Any, httpx.Response(401, request=REQUEST))
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository with all that a Space needs."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files = dict.fromkeys(("app.py", "CHANGELOG.md", "LICENSE", "pyproject.toml"), "text\n")
    files |= {f"{package}/page.py": "page = 1\n" for package in PACKAGES}
    files |= dict.fromkeys(("docs/hosting.md", "docs/figures/a", "docs/reference/a.md"), "how\n")
    files |= {"Dockerfile": "FROM scratch\n", ".dockerignore": "*\n", "locks/run.txt": "a==1\n"}
    files |= {"README.md": readme, "requirements.txt": "gradio==1\n", "tests/test_page.py": "\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "all")


def deployed(project: Path, *options: str, hub: Hub | None = None) -> int:
    return main(["me/space", *options], api=cast(HfApi, hub), root=project)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_front_matter_is_what_the_hub_takes(flavour: str, project: Path, tmp_path: Path) -> None:
    staged(project, flavour, tmp_path / "space")
    fields = SpaceCard.load(tmp_path / "space" / "README.md").data.to_dict()
    assert len(fields["short_description"]) <= 60 and len(fields["emoji"]) == 1
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {fields["colorFrom"], fields["colorTo"]} <= colours
    assert fields["suggested_hardware"] in [hardware.value for hardware in SpaceHardware]
    assert ("preload_from_hub" in fields) == (flavour == "zerogpu")
    pins = map(Requirement, (ROOT / "requirements.txt").read_text("utf-8").splitlines())
    (gradio,) = (str(pin.specifier)[2:] for pin in pins if pin.name == "gradio")
    run = [fields.get(name) for name in ("sdk_version", "python_version", "app_file", "app_port")]
    assert run == ([None] * 3 + [7860] if flavour == "docker" else [gradio, "3.12", "app.py", None])


def test_what_is_fetched_before_the_start_is_what_the_catalog_loads() -> None:
    by_key = {pair.key: pair for pair in CATALOG}
    pairs = [by_key[key] for key in GPU_PAIRS.split(",")]
    refs = [ref for pair in pairs for ref in (pair.target, pair.draft) if ref]
    preload = [entry.split() for entry in SpaceCard.load(ROOT / "README.md").data.preload_from_hub]
    assert {(name, revision) for name, _, revision in preload} == {
        (ref.name, ref.revision) for ref in refs if ref.revision
    }


def test_only_what_belongs_goes(project: Path, tmp_path: Path) -> None:
    """As it is in the last commit."""
    (project / "ui" / "page.py").write_text("page = 2\n", encoding="utf-8")
    (project / "ui" / "runs.db").write_bytes(b"SQLite format 3\0")
    paths = {}
    for flavour in FLAVOURS:
        staged(project, flavour, tmp_path / flavour)
        files = (tmp_path / flavour).rglob("*")
        paths[flavour] = {str(each.relative_to(tmp_path / flavour)) for each in files}
    assert {"docs/hosting.md", "app.py"} <= paths["zerogpu"] == paths["cpu"]
    assert {f"{package}/page.py" for package in PACKAGES} <= paths["cpu"]
    assert not {"tests", "ui/runs.db", *DOCKER_FILES} & paths["zerogpu"]
    assert (tmp_path / "cpu" / "ui" / "page.py").read_text("utf-8") == "page = 1\n"
    assert paths["docker"] - paths["cpu"] == {*DOCKER_FILES, "locks/run.txt"}
    readme = (tmp_path / "zerogpu" / "README.md").read_text("utf-8")
    assert readme == (project / "README.md").read_text("utf-8")
    assert (tmp_path / "cpu" / "requirements.txt").read_text("utf-8") == (
        "--extra-index-url https://download.pytorch.org/whl/cpu\ngradio==1\n"
    )


def test_no_file_of_this_project_has_the_name_of_a_secret() -> None:
    names = {path.name for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert names and not [*filter(_PRIVATE_NAME.search, names)]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("ui/.env", "A=1", "the name of a secret"),
        ("ui/token.txt", "x", "the name of a secret"),
        ("ui/runs.db", "x", "the name of a secret or of a database"),
        ("ui/key.pem", "x", "the name of a secret"),
        ("ui/settings.py", f"token = 'hf_{'a' * 34}'", "looks like a token"),
        ("ui/other.txt", "-----BEGIN RSA PRIVATE KEY-----", "private key"),
        ("ui/link.py", "/etc/passwd", "ui/link.py is not a regular file"),
    ],
)
def test_secrets_databases_and_links_are_refused_even_when_tracked(
    project: Path, tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    if content.startswith("/"):
        (project / name).symlink_to(content)
    else:
        (project / name).write_text(content, "utf-8")
    commit(project)
    with pytest.raises(DeployError, match=sentence):
        staged(project, "zerogpu", tmp_path / "space")


def test_one_commit_makes_the_space_what_the_tree_is(project: Path) -> None:
    hub = Hub()
    assert deployed(project, hub=hub) == 0
    assert {"app.py", "ui/page.py"} <= hub.files and "tests" not in hub.files
    upload, made = hub.calls["upload_folder"], hub.calls["create_repo"]
    assert (upload["repo_id"], upload["repo_type"]) == ("me/space", "space")
    assert (upload["delete_patterns"], upload["parent_commit"]) == ("*", "a" * 40)
    assert (made["space_sdk"], made["space_hardware"]) == ("gradio", "zero-a10g")
    assert made["exist_ok"] and hub.calls["add_space_variable"]["value"] == GPU_PAIRS
    assert [*hub.calls][-1] == "upload_folder"
    hub = Hub()
    hub.variables = {"MARS_PAIRS": "bundled"}  # which stay
    assert deployed(project, hub=hub) == 0
    assert "add_space_variable" not in hub.calls


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("create_repo", LocalTokenNotFoundError("no token:\nlog in")),
        ("space_info", REFUSED),
        ("upload_folder", httpx.ConnectError("no token: cut")),
        ("upload_folder", ConnectionResetError("no token: cut")),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(
    call: str, error: Exception, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deployed(project, hub=Hub(**{call: error})) == 2
    message = capsys.readouterr().err
    assert message.startswith("Nothing was uploaded. no token: ") and message.count("\n") == 1
    assert "hf_sss" not in message
