"""Which files of the repository go to a Space. Reads git and the working tree; uploads nothing.

Only what git tracks can go: databases, caches and .env files are never tracked. Whatever looks like a secret is refused all the same.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hosting.deploy.flavours import Flavour, dockerfile_for, readme_for, requirements_for

FOLDERS = ("mars_core/", "storage/", "evaluation/", "ui/", "hosting/", "docs/images/", "docs/figures/")
SINGLE = ("app.py", "LICENSE", "README.md", "CHANGELOG.md", "requirements.txt", "pyproject.toml")
DOCKER = ("Dockerfile", ".dockerignore", "locks/run.txt", "locks/torch-cpu.txt", "locks/torch-cuda.txt")
LARGEST = 100 * 2**20  # bytes of one file: nothing of this program comes near
_PRIVATE_NAME = re.compile(
    r"^\.env|\.(db|sqlite3?|pem|key|p12|pfx|env)$|\.db-(wal|shm|journal)$|^id_(rsa|ed25519|ecdsa)|^\.?(netrc|token|secrets?)(\.|$)",
    re.IGNORECASE,
)
_SECRET = re.compile(
    rb"\bhf_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
)
_GRADIO = re.compile(r"^gradio(?:\[[a-z,]+\])?==([0-9.]+)\s*$", re.MULTILINE)


class DeployError(ValueError):
    """Why nothing was uploaded, in one sentence that ends with the way out."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One file of the Space: where it goes and what is in it."""

    path: str
    content: bytes

    @property
    def binary(self) -> bool:
        """Goes through Xet; text goes in the commit itself."""
        try:
            return "\0" in self.content.decode()
        except UnicodeDecodeError:
            return True


def tree(root: Path, *, dirty: bool = False) -> tuple[str, tuple[str, ...]]:
    """Commit and tracked paths of the repository at ``root``. Raises DeployError where it is none, or not clean unless ``dirty``."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD").strip()
    changed = [line for line in _git(root, "status", "--porcelain", "-z").split("\0") if line]
    if changed and not dirty:
        raise DeployError(
            f"{len(changed)} files differ from the last commit, such as {changed[0][3:]!r}: commit or remove them first, "
            "or deploy the tracked ones as they are with DIRTY=1."
        )
    paths = tuple(path for path in _git(root, "ls-files", "-z").split("\0") if path)
    return f"{commit}{'+changes' if changed else ''}", paths


def belonging(flavour: Flavour, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of ``paths`` that a Space of this flavour needs, in order."""
    single = SINGLE + (DOCKER if flavour.sdk == "docker" else ())
    return tuple(sorted(path for path in paths if path in single or _of_a_folder(path)))


def _of_a_folder(path: str) -> bool:
    return path.startswith(FOLDERS) or (path.startswith("docs/") and path.count("/") == 1 and path.endswith(".md"))


def uploads(root: Path, flavour: Flavour, paths: Iterable[str]) -> tuple[Upload, ...]:
    """What goes to the Space, as it will stand there. Raises DeployError for what must not, or is missing."""
    chosen = belonging(flavour, paths)
    needed = {*SINGLE, *(DOCKER if flavour.sdk == "docker" else ())}
    if missing := needed.difference(chosen):
        raise DeployError(f"{min(missing)} is not tracked by git, and a Space cannot do without it: add and commit it.")
    requirements = (root / "requirements.txt").read_text(encoding="utf-8")
    return tuple(_upload(root, flavour, path, requirements) for path in chosen)


def _upload(root: Path, flavour: Flavour, path: str, requirements: str) -> Upload:
    if _PRIVATE_NAME.search(PurePosixPath(path).name):
        raise DeployError(f"{path} has the name of a secret or of a database: it is not uploaded; take it out of git.")
    place = root / path
    if place.is_symlink() or not place.is_file():
        raise DeployError(f"{path} is tracked by git and is no plain file here: restore it, or remove it from git.")
    if place.stat().st_size > LARGEST:
        raise DeployError(
            f"{path} is larger than {LARGEST // 2**20} MiB: it is no part of this program; take it out of git."
        )
    upload = Upload(path, _written(flavour, path, place.read_bytes(), requirements))
    if _SECRET.search(upload.content):
        raise DeployError(f"{path} contains what looks like a token or a private key: take it out, and revoke it.")
    return upload


def _written(flavour: Flavour, path: str, content: bytes, requirements: str) -> bytes:
    """Three files differ from flavour to flavour."""
    try:
        if path == "README.md":
            return readme_for(flavour, content.decode(), gradio_pin(requirements)).encode()
        if path == "requirements.txt":
            return requirements_for(flavour, content.decode()).encode()
        if path == "Dockerfile":
            return dockerfile_for(flavour, content.decode()).encode()
    except ValueError as error:
        raise DeployError(str(error)) from error
    return content


def gradio_pin(requirements: str) -> str:
    """The version of gradio that requirements.txt pins. Raises ValueError."""
    found = _GRADIO.search(requirements)
    if found is None:
        raise ValueError("requirements.txt pins no version of gradio: write gradio[oauth]==, with a version.")
    return found[1]


def _git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout.decode()
    except FileNotFoundError as error:
        raise DeployError("git is missing, which says what belongs to this program: install it.") from error
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.decode(errors="replace").split())
        raise DeployError(
            f"{root} is no git repository that can be read ({said[:200]}): deploy from a clone."
        ) from error
