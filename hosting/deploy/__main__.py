"""``python -m hosting.deploy owner/name [--flavour zerogpu] [--dry-run]``: makes a Hugging Face
Space of the last commit, or lists the files.

README.md and the other files are those of the repository for ``zerogpu``; three of them are changed
for other flavours.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from huggingface_hub import HfApi, SpaceCard
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from hosting.settings import REPOSITORY

ROOT = Path(__file__).parents[2]
FILES = (
    *("app.py", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "requirements.txt"),
    *("display", "evaluation", "hosting", "mars_core", "mars_playground", "storage", "ui"),
    *(":(glob)docs/*.md", "docs/figures", "docs/reference"),
)
DOCKER_FILES = ("Dockerfile", ".dockerignore", "locks")
GPU_PAIRS = "qwen3-0.6b-4b,smollm2-135m,bundled"  # value of MARS_PAIRS
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu\n"
_WITHOUT_GPU = {
    "suggested_hardware": "cpu-basic",
    "models": None,
    "preload_from_hub": None,
    "startup_duration_timeout": "15m",
}
_DOCKER = {
    "sdk": "docker",
    "app_port": 7860,
    "sdk_version": None,
    "python_version": None,
    "app_file": None,
}
# Flavour → what its front matter of README.md has in place of that of zerogpu.
FLAVOURS: Mapping[str, Mapping[str, Any]] = {
    "zerogpu": {},
    "cpu": _WITHOUT_GPU,
    "docker": _WITHOUT_GPU | _DOCKER,
}
_PRIVATE_NAME = re.compile(
    r"^\.env|\.(db|sqlite3?|pem|key|p12|pfx|env)$|\.db-(wal|shm|journal)$|^id_(rsa|ed25519|ecdsa)|^\.?(netrc|token|secrets?)(\.(?!py$)|$)",
    re.IGNORECASE,
)
_SECRET = re.compile(
    rb"\bhf_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
)


class DeployError(ValueError):
    """Why nothing was uploaded, in one sentence."""


def main(
    arguments: Sequence[str] | None = None, api: HfApi | None = None, root: Path = ROOT
) -> int:
    """Returns 0 after an upload or a listing, 2 if nothing was uploaded; the reason is on standard
    error."""
    parser = argparse.ArgumentParser("python -m hosting.deploy", description=__doc__)
    parser.add_argument("space", help="owner/name")
    parser.add_argument("--flavour", choices=list(FLAVOURS), default="zerogpu")
    parser.add_argument("--dry-run", action="store_true", help="list the files, upload nothing")
    options = parser.parse_args(arguments)
    try:
        if not REPOSITORY.fullmatch(options.space):
            name = f"SPACE is {options.space[:80]!r}; it must be the owner and the name of a Space, such as me/mars-playground."
            raise DeployError(name)
        with TemporaryDirectory() as folder:
            commit = staged(root, options.flavour, Path(folder))
            if options.dry_run:
                sys.stdout.write(listing(Path(folder), commit))
                return 0
            done = deploy(api or HfApi(), options.space, Path(folder), commit)
    except (DeployError, HfHubHTTPError, HFValidationError, httpx.HTTPError, OSError) as error:
        sentence = _SECRET.sub(b"[token]", " ".join(str(error).split()).encode()).decode()
        sys.stderr.write(f"Nothing was uploaded. {sentence[:500]}\n")
        return 2
    address = f"https://huggingface.co/spaces/{options.space}"
    sys.stdout.write(f"{commit} is on {address} (commit {done[:12]}); the Space builds now.\n")
    return 0


def staged(root: Path, flavour: str, folder: Path) -> str:
    """Write the files of the Space into ``folder`` and return their commit. Raises
    DeployError."""
    commit, changes = _git(root, "rev-parse", "HEAD").decode().strip(), FLAVOURS[flavour]
    paths = (*FILES, *(DOCKER_FILES if "app_port" in changes else ()))
    archive = _git(root, "archive", "--format=tar", commit, "--", *paths)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:  # a link to somewhere else
        raise DeployError(f"{error.tarinfo.name} is not a regular file: remove it.") from error
    for path in _files(folder):
        name = path.relative_to(folder)
        if _PRIVATE_NAME.search(path.name):
            raise DeployError(f"{name} has the name of a secret or of a database: remove it.")
        if _SECRET.search(path.read_bytes()):
            raise DeployError(
                f"{name} contains what looks like a token or a private key: remove and revoke it."
            )
    if changes:
        card = SpaceCard.load(folder / "README.md")
        for field, value in changes.items():
            card.data[field] = value
        card.save(folder / "README.md")
        requirements = folder / "requirements.txt"
        requirements.write_text(CPU_INDEX + requirements.read_text("utf-8"), "utf-8")
    return commit[:12]


def listing(folder: Path, commit: str) -> str:
    """Return every file with its size."""
    data = SpaceCard.load(folder / "README.md").data
    sizes = {path.relative_to(folder): path.stat().st_size for path in _files(folder)}
    rows = [f"{size:>12,}  {path}\n" for path, size in sizes.items()]
    return (
        f"Nothing is uploaded. Of {commit}, sdk {data.sdk}, hardware {data.suggested_hardware}:\n"
        f"{''.join(rows)}{len(sizes)} files, {sum(sizes.values()):,} bytes. Other files of the "
        "Space would be removed.\n"
    )


def deploy(api: HfApi, space: str, folder: Path, commit: str) -> str:
    """Updates the Space to exactly the files of ``folder``. Existing secrets and variables are not
    changed. Returns the id of the commit."""
    data = SpaceCard.load(folder / "README.md").data
    api.create_repo(
        space,
        repo_type="space",
        space_sdk=data.sdk,
        space_hardware=data.suggested_hardware,
        exist_ok=True,
    )
    head = api.space_info(space).sha
    # before the commit, which starts the Space
    if data.preload_from_hub and "MARS_PAIRS" not in api.get_space_variables(space):
        api.add_space_variable(
            space, "MARS_PAIRS", GPU_PAIRS, description="Pairs of models that are offered"
        )
    return api.upload_folder(
        repo_id=space,
        repo_type="space",
        folder_path=folder,
        delete_patterns="*",
        commit_message=f"MARS Playground {commit}",
        parent_commit=head,  # fails if the Space has been changed meanwhile
    ).oid


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _git(root: Path, *arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise DeployError("git is missing, but needed to list the files: install it.") from error
    except subprocess.CalledProcessError as error:
        output = " ".join(error.stderr.decode(errors="replace").split())
        raise DeployError(f"git {arguments[0]} in {root} failed: {output[:200]}") from error


if __name__ == "__main__":
    raise SystemExit(main())
