"""The kinds of Space that the page can stand on, and what the top of README.md says for each. Reads no file, asks nobody.

The README of the repository carries the front matter of ``zerogpu``; a deployment writes that of its own flavour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from huggingface_hub.utils import yaml_dump

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

    @property
    def models(self) -> list[str]:
        return [entry.split()[0] for entry in self.preload]


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
        "models": flavour.models,
        "preload_from_hub": list(flavour.preload),
        "hf_oauth": True,
        "startup_duration_timeout": "30m" if flavour.preload else "15m",
        "pinned": False,
    }
    kept = {key: value for key, value in said.items() if value != []}
    return FENCE + yaml_dump(kept, width=10_000, sort_keys=False) + FENCE


def body(readme: str) -> str:
    """``readme`` without its front matter."""
    if not readme.startswith(FENCE):
        return readme
    return readme[len(FENCE) :].partition(f"\n{FENCE}")[2].lstrip("\n")


def readme_for(flavour: Flavour, readme: str, gradio: str) -> str:
    """``readme`` under the front matter of ``flavour``."""
    return f"{front_matter(flavour, gradio)}\n{body(readme)}"


def requirements_for(flavour: Flavour, requirements: str) -> str:
    """A Gradio Space installs requirements.txt together with packages of its own, so without hashes; on a CPU without CUDA's."""
    return CPU_INDEX + requirements if flavour.cpu_torch else requirements


def dockerfile_for(flavour: Flavour, dockerfile: str) -> str:
    """A Space passes no build arguments: the default says which variant is built. Raises ValueError."""
    changed = dockerfile.replace("\nARG VARIANT=cpu\n", f"\nARG VARIANT={flavour.variant}\n")
    if f"\nARG VARIANT={flavour.variant}\n" not in changed:
        raise ValueError("Dockerfile has no line `ARG VARIANT=cpu`, with which a Space is told what to build.")
    return changed
