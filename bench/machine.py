"""What a result must say about where it was measured, and where it is written."""

from __future__ import annotations

import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch
import transformers

RESULTS = Path(__file__).parent / "results"


def machine(device: torch.device) -> dict[str, str]:
    """Date, commit, hardware and versions."""
    name, cuda = _processor(), ""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        name, cuda = f"{found.name}, {found.total_memory / 2**30:.0f} GiB", f", CUDA {torch.version.cuda}"
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "hardware": f"{name}, {torch.get_num_threads()} threads, device {device}",
        "versions": f"python {platform.python_version()}, torch {torch.__version__}{cuda}, transformers {transformers.__version__}",
    }


def stem(folder: Path, name: str, device: str) -> Path:
    """The path of a result without its ending; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{datetime.now(UTC):%Y-%m-%d}-{name}-{device}"


def _commit() -> str:
    git = ["git", "-C", str(RESULTS.parent)]
    commit = _output([*git, "rev-parse", "--short", "HEAD"])
    return (commit or "unknown") + (" with changes" if _output([*git, "status", "--porcelain"]) else "")


def _output(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
