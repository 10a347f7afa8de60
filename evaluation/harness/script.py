"""``python -m evaluation.harness.script`` replaces the ``lm_eval`` script that pip installed, because lm-eval does not discover models."""

from __future__ import annotations

import sys
from pathlib import Path

NAMES = ("lm_eval", "lm-eval")
_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = """#!{python}
# lm-eval with the model "mars" and the tasks of MARS Playground; written by `make eval`.
import sys

sys.path.insert(0, {root!r})
from evaluation.harness.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def write_scripts(folder: Path, python: str = sys.executable) -> tuple[Path, ...]:
    """Executable files ``lm_eval`` and ``lm-eval`` in ``folder`` that run lm-eval's command with the model ``mars``."""
    paths = tuple(folder / name for name in NAMES)
    for path in paths:
        path.write_text(_SCRIPT.format(python=python, root=str(_ROOT)), encoding="utf-8")
        path.chmod(0o755)
    return paths


if __name__ == "__main__":
    write_scripts(Path(sys.executable).parent)
