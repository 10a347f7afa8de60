"""The files of a Space: kinds of Space, the files that each needs, and the front matter of
README.md. Reads git and the working tree. The README of the repository has the front matter of
``zerogpu``; a deployment writes that of its flavour.

Only tracked files are uploaded; databases, caches and .env files are never tracked. Files that look
like secrets raise an error.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from huggingface_hub.utils import yaml_dump

FOLDERS = (
    "mars_core/",
    "storage/",
    "display/",
    "evaluation/",
    "ui/",
    "mars_playground/",
    "hosting/",
    "docs/figures/",
    "docs/reference/",
)
SINGLE = ("app.py", "LICENSE", "README.md", "CHANGELOG.md", "requirements.txt", "pyproject.toml")
DOCKER = (
    "Dockerfile",
    ".dockerignore",
    "locks/run.txt",
    "locks/torch-cpu.txt",
    "locks/torch-cuda.txt",
)
LARGEST = 100 * 2**20  # bytes of one file; files of this program are far smaller
_PRIVATE_NAME = re.compile(
    r"^\.env|\.(db|sqlite3?|pem|key|p12|pfx|env)$|\.db-(wal|shm|journal)$|^id_(rsa|ed25519|ecdsa)|^\.?(netrc|token|secrets?)(\.|$)",
    re.IGNORECASE,
)
_SECRET = re.compile(
    rb"\bhf_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}"
)
_DOCUMENT = re.compile(r"docs/[^/]+\.md")
_GRADIO = re.compile(r"^gradio(?:\[[a-z,]+\])?==([0-9.]+)\s*$", re.MULTILINE)
FENCE = "---\n"
QWEN3_SHARED = (
    "config.json,generation_config.json,merges.txt,tokenizer.json,tokenizer_config.json,vocab.json"
)
_SHARDS = ",".join(f"model-0000{i}-of-00003.safetensors" for i in "123")
QWEN3_4B = f"{QWEN3_SHARED},model.safetensors.index.json,{_SHARDS}"
QWEN3_06B = f"{QWEN3_SHARED},model.safetensors"
# Repository, files and commit for the front matter, of the catalog's first Hub pair.
PRELOAD = (
    f"Qwen/Qwen3-4B {QWEN3_4B} 1cfa9a7208912126459214e8b04321603b3df60c",
    f"Qwen/Qwen3-0.6B {QWEN3_06B} c1899de289a04d12100db370d81485cdf75e47ca",
)
GPU_PAIRS = "qwen3-0.6b-4b,smollm2-135m,bundled"
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu\n"


class DeployError(ValueError):
    """Why nothing was uploaded: one sentence that ends with advice."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """``hardware``: requested when the Space is created; ``pairs``: value of MARS_PAIRS, empty
    without a GPU."""

    name: str
    sdk: str
    hardware: str
    pairs: str = ""


FLAVOURS: Mapping[str, Flavour] = {
    flavour.name: flavour
    for flavour in (
        Flavour("zerogpu", "gradio", "zero-a10g", GPU_PAIRS),
        Flavour("cpu", "gradio", "cpu-basic"),
        Flavour("gpu", "gradio", "l4x1", GPU_PAIRS),
        Flavour("docker", "docker", "cpu-basic"),
        Flavour("docker-gpu", "docker", "l4x1", GPU_PAIRS),
    )
}


def front_matter(flavour: Flavour, gradio: str) -> str:
    """The YAML block at the top of README.md, with fences. ``gradio``: its version, as in
    requirements.txt."""
    preload = list(PRELOAD) if flavour.pairs else []
    fields: dict[str, object] = {
        "title": "MARS Playground",
        "emoji": "🪐",
        "colorFrom": "indigo",
        "colorTo": "yellow",
    }
    fields["sdk"] = flavour.sdk
    if flavour.sdk == "gradio":
        fields |= {"sdk_version": gradio, "python_version": "3.12", "app_file": "app.py"}
    else:
        fields["app_port"] = 7860
    fields |= {
        "suggested_hardware": flavour.hardware,
        "short_description": "Margin-aware speculative decoding, token by token",
        "license": "mit",
        "tags": ["speculative-decoding", "text-generation", "inference", "evaluation", "eagle-3"],
        "models": [entry.split()[0] for entry in preload],
        "preload_from_hub": preload,
        "hf_oauth": True,
        "startup_duration_timeout": "30m" if preload else "15m",
        "pinned": False,
    }
    filled = {key: value for key, value in fields.items() if value != []}
    return FENCE + yaml_dump(filled, width=10_000, sort_keys=False) + FENCE


@dataclass(frozen=True, slots=True)
class Upload:
    """One file of the Space: path and content."""

    path: str
    content: bytes

    @property
    def binary(self) -> bool:
        """Whether it is uploaded through Xet; text is part of the commit."""
        try:
            return "\0" in self.content.decode()
        except UnicodeDecodeError:
            return True


def tree(root: Path, *, dirty: bool = False) -> tuple[str, tuple[str, ...]]:
    """Commit and tracked paths of the repository at ``root``. Raises DeployError without a
    repository, or for changes unless ``dirty``."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD").strip()
    changed = [line for line in _git(root, "status", "--porcelain", "-z").split("\0") if line]
    if changed and not dirty:
        raise DeployError(
            f"{len(changed)} files differ from the last commit, such as {changed[0][3:]!r}: "
            "commit or remove them first, or deploy the tracked ones as they are with DIRTY=1."
        )
    paths = tuple(path for path in _git(root, "ls-files", "-z").split("\0") if path)
    return f"{commit}{'+changes' if changed else ''}", paths


