"""Exponents, medians and drift against numbers worked out by hand; the pairs; the planner's
sweep."""

from __future__ import annotations

import itertools
import json
import math
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench.common.report import markdown
from bench.growth import planner
from bench.growth.curves import (
    SWEEPS,
    Curve,
    Point,
    Sample,
    decode,
    exponent,
    exponents,
    pair_of,
    report,
    upper_half,
)
from bench.memory import Usage, drift, halves, peak_above
from bench.memory import report as memory_report
from mars_core.models import ModelPool, Pair
from mars_core.types import DrafterConfig, TreeShape


def curve(*decode_s: float, prefill: bool = True) -> Curve:
    """Points 1, 2, 4 …; one run each of 10 tokens in 5 steps, a prefill of x² ms and a peak of 3x
    MB."""
    xs = tuple(2**at for at in range(len(decode_s)))
    samples = tuple(
        (Sample(each, x**2 / 1000, 10, 5),) for x, each in zip(xs, decode_s, strict=True)
    )
    return Curve("Growth of n", "n", xs, samples, tuple((3_000_000 * x,) for x in xs), prefill)


@pytest.mark.parametrize(("xs", "ys"), [([2], [3]), ([1, 2], [0, 1]), ([1, 2], [-1, 1])])
def test_what_has_no_slope_is_not_a_number(xs: list[float], ys: list[float]) -> None:
    assert math.isnan(exponent(xs, ys))


@pytest.mark.parametrize(
    ("count", "kept"), [(7, [3, 4, 5, 6]), (5, [2, 3, 4]), (4, [2, 3]), (2, [1])]
)
def test_upper_half_holds_the_middle_point(count: int, kept: list[int]) -> None:
    assert list(upper_half(range(count))) == kept


def test_upper_half_and_whole_are_told_apart() -> None:
    """Flat from 1 to 2, then quadratic from 4 to 8: log₂ y = 0, 0, 2, 4 has the slope (0 + 0 + 1 +
    6) / 5 over all."""
    rows = {name: (upper, whole) for name, upper, whole in exponents(curve(0.01, 0.01, 0.04, 0.16))}
    assert rows["ms a token"] == pytest.approx((2, 7 / 5))
    assert rows["ms of prefill"] == pytest.approx((2, 2))
    assert rows["peak memory, MB"] == pytest.approx((1, 1))


def test_report_names_every_point() -> None:
    text = markdown(report([curve(0.01, 0.01, 0.04, 0.16)]))
    assert "| 8 | 16 (16–16) | 32 (32–32) | 64 (64–64) | 24 (24–24) | 2.00 |" in text
    assert "| exponent of | 4 to 8 | 1 to 8 |" in text and "| ms a token | 2.00 | 1.40 |" in text
    assert "- random Llamas" in text
    assert "ms of prefill" not in {name for name, *_ in exponents(curve(0.01, 0.02, prefill=False))}


MB = 2**20


def test_drift_compares_two_medians() -> None:
    """200 in the runs 20 to 39, 210 in the last 20; what is before and between does not count."""
    samples = [999.0] * 20 + [200.0] * 20 + [1.0] * 20 + [210.0] * 20
    assert drift(samples) == pytest.approx(0.05)


def test_report_says_whether_it_is_flat() -> None:
    text = markdown(memory_report([Usage(100_000_000, 0)] * 40 + [Usage(103_000_000, 0)] * 20))
    drifted = "| drift of the resident set, either way | 3.00 % | ≤ 2 | no | runs 20–40: 100.0 MB, last 20: 103.0 MB |"
    assert drifted in text and "CUDA" not in text
    text = markdown(memory_report([Usage(100_000_000, 50_000_000)] * 60))
    assert "| drift of the CUDA memory allocated, either way | 0 % | ≤ 2 | yes |" in text


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark is the Linux kernel's")
def test_peak_sees_what_is_freed_again() -> None:
    big = peak_above(torch.device("cpu"), lambda: bytes(bytearray(64 * MB))[:1])
    assert 100 * MB < big < 160 * MB
    assert peak_above(torch.device("cpu"), lambda: None) < 8 * MB


def test_halves_compare_what_is_resident_early_and_late(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, enough = itertools.count(), threading.Event()

    def growing(_: object) -> SimpleNamespace:
        size = next(looks)
        if size >= 100:
            enough.set()
        return SimpleNamespace(rss=size)

    monkeypatch.setattr("psutil.Process.memory_info", growing)
    first, last = halves(lambda: enough.wait(60))
    assert first < 50 < last and last - first == pytest.approx((next(looks) - 1) / 2, abs=1)


VOCABULARY, TOKENS = 300, 24


@pytest.fixture(scope="module")
def pair() -> Pair:
    return pair_of(VOCABULARY, ModelPool(device="cpu", dtype="float32"))


@pytest.mark.parametrize(
    "drafter",
    [DrafterConfig("model", k=5), DrafterConfig("eagle3", tree=TreeShape(24, 7, 4))],
    ids=["chain", "tree"],
)
def test_drafts_are_accepted_often_and_not_always(pair: Pair, drafter: DrafterConfig) -> None:
    found = [decode(pair, Point(VOCABULARY, 20, drafter), TOKENS, seed) for seed in range(3)]
    assert [(each.prompt_tokens, each.new_tokens) for each in found] == [(20, TOKENS)] * 3
    assert all(each.tau > 1.3 for each in found)
    assert sum(each.rejected for each in found) > 0


def test_every_point_fits_into_the_context(pair: Pair) -> None:
    longest = max(sweep.point(x).prompt for sweep in SWEEPS.values() for x in sweep.xs)
    assert longest == 8192 and longest + 64 <= pair.context


def test_what_was_planned_and_measured_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MOST", 2)
    monkeypatch.setattr(planner, "DEFAULT", 2)
    assert (
        planner.main(["--prompts", "1", "--rounds", "1", "--tokens", "16", "--out", str(tmp_path)])
        == 0
    )
    (path,) = tmp_path.glob("*-planner-cpu.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found.keys() >= {"0", "1"} and "load average at the end" in found["machine"]
    for each in (found["0"], found["1"]):
        assert len(each["rates"]) == 2 and all(0 <= rate <= 1 for rate in each["rates"])
        assert [row[0] for row in each["rows"]] == ["1", "2"]
        _, tokens, tau, speedup, *_ = each["rows"][1]
        assert tokens == pytest.approx(tau, rel=0.5) and 1 <= tokens <= 3 and speedup > 0
