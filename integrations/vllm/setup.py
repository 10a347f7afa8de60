"""Builds the wheel: the plugin with the rules of mars_core as ``mars_vllm.core``, so that no other
package is needed."""

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CORE = Path(__file__).resolve().parents[2] / "mars_core"
FILES = (
    "__init__.py",
    "lazy.py",
    *(
        f"{folder}/{file.name}"
        for folder in ("rules", "types")
        for file in (CORE / folder).glob("*.py")
    ),
)


class BuildWithRules(build_py):
    """Adds the files of mars_core and renames it in all imports."""

    def run(self) -> None:
        super().run()
        package = Path(self.build_lib) / "mars_vllm"
        for name in FILES:
            copy = package / "core" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((CORE / name).read_bytes())
        for file in package.rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            renamed = re.sub(
                r"^(\s*(?:from|import) )mars_core\b", r"\1mars_vllm.core", text, flags=re.MULTILINE
            )
            file.write_text(renamed, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithRules})
