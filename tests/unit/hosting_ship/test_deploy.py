"""What goes to a Space, in which form, and how an upload ends. The Hub is a stand-in with the calls
of HfApi that are used."""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, SpaceHardware
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, RepositoryNotFoundError
from yaml import safe_load

from hosting.deploy.__main__ import ROOT, main
from hosting.deploy.files import (
    DOCKER,
    FLAVOURS,
    GPU_PAIRS,
    PRELOAD,
    SINGLE,
    DeployError,
    body,
    front_matter,
    gradio_pin,
    readme_for,
    tree,
    uploads,
)
from mars_core.models import CATALOG

README = (ROOT / "README.md").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
GRADIO = gradio_pin(REQUIREMENTS)


class Hub:
    """Takes what HfApi takes, by its signatures, and keeps it. ``broken``: what a call
    raises."""

    def __init__(self, present: tuple[str, ...] = (), **broken: Exception) -> None:
        self.present, self.broken, self.calls = (
            present,
            broken,
            cast(list[tuple[str, dict[str, Any]]], []),
        )
        self.variables: dict[str, str] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        signature = inspect.signature(
            getattr(HfApi, name)
        )  # a call that HfApi does not have is an error

        def call(*arguments: object, **named: object) -> Any:
            bound = signature.bind(self, *arguments, **named).arguments
            self.calls.append((name, bound))
            if name in self.broken:
                raise self.broken[name]
            return {
                "space_info": SimpleNamespace(sha="a" * 40),
                "list_repo_files": list(self.present),
                "get_space_variables": self.variables,
                "create_commit": SimpleNamespace(oid="b" * 40),
            }.get(name)

        return call

    def arguments_of(self, name: str) -> dict[str, Any]:
        return next(bound for called, bound in self.calls if called == name)


def refused(status: int) -> HfHubHTTPError:
    request = httpx.Request("POST", "https://huggingface.co/api")
    return HfHubHTTPError(
        "hf_" + "s" * 34, response=cast(Any, httpx.Response(status, request=request))
    )


