"""The tests that need a CUDA device, without what such a machine may lack."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

from bench.common.command import ROOT
from bench.common.report import Figure
from bench.cuda.trial import Trial

# Warnings of other versions are no errors here; a file that cannot be imported stops no other.
COMMAND = (
    "-m", "pytest", "-v", "-m", "cuda", "-p", "no:cacheprovider", "-o", "filterwarnings=default",
    "--continue-on-collection-errors", "--tb=short",
)  # fmt: skip
_LINE = re.compile(r"^(tests/.*?) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
_UNREAD = re.compile(r"^ERROR (tests/\S+\.py)$", re.MULTILINE)


def tests(trial: Trial) -> Iterator[Figure]:
    """Counted line by line, so that a test counts that ended before the time was up. The output of pytest goes to stderr.

    Raises SystemExit where pytest does not end with 0."""
    process = subprocess.Popen(
        [sys.executable, *COMMAND, *marked()], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=max(1.0, trial.until - time.perf_counter()))
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        yield Figure("the tests' time is up", 1, "", most=0)
    sys.stderr.write(output)
    yield from outcomes(output)
    if process.returncode:
        raise SystemExit(1)


def marked() -> list[str]:
    """The files with such tests: to read all others takes longer than to run these."""
    files = sorted((ROOT / "tests" / "unit" / "mars_core").glob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "pytest.mark.cuda" in file.read_text(encoding="utf-8")]


def outcomes(output: str) -> Iterator[Figure]:
    """``output``: of pytest."""
    found = Counter(outcome for _, outcome in _LINE.findall(output))
    failed = [name for name, outcome in _LINE.findall(output) if outcome in ("FAILED", "ERROR")]
    names = "; ".join(name.rpartition("::")[2] for name in failed[:5]) + ("; …" if len(failed) > 5 else "")
    yield Figure("tests failed", found["FAILED"] + found["ERROR"], "", names, most=0)
    yield Figure("tests passed", found["PASSED"], "", least=1)
    yield Figure("tests skipped", found["SKIPPED"])
    unread = sorted(set(_UNREAD.findall(output)))
    yield Figure("files of tests that cannot be read", len(unread), "", ", ".join(unread), most=0)
