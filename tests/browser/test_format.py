"""Numbers that a script of the page writes are those that Python writes."""

from __future__ import annotations

import math
import random

import pytest
from playwright.sync_api import Browser

from evaluation.format import count, duration, number, share
from ui.kit.assets import asset

pytestmark = pytest.mark.browser
HARD = [
    0.0, 1.0, -1.0, 0.5, 1.125, 1.135, 12.45, 99.95, 999.5, 999.4999, 1235.0, 1245.0, 9995.0, 123456.0, 1234567.0, 9999999.0, 9994999.0,
    9995000.0, 1e7, 1e300, 5e-324, 1e-4, 9.999e-5, 9.9999e-5, -1e-9, 0.9995, 0.99949999, 0.9994, math.nan, math.inf, -math.inf,
]  # fmt: skip


def test_the_script_writes_every_number_as_python_does(browser: Browser) -> None:
    rng = random.Random(0)
    values = [*HARD, *(rng.uniform(-1, 1) * 10 ** rng.randint(-8, 9) for _ in range(1500))]
    values += [rng.randint(-(10**6), 10**6) / 2 ** rng.randint(0, 12) for _ in range(1500)]  # ties among them
    page = browser.new_page()
    write = "v.map((x) => [number(x), number(x, 4), share(x), duration(x), count(Math.trunc(x))])"
    found = page.evaluate(f"(v) => {{ {asset('lane/format.js', 'token_view')}\n return {write}; }}", values)
    page.close()
    for value, texts in zip(values, found, strict=True):
        assert texts[:4] == [number(value), number(value, 4), share(value), duration(value)], value
        assert not abs(value) < 1e15 or texts[4] == count(int(value)), value
