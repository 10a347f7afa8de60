"""Writes the lock files from the requirements: ``make lock``. Asks the package index through uv,
which must be installed.

Every package is in exactly one file with the hashes of all its files on the index, so that an
installation names the files it needs:

    pip install --require-hashes -r locks/run.txt -r locks/torch-cpu.txt

constraints.txt has the same versions without hashes; ``make run`` and ``make test`` hold to it with
any index. Versions that are locked stay as long as the requirements allow them; UPGRADE=1 takes the
newest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
CONSTRAINTS = LOCKS / "constraints.txt"
# Each file has what its requirements need beyond those of the files before it.
LEVELS: Mapping[str, str] = {
    "run": "requirements.txt",
    "mcp": "requirements-mcp.txt",
    "postgres": "requirements-postgres.txt",
    "eval": "requirements-eval.txt",
    "dev": "requirements-dev.txt",
}
TORCH = "torch"
CUDA = re.compile(
    r"(nvidia|cuda)-.+|triton"
)  # what the index's torch needs and the one for CPUs does not
# Wheels of torch for CPUs are not on PyPI but on https://download.pytorch.org/whl/cpu. Only those
# are listed whose hash two sources that do not know of each other give: the wheel itself and lock
# files of other projects, or two of the latter.
CPU_WHEELS: Mapping[str, str] = {
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl": "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    "torch-2.13.0+cpu-cp312-cp312-manylinux_2_28_aarch64.whl": "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
}
HEADER = "# Written by `make lock`; do not edit. {}\n"


def entries(lock: str) -> dict[str, str]:
    """Package → its lines in a file of uv; one that has several versions has them all."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=[A-Za-z0-9])", "\n" + lock):
        if name := re.match(r"\s*([A-Za-z0-9._-]+)==", entry):
            found[name[1]] = found.get(name[1], "") + entry.strip("\n") + "\n"
    return found


def compiled(requirements: Iterable[str], *options: str) -> str:
    """What uv resolves for every platform and Python from 3.11."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "lock.txt"
        command = [
            str(Path(sys.executable).parent / "uv"),
            "pip",
            "compile",
            "--universal",
            "--python-version",
            "3.11",
            "--quiet",
            "--no-header",
            "--no-annotate",
            "--no-config",
            "--native-tls",
            "--output-file",
            str(target),
            *options,
            *(str(ROOT / name) for name in requirements),
        ]
        subprocess.run(command, check=True)
        return target.read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    stay = "--upgrade" not in arguments and CONSTRAINTS.is_file()  # versions that are locked
    constraints = compiled(LEVELS.values(), *["--constraints", str(CONSTRAINTS)] * stay)
    CONSTRAINTS.write_text(
        HEADER.format("The versions of all lock files.") + constraints, encoding="utf-8"
    )
    done: set[str] = set()
    for level, name in LEVELS.items():
        new = entries(
            compiled(
                dict.fromkeys((LEVELS["run"], name)),
                "--generate-hashes",
                "--constraints",
                str(CONSTRAINTS),
            )
        )
        write(level, {package: lines for package, lines in new.items() if package not in done})
        done |= new.keys()
    return 0


def write(level: str, new: Mapping[str, str]) -> None:
    """One file; of the first one what depends on the kind of torch goes to files of its own."""
    cuda = {
        package: lines
        for package, lines in new.items()
        if package == TORCH or CUDA.fullmatch(package)
    }
    rest = {package: lines for package, lines in new.items() if package not in cuda}
    _file(level, rest, f"Packages of {LEVELS[level]}.")
    if level != "run":
        return
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


def _file(level: str, packages: Mapping[str, str], note: str) -> None:
    text = HEADER.format(note) + "".join(packages[name] for name in sorted(packages))
    (LOCKS / f"{level}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
