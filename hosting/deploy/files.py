"""What goes to a Space: the kinds of Space, which files of the repository each needs, and what the top of README.md says. Reads git and the
working tree; uploads nothing. The README of the repository carries the front matter of ``zerogpu``; a deployment writes that of its own.

Only what git tracks can go: databases, caches and .env files are never tracked. Whatever looks like a secret is refused all the same.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from huggingface_hub.utils import yaml_dump

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
_DOCUMENT = re.compile(r"docs/[^/]+\.md")
_GRADIO = re.compile(r"^gradio(?:\[[a-z,]+\])?==([0-9.]+)\s*$", re.MULTILINE)
FENCE = "---\n"
QWEN3_SHARED = "config.json,generation_config.json,merges.txt,tokenizer.json,tokenizer_config.json,vocab.json"
_SHARDS = ",".join(f"model-0000{i}-of-00003.safetensors" for i in "123")
QWEN3_4B = f"{QWEN3_SHARED},model.safetensors.index.json,{_SHARDS}"
QWEN3_06B = f"{QWEN3_SHARED},model.safetensors"
# Repository, files and commit, as the front matter wants them: those of the catalog's first pair of the Hub.
PRELOAD = (
    f"Qwen/Qwen3-4B {QWEN3_4B} 1cfa9a7208912126459214e8b04321603b3df60c",
    f"Qwen/Qwen3-0.6B {QWEN3_06B} c1899de289a04d12100db370d81485cdf75e47ca",
)
GPU_PAIRS = "qwen3-0.6b-4b,bundled"
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu\n"


class DeployError(ValueError):
    """Why nothing was uploaded, in one sentence that ends with the way out."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """``hardware``: asked for when the Space is made; ``pairs``: value of MARS_PAIRS; ``variant``: of the Dockerfile."""

    name: str
    sdk: str
    hardware: str
    preload: tuple[str, ...] = ()
    pairs: str = ""
    cpu_torch: bool = False
    variant: str = ""


FLAVOURS: Mapping[str, Flavour] = {
    flavour.name: flavour
    for flavour in (
        Flavour("zerogpu", "gradio", "zero-a10g", PRELOAD, GPU_PAIRS),
        Flavour("cpu", "gradio", "cpu-basic", cpu_torch=True),
        Flavour("gpu", "gradio", "l4x1", PRELOAD, GPU_PAIRS),
        Flavour("docker", "docker", "cpu-basic", cpu_torch=True, variant="cpu"),
        Flavour("docker-gpu", "docker", "l4x1", PRELOAD, GPU_PAIRS, variant="cuda"),
    )
}


def front_matter(flavour: Flavour, gradio: str) -> str:
    """The YAML block at the top of README.md, fences and all. ``gradio``: its version, as in requirements.txt."""
    said: dict[str, object] = {"title": "MARS Playground", "emoji": "🪐", "colorFrom": "indigo", "colorTo": "yellow"}
    said["sdk"] = flavour.sdk
    if flavour.sdk == "gradio":
        said |= {"sdk_version": gradio, "python_version": "3.12", "app_file": "app.py"}
    else:
        said["app_port"] = 7860
    said |= {
        "suggested_hardware": flavour.hardware,
        "short_description": "Margin-aware speculative decoding, token by token",
        "license": "mit",
        "tags": ["speculative-decoding", "text-generation", "inference", "evaluation", "eagle-3"],
        "models": [entry.split()[0] for entry in flavour.preload],
        "preload_from_hub": list(flavour.preload),
        "hf_oauth": True,
        "startup_duration_timeout": "30m" if flavour.preload else "15m",
        "pinned": False,
    }
    kept = {key: value for key, value in said.items() if value != []}
    return FENCE + yaml_dump(kept, width=10_000, sort_keys=False) + FENCE


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


def uploads(root: Path, flavour: Flavour, paths: Iterable[str]) -> tuple[Upload, ...]:
    """What of ``paths`` goes to the Space, in order, as it will stand there. Raises DeployError for what must not, or is missing."""
    needed = {*SINGLE, *(DOCKER if flavour.sdk == "docker" else ())}
    chosen = sorted(path for path in paths if path in needed or path.startswith(FOLDERS) or _DOCUMENT.fullmatch(path))
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
    """Three files differ from flavour to flavour. A Gradio Space installs requirements.txt together with packages of its own, so without
    hashes; on a CPU without CUDA's. A Space passes no build arguments: the default says which variant of the Dockerfile is built."""
    if path == "README.md":
        return readme_for(flavour, content.decode(), gradio_pin(requirements)).encode()
    if path == "requirements.txt" and flavour.cpu_torch:
        return CPU_INDEX.encode() + content
    if path == "Dockerfile":
        argument = "\nARG VARIANT={}\n".format
        changed = content.decode().replace(argument("cpu"), argument(flavour.variant))
        if argument(flavour.variant) not in changed:
            raise DeployError("Dockerfile has no line `ARG VARIANT=cpu`, with which a Space is told what to build.")
        return changed.encode()
    return content


def readme_for(flavour: Flavour, readme: str, gradio: str) -> str:
    """``readme`` under the front matter of ``flavour``. ``gradio``: its version, as in requirements.txt."""
    return f"{front_matter(flavour, gradio)}\n{body(readme)}"


def body(readme: str) -> str:
    """``readme`` without its front matter."""
    if not readme.startswith(FENCE):
        return readme
    return readme[len(FENCE) :].partition(f"\n{FENCE}")[2].lstrip("\n")


def gradio_pin(requirements: str) -> str:
    """The version of gradio that requirements.txt pins. Raises DeployError."""
    found = _GRADIO.search(requirements)
    if found is None:
        raise DeployError("requirements.txt pins no version of gradio: write gradio[oauth]==, with a version.")
    return found[1]


def _git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout.decode()
    except FileNotFoundError as error:
        raise DeployError("git is missing, which says what belongs to this program: install it.") from error
    except subprocess.CalledProcessError as error:
        said = " ".join(error.stderr.decode(errors="replace").split())
        sentence = f"{root} is no git repository that can be read ({said[:200]}): deploy from a clone."
        raise DeployError(sentence) from error