ABSENT = RepositoryNotFoundError("no", response=cast(Any, refused(404).response))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository with all that a Space needs."""
    files = {name: name for name in (*SINGLE, *DOCKER)} | {
        "README.md": "# Title\n\ntext\n",
        "requirements.txt": "gradio[oauth]==6.31.0\ntorch==2.13.0\n",
        "Dockerfile": "# as it is\nARG VARIANT=cpu\nFROM scratch\n",
        "ui/page.py": "page = 1\n",
        "tests/test_page.py": "assert True\n",
        "docs/hosting.md": "how\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "mars_core").mkdir()
    (tmp_path / "mars_core" / "model.safetensors").write_bytes(b"\xff\x00" * 50)
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.c commit -qm first"):
        git(tmp_path, *command.split())
    return tmp_path


def deployed(project: Path, *options: str, hub: Hub | None = None) -> int:
    return main(["me/space", *options], api=cast(HfApi, hub), root=project)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def test_the_readme_has_the_front_matter_of_zerogpu() -> None:
    assert readme_for(FLAVOURS["zerogpu"], README, GRADIO) == README, (
        "write it with hosting.deploy.files.readme_for"
    )
    assert body(README).startswith("# MARS Playground\n")


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=lambda flavour: flavour.name)
def test_front_matter_is_what_the_hub_takes(flavour: Any) -> None:
    fields = safe_load(front_matter(flavour, GRADIO).strip("-\n"))
    assert len(fields["short_description"]) <= 60 and len(fields["emoji"]) == 1
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {fields["colorFrom"], fields["colorTo"]} <= colours
    assert flavour.hardware in [hardware.value for hardware in SpaceHardware]
    if flavour.sdk == "gradio":
        assert (fields["sdk_version"], fields["python_version"]) == (GRADIO, "3.12") and (
            ROOT / fields["app_file"]
        ).is_file()
        assert "app_port" not in fields
    else:
        assert fields["app_port"] == 7860 and not {
            "sdk_version",
            "python_version",
            "app_file",
        } & set(fields)


def test_what_is_fetched_before_the_start_is_what_the_catalog_loads() -> None:
    by_key = {pair.key: pair for pair in CATALOG}
    refs = [
        ref
        for key in GPU_PAIRS.split(",")
        for ref in (by_key[key].target, by_key[key].draft)
        if ref
    ]
    wanted = {(ref.name, ref.revision) for ref in refs if ref.revision}
    assert {(entry.split()[0], entry.split()[2]) for entry in PRELOAD} == wanted


def test_only_what_belongs_goes(project: Path) -> None:
    paths = tree(project)[1]
    gradio = {file.path: file for file in uploads(project, FLAVOURS["zerogpu"], paths)}
    assert {
        "ui/page.py",
        "mars_core/model.safetensors",
        "docs/hosting.md",
        "app.py",
    } <= gradio.keys()
    assert not {"tests/test_page.py", *DOCKER} & gradio.keys()
    assert gradio["mars_core/model.safetensors"].binary and not gradio["ui/page.py"].binary
    assert gradio["requirements.txt"].content.startswith(b"gradio") and gradio[
        "README.md"
    ].content.endswith(b"# Title\n\ntext\n")
    cpu = {file.path: file.content for file in uploads(project, FLAVOURS["cpu"], paths)}
    assert cpu["requirements.txt"].startswith(
        b"--extra-index-url https://download.pytorch.org/whl/cpu\ngradio"
    )
    docker = {file.path: file.content for file in uploads(project, FLAVOURS["docker-gpu"], paths)}
    assert set(DOCKER) <= docker.keys() and b"ARG VARIANT=cuda\n" in docker["Dockerfile"]


def test_a_tree_that_is_not_clean_is_refused_by_default(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "ui" / "page.py").write_text("page = 2\n", encoding="utf-8")
    (project / "runs.db").write_bytes(b"SQLite format 3\0")
    assert deployed(project, "--dry-run") == 2
    assert "2 files differ from the last commit" in capsys.readouterr().err
    assert deployed(project, "--dry-run", "--dirty") == 0
    output = capsys.readouterr().out
    assert "ui/page.py" in output and "runs.db" not in output and "+changes" in output


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("ui/.env", "A=1", "the name of a secret"),
        ("ui/runs.db", "x", "the name of a secret or of a database"),
        ("ui/key.pem", "x", "the name of a secret"),
        ("ui/settings.py", f"token = 'hf_{'a' * 34}'", "looks like a token"),
        ("ui/other.txt", "-----BEGIN RSA PRIVATE KEY-----", "private key"),
        ("ui/link.py", "/etc/passwd", "not a regular file"),
    ],
)
def test_secrets_databases_and_links_are_refused_even_when_tracked(
    project: Path, name: str, content: str, sentence: str
) -> None:
    (project / name).symlink_to(content) if content.startswith("/") else (
        project / name
    ).write_text(content, "utf-8")
    git(project, "add", "-f", name)
    with pytest.raises(DeployError, match=sentence):
        uploads(project, FLAVOURS["zerogpu"], tree(project, dirty=True)[1])


def test_a_folder_without_git_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deployed(tmp_path, "--dry-run") == 2
    assert "not a readable git repository" in capsys.readouterr().err


def test_one_commit_makes_the_space_what_the_tree_is(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = Hub(present=("old.py", ".gitattributes", "app.py"))
    assert deployed(project, hub=hub) == 0
    commit = hub.arguments_of("create_commit")
    added = [
        operation for operation in commit["operations"] if isinstance(operation, CommitOperationAdd)
    ]
    assert {operation.path_in_repo for operation in added} >= {
        "app.py",
        "mars_core/model.safetensors",
    }
    assert [
        each.path_in_repo
        for each in commit["operations"]
        if isinstance(each, CommitOperationDelete)
    ] == ["old.py"]
    assert (commit["repo_type"], commit["parent_commit"]) == ("space", "a" * 40)
    made = hub.arguments_of("create_repo")
    assert (made["space_sdk"], made["space_hardware"], made["exist_ok"]) == (
        "gradio",
        "zero-a10g",
        True,
    )
    assert hub.arguments_of("add_space_variable")["value"] == FLAVOURS["zerogpu"].pairs
    assert [name for name, _ in hub.calls][-1] == "create_commit"
    assert "removed there: old.py" in capsys.readouterr().out
    hub = Hub()
    hub.variables = {"MARS_PAIRS": "bundled"}  # which stay
    assert deployed(project, hub=hub) == 0
    assert "add_space_variable" not in [name for name, _ in hub.calls]


def test_a_dry_run_sends_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub = Hub()
    assert deployed(project, "--dry-run", "--flavour", "docker", hub=hub) == 0
    output = capsys.readouterr().out
    assert (
        not hub.calls
        and "         100  Xet   mars_core/model.safetensors" in output
        and "sdk docker" in output
    )


@pytest.mark.parametrize("name", ["space", "me/", "/x", "me/sp ace", "me/a/b", "../x", "me/x\n"])
def test_no_name_of_a_space(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--dry-run"], root=project) == 2
    assert "it must be the owner and the name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        ("whoami", LocalTokenNotFoundError("none"), "There is no token"),
        ("whoami", refused(401), "does not know this token"),
        ("create_repo", refused(402), "without a paid plan"),
        ("create_repo", refused(403), "may not write to me/space"),
        ("space_info", ABSENT, "cannot be reached with"),
        ("create_commit", refused(412), "has been changed meanwhile"),
        ("create_commit", refused(500), "answered 500"),
        ("create_commit", httpx.ConnectError("cut"), "cannot be reached: connect"),
        ("create_commit", ConnectionResetError("cut"), "cannot be reached: connect"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(
    call: str, error: Exception, sentence: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = Hub(**{call: error})
    assert deployed(project, hub=hub) == 2
    message = capsys.readouterr().err
    assert sentence in message and message.count("\n") == 1 and "hf_sss" not in message
    assert call == "create_commit" or "create_commit" not in [name for name, _ in hub.calls]
