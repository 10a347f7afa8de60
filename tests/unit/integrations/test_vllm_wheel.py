"""The wheel of the plugin has the rules of mars_core inside, and needs no other package of this
repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from mars_core.rules import RULES

ROOT = Path(__file__).resolve().parents[3]
LOOK = """
import importlib, json, pkgutil, sys
sys.path.insert(0, sys.argv[1])
sys.modules["mars_core"] = None  # an import of it fails
import mars_vllm
names = [each.name for each in pkgutil.walk_packages(mars_vllm.__path__, "mars_vllm.")]
modules = [importlib.import_module(name) for name in names if name != "mars_vllm.runner_v2"]  # that one needs vLLM
from mars_vllm.core.rules import RULES
print(json.dumps([list(RULES), all(m.__file__.startswith(sys.argv[1]) for m in modules)]))
"""


def test_the_wheel_is_complete_without_mars_core(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "integrations" / "vllm", source / "integrations" / "vllm")
    shutil.copytree(ROOT / "mars_core", source / "mars_core", ignore=shutil.ignore_patterns("demo"))
    build = [
        sys.executable,
        "setup.py",
        "--quiet",
        "build_py",
        "--build-lib",
        str(tmp_path / "built"),
    ]
    subprocess.run(build, cwd=source / "integrations" / "vllm", check=True)
    look = [sys.executable, "-I", "-c", LOOK, str(tmp_path / "built")]
    output = json.loads(subprocess.run(look, check=True, capture_output=True, text=True).stdout)
    assert output == [list(RULES), True]