def uploads(root: Path, flavour: Flavour, paths: Iterable[str]) -> tuple[Upload, ...]:
    """The files among ``paths`` for the Space, in order, with their final content. Raises
    DeployError for forbidden or missing files."""
    needed = {*SINGLE, *(DOCKER if flavour.sdk == "docker" else ())}
    chosen = sorted(
        path
        for path in paths
        if path in needed or path.startswith(FOLDERS) or _DOCUMENT.fullmatch(path)
    )
    if missing := needed.difference(chosen):
        raise DeployError(
            f"{min(missing)} is not tracked by git, but required in a Space: add and commit it."
        )
    requirements = (root / "requirements.txt").read_text(encoding="utf-8")
    return tuple(_upload(root, flavour, path, requirements) for path in chosen)


def _upload(root: Path, flavour: Flavour, path: str, requirements: str) -> Upload:
    if _PRIVATE_NAME.search(PurePosixPath(path).name):
        raise DeployError(
            f"{path} has the name of a secret or of a database: it is not uploaded; remove it from "
            "git."
        )
    file = root / path
    if file.is_symlink() or not file.is_file():
        raise DeployError(
            f"{path} is tracked by git but is not a regular file here: restore it, or remove it "
            "from git."
        )
    if file.stat().st_size > LARGEST:
        raise DeployError(
            f"{path} is larger than {LARGEST // 2**20} MiB: it is not part of this program; remove "
            "it from git."
        )
    upload = Upload(path, _adapted(flavour, path, file.read_bytes(), requirements))
    if _SECRET.search(upload.content):
        raise DeployError(
            f"{path} contains what looks like a token or a private key: remove and revoke it."
        )
    return upload


def _adapted(flavour: Flavour, path: str, content: bytes, requirements: str) -> bytes:
    """The content of a file; three files depend on the flavour. A Gradio Space installs
    requirements.txt with its packages, so without hashes; on a CPU without CUDA packages. A
    Space passes no build arguments, so the default selects the variant of the Dockerfile."""
    if path == "README.md":
        return readme_for(flavour, content.decode(), gradio_pin(requirements)).encode()
    if path == "requirements.txt" and not flavour.pairs:
        return CPU_INDEX.encode() + content
    if path == "Dockerfile":
        argument = "\nARG VARIANT={}\n".format
        variant = argument("cuda" if flavour.pairs else "cpu")
        changed = content.decode().replace(argument("cpu"), variant)
        if variant not in changed:
            raise DeployError(
                "Dockerfile has no line `ARG VARIANT=cpu`, which selects what a Space builds."
            )
        return changed.encode()
    return content


def readme_for(flavour: Flavour, readme: str, gradio: str) -> str:
    """``readme`` under the front matter of ``flavour``. ``gradio``: its version, as in
    requirements.txt."""
    return f"{front_matter(flavour, gradio)}\n{body(readme)}"


def body(readme: str) -> str:
    """``readme`` without its front matter."""
    if not readme.startswith(FENCE):
        return readme
    return readme[len(FENCE) :].partition(f"\n{FENCE}")[2].lstrip("\n")


def gradio_pin(requirements: str) -> str:
    """The version of gradio that requirements.txt pins. Raises DeployError."""
    pin = _GRADIO.search(requirements)
    if pin is None:
        raise DeployError(
            "requirements.txt does not pin gradio: write gradio[oauth]== with a version."
        )
    return pin[1]


def _git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, check=True
        ).stdout.decode()
    except FileNotFoundError as error:
        raise DeployError(
            "git is missing, but needed to list the files of this program: install it."
        ) from error
    except subprocess.CalledProcessError as error:
        output = " ".join(error.stderr.decode(errors="replace").split())
        sentence = f"{root} is not a readable git repository ({output[:200]}): deploy from a clone."
        raise DeployError(sentence) from error
