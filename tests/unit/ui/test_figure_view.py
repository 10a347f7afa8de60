"""A figure's value is harmless ASCII JSON, its CSV the store's dialect, and its library comes from this machine for good."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import plotly.graph_objects as go
from starlette.applications import Starlette
from starlette.testclient import TestClient

from storage.export import guarded
from tests.traces import make_trace
from ui.figures.margins import margin_plot, margin_scale
from ui.figures.plot import Data, Plot, Run
from ui.figures.style import THEMED
from ui.kit.figure import SOURCE, csv_text, figure_component, figure_json, plotly_route
from ui.kit.theme import page_css

NAN, INFINITY = float("nan"), float("inf")


def test_the_value_is_ascii_without_a_tag_whatever_it_carries() -> None:
    words = ("</script><script>", "\ud800", "\u2028", "<img onerror=x>", "=1+1")
    trace = make_trace(words=words, rule="mars", new_tokens=20)
    text = figure_json(margin_plot(Run(trace, 0, "</b>"), margin_scale([trace])))
    assert text.isascii() and "<" not in text
    assert set(json.loads(text)) == {"figure", "csv", "title"}
    assert json.loads(figure_json(None)) is None


def test_what_json_has_not_becomes_a_gap() -> None:
    figure = go.Figure(go.Scatter(x=np.array([1.0, NAN]), y=[INFINITY, 2.0]))
    sent = json.loads(figure_json(Plot(figure, Data((), ()), "t")))
    assert sent["figure"]["data"][0]["y"] == [None, 2.0]


def test_the_csv_is_rfc_4180_and_guards_formulas() -> None:
    rows = (("=1+1", 1, 0.1, None), ('a "b", c\nd', -3, NAN, INFINITY), ("@x", 0, -0.5, True))
    text = csv_text(Data(("piece", "n", "+x", "y"), rows))
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[1:] == [["'=1+1", "1", "0.1", ""], ['a "b", c\nd', "-3", "", "inf"], ["'@x", "0", "-0.5", "true"]]
    assert text.endswith("\r\n") and '"a ""b"", c\nd"' in text
    assert read[1][0] == guarded("=1+1")


def test_every_colour_of_a_theme_is_a_variable_of_the_page() -> None:
    own = [name for name in THEMED.values() if name.startswith("--mars-")]
    assert len(own) == 5 and all(f"{name}:" in page_css() for name in own)


def test_the_library_is_served_from_the_installed_package_and_kept() -> None:
    answer = TestClient(Starlette(routes=[plotly_route()])).get(f"/{SOURCE}")
    assert answer.status_code == 200 and "plotly.js" in answer.text[:200]
    assert "immutable" in answer.headers["cache-control"] and answer.headers["content-type"].startswith(
        "text/javascript"
    )


def test_the_component_knows_its_texts_before_its_properties_arrive() -> None:
    component = figure_component(scope="s", name="n", label="Label", empty="None.")
    assert str(component.js_on_load).startswith('const GIVEN = {"scope":"s","name":"n","label":"Label","empty":"None."')
