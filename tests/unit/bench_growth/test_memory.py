"""The drift of memory, against numbers worked out by hand; and that a peak is seen."""

from __future__ import annotations

import sys

import pytest
import torch

from bench.common.report import markdown
from bench.memory import Usage, drift, peak_above, report

MB = 2**20


def test_drift_compares_two_medians() -> None:
    """200 in the runs 20 to 39, 210 in the last 20; what is before and between does not count."""
    samples = [999.0] * 20 + [200.0] * 20 + [1.0] * 20 + [210.0] * 20
    assert drift(samples) == pytest.approx(0.05)


def test_report_says_whether_it_is_flat() -> None:
    text = markdown(report([Usage(100_000_000, 0)] * 40 + [Usage(103_000_000, 0)] * 20))
    drifted = "| drift of the resident set, either way | 3.00 % | ≤ 2 | no | runs 20–40: 100.0 MB, last 20: 103.0 MB |"
    assert drifted in text and "CUDA" not in text
    text = markdown(report([Usage(100_000_000, 50_000_000)] * 60))
    assert "| drift of the CUDA memory allocated, either way | 0 % | ≤ 2 | yes |" in text


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark is the Linux kernel's")
def test_peak_sees_what_is_freed_again() -> None:
    big = peak_above(torch.device("cpu"), lambda: bytes(bytearray(64 * MB))[:1])
    assert 100 * MB < big < 160 * MB
    assert peak_above(torch.device("cpu"), lambda: None) < 8 * MB
