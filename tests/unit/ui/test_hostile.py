"""What a stranger can send is bounded before it is read: every value of every event and endpoint has
a length, and the work of those that do not queue grows as the text does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from time import thread_time
from typing import Any

import gradio as gr
import pytest
from gradio.block_function import BlockFunction

from mars_core.settings import KINDS
from tests.unit.ui.helpers import SWEEP, one_loop
from ui.app import build_app
from ui.jobs.services import Services
from ui.kit.lengths import LISTS, LONGEST, MOST, TEXTS, LengthError
from ui.settings.values import parse
from ui.tabs.study.estimate import estimated
from ui.tabs.study.form import read_study

STUDY = {**SWEEP.entered, "temperature": "0", "parameters": "theta = 0.9", "seed": 0}
LONG = " " * (max(TEXTS.values()) + 1)
WIDE = ["x"] * (max(*LISTS.values(), MOST) + 1)
REFUSED = r"has [\d,]+ (characters|values); [\d,]+ are the most\.'?$"


@pytest.fixture(scope="module")
def page(lasting: Services) -> gr.Blocks:
    with one_loop():
        return build_app(lasting)


def test_no_event_reads_a_value_that_is_too_long(
    page: gr.Blocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does any endpoint: all that the page's configuration lists."""
    monkeypatch.setattr(gr.Blocks, "process_api", _read)
    events = [event for event in page.fns.values() if event.fn]
    assert len(events) > 60
    with ThreadPoolExecutor(1) as thread:  # in this one a browser may be driven
        for event, values, data in chain.from_iterable(map(_too_long, events)):
            refused = page.process_api(event, values, event_data=gr.EventData(None, data))
            with pytest.raises(gr.Error, match=REFUSED):
                thread.submit(asyncio.run, refused).result()


def _too_long(event: BlockFunction) -> Iterator[tuple[BlockFunction, list[Any], Any]]:
    """An event, what is sent to it, what the browser reports with it: one of them is too long."""
    empty: list[Any] = [None] * len(event.inputs)
    for long in (LONG, WIDE, {"a": [{"b": LONG}]}, {LONG: 1}):
        for at in range(len(empty)):
            yield event, [*empty[:at], long, *empty[at + 1 :]], None
        if event.collects_event_data:
            if isinstance(long, dict):  # what is none is dropped: test_gradio_compat.py
                yield event, empty, long
            yield event, empty, {"changes": [{"changed": long}]}


async def _read(*_: object, **__: object) -> None:
    pytest.fail("it was read")


@pytest.mark.parametrize("name", [*KINDS, *STUDY, "references"])
def test_no_field_of_a_panel_is_read_that_is_too_long(name: str) -> None:
    for long in (" " * (TEXTS.get(name, LONGEST) + 1), WIDE, {"a": " " * (LONGEST + 1)}):
        for values in ({name: long}, {"lanes": [{name: long}]}):
            with pytest.raises(LengthError, match=REFUSED):
                parse(json.dumps({"values": values}))


UNITS = (" ", "\n", "\n---", "a\n", "0:200:1,", "9", ",", ":", "=", "a=1,", "=> ", "(", "'", "\\")


@pytest.mark.parametrize(
    "name", ["prompts", "parameters", "k", "temperature", "stop", "system", "logit_bias"]
)
def test_the_work_of_an_estimate_grows_as_its_text_does(services: Services, name: str) -> None:
    """It does not queue, so that anybody may request it at any time."""

    def seconds(unit: str, length: int) -> float:
        text = json.dumps({"values": {**STUDY, name: unit * (length // len(unit))}})
        begun = thread_time()
        estimated(services, read_study(text))
        return thread_time() - begun

    most = TEXTS.get(name, LONGEST)
    slow = [unit for unit in UNITS if seconds(unit, most) > 0.1]
    grown = {unit: seconds(unit, most) / seconds(unit, most // 4) for unit in slow}
    assert not [unit for unit, growth in grown.items() if growth > 9]


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": "theta=" + "0:200:1," * 400},
        {"k": "1:200:1," * 400},
        {"rules": ["mars"] * 200, "parameters": "theta=0:1:0.005"},
        {"rules": ["mars"] * 30, "parameters": "theta=0:1:0.01", "k": "1:64:1"},
        {"parameters": "theta=0:1:0.01", "k": "1:64:1"},
    ],
)
def test_lanes_and_lists_are_counted_before_they_are_built(
    services: Services, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setattr("evaluation.plan.lane.Lane", lambda *_: pytest.fail("it was built"))
    said = estimated(services, read_study(json.dumps({"values": STUDY | changes})))
    assert " are the most." in said or "it must have 1 to 200." in said


@pytest.mark.parametrize("written", ["NaN", "1e400", "-Infinity", '"1e999999999"', "[]", "true"])
def test_what_is_no_number_is_one_sentence_and_the_panel_is_drawn(
    page: gr.Blocks, services: Services, written: str
) -> None:
    panels = [each for each in page.blocks.values() if each.elem_id == "study-settings"]
    redraw = next(
        each
        for each in page.fns.values()
        if each.fn and each.inputs == panels and each.name == "redraw"
    )
    typed = written.strip('"')
    lists = dict.fromkeys(("k", "temperature"), json.dumps(typed))
    lists["parameters"] = json.dumps(f"theta = {typed}")
    numbers = ("max_new_tokens", "seed", "repeats", "top_k", "top_p", "margin", "min_p", "at")
    for name, value in (lists | dict.fromkeys(numbers, written)).items():
        text = json.dumps({"values": {**STUDY, name: "#"}}).replace('"#"', value)
        for lanes in ("", f', "lanes": [{{"rule": "mars", "theta": {value}, "k": {value}}}]'):
            sent = text[:-2] + lanes + "}}"
            redraw.fn(gr.EventData(None, {"changes": [{"changed": "pair"}]}), sent)
            said = estimated(services, read_study(sent))
            assert name == "at" or re.search(" is .*; it must ", said), said
