"""Writes the lock files and requirements.txt from pyproject.toml: ``make lock``. Asks the package
index through uv, which must be installed.

Every package is in exactly one lock with the hashes of all its files on the index, so that an
installation names the files it needs:

    pip install --require-hashes -r locks/run.txt -r locks/torch-cpu.txt

``make run`` and ``make test`` take the same versions from any index. requirements.txt, which a
Gradio Space installs, has those of the dependencies alone. Versions that are locked stay as long as
pyproject.toml allows them; UPGRADE=1 takes the newest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
# Extras of pyproject.toml: each lock has what its extra needs beyond those before it.
EXTRAS = ("mcp", "postgres", "eval", "ray", "dev")
TORCH = "torch"
CUDA = re.compile(
    r"(nvidia|cuda)-.+|triton"
)  # what the index's torch needs and the one for CPUs does not
# Wheels of torch for CPUs are not on PyPI but on https://download.pytorch.org/whl/cpu. Only those
# are named whose hash two sources that do not know of each other give: the wheel itself and lock
# files of other projects, or two of the latter.
CPU_WHEELS: Mapping[str, str] = {
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl": "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_aarch64.whl": "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
}
HEADER = "# Written by `make lock`; do not edit. {}\n"


def entries(lock: str) -> dict[str, str]:
    """Package → its lines in a file of uv; one that has several versions has them all."""
    entries: dict[str, str] = {}
    for entry in re.split(r"\n(?=[A-Za-z0-9])", "\n" + lock):
        if name := re.match(r"\s*([A-Za-z0-9._-]+)==", entry):
            entries[name[1]] = entries.get(name[1], "") + entry.strip("\n") + "\n"
    return entries


def compiled(extras: Iterable[str], pins: str, *options: str) -> str:
    """What uv resolves for every platform and Python from 3.11, at the versions of ``pins``."""
    with tempfile.TemporaryDirectory() as folder:
        target, constraints = Path(folder, "lock.txt"), Path(folder, "constraints.txt")
        constraints.write_text(pins, encoding="utf-8")
        command = [str(Path(sys.executable).parent / "uv"), "pip", "compile", "--universal"]
        command += ["--python-version", "3.11", "--fork-strategy", "fewest", "--quiet"]
        command += ["--no-header", "--no-annotate", "--no-config", "--native-tls", *options]
        command += [f"--extra={extra}" for extra in extras]
        command += ["--constraints", str(constraints), "--output-file", str(target)]
        subprocess.run([*command, str(ROOT / "pyproject.toml")], check=True)
        return target.read_text(encoding="utf-8")


def pins(lock: str) -> str:
    """The versions of a lock, without hashes."""
    return "".join(f"{line}\n" for line in re.findall(r"^(\w.*?)(?: \\)?$", lock, re.MULTILINE))


def main(arguments: list[str]) -> int:
    texts = [] if "--upgrade" in arguments else [each.read_text() for each in LOCKS.glob("*.txt")]
    versions = compiled(EXTRAS, pins("\n".join(texts)))  # versions that are locked stay
    done: set[str] = set()
    for extra in ("", *EXTRAS):
        new = entries(compiled([extra] * bool(extra), versions, "--generate-hashes"))
        write(extra, {package: lines for package, lines in new.items() if package not in done})
        done |= new.keys()
    (ROOT / "requirements.txt").write_text(requirements(entries(versions)), encoding="utf-8")
    return 0


def requirements(locked: Mapping[str, str]) -> str:
    """The dependencies of pyproject.toml at their locked versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for requirement in project["dependencies"]:
        name, extras = re.match(r"([\w.-]+)(\[.*\])?", requirement).groups("")
        version = locked[name.replace("_", "-").lower()].split()[0].partition("==")[2]
        lines.append(f"{name}{extras}=={version}\n")
    return "".join(lines)


def write(extra: str, new: Mapping[str, str]) -> None:
    """One file; of the first one what depends on the kind of torch goes to files of its own."""
    cuda = {
        package: lines
        for package, lines in new.items()
        if package == TORCH or CUDA.fullmatch(package)
    }
    rest = {package: lines for package, lines in new.items() if package not in cuda}
    if extra:
        _file(extra, rest, f"Packages of the extra {extra}.")
        return
    _file("run", rest, "Packages of the dependencies.")
    _file("torch-cuda", cuda, "torch from PyPI: with CUDA on Linux.")
    version = cuda[TORCH].split()[0]
    if not all(
        wheel.startswith(f"torch-{version.partition('==')[2]}+cpu-") for wheel in CPU_WHEELS
    ):
        raise SystemExit(
            f"CPU_WHEELS of {Path(__file__).name} are not those of {version}: look them up."
        )
    hashes = " \\\n".join(f"    --hash=sha256:{digest}" for digest in CPU_WHEELS.values())
    note = "torch from https://download.pytorch.org/whl/cpu: " + ", ".join(CPU_WHEELS) + "."
    _file("torch-cpu", {TORCH: f"{version} \\\n{hashes}\n"}, note)


def _file(name: str, packages: Mapping[str, str], note: str) -> None:
    text = HEADER.format(note) + "".join(packages[each] for each in sorted(packages))
    (LOCKS / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
