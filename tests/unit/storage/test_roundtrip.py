"""What is loaded is what was saved, whatever it holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from itertools import cycle
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mars_core.types import (
    DrafterConfig,
    DraftMode,
    DraftNode,
    Exchange,
    ModelRef,
    PrefixToken,
    Processors,
    PromptConfig,
    Status,
    Step,
    Summary,
    Token,
    Trace,
    TreeShape,
)
from storage import RunStore
from tests.traces import make_trace, make_tree_trace, same
from tests.unit.storage.exports import as_stored, save

T = TypeVar("T", Step, Token, DraftNode, Summary)
HOSTILE = (
    "",
    "plain text",
    "\x00",
    "\ud800",
    "\udc80\ud83d",
    "\ud83d\ude00",
    "😀",
    "␛",
    "␛0000",
    "␛␛d800",
    "\\u0000",
    "nan",
    "<script>alert(1)</script>",
    "=HYPERLINK(1)",
    "'; DROP TABLE runs; --",
    "NULL",
    "\r\n\t\x0b\x1b\x7f\x85\u2028\ufeff\uffff\U0010ffff",
)
ANY_TEXT = st.text(
    st.characters(exclude_categories=()), max_size=40
)  # surrogates and controls included


def with_hostile(**others: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds every hostile text to the examples of a test of any ``text``."""

    def added(test: Callable[..., None]) -> Callable[..., None]:
        for text in HOSTILE:
            test = example(text=text, **others)(test)
        return test

    return added


def saved_and_loaded(store: RunStore, trace: Trace) -> Trace:
    """Its record is the run as well, without the steps."""
    run = store.load(save(store, trace)).runs[0]
    trace = as_stored(trace)
    (record,) = store.records([run.id])
    assert same((record.config, record.summary), (trace.config, trace.summary))
    assert (record.text, record.error, record.status, record.stop_reason) == (
        trace.text,
        trace.error,
        trace.status,
        trace.stop_reason,
    )
    return run.trace


PROCESSORS = Processors(
    0.1 + 0.2,
    0.9,
    logit_bias=(("\x00=\ud800'", -1.5), ("[1, 2]", -math.inf)),
    protect=("special", "\x00*"),
)


def full_configuration() -> Trace:
    trace = make_trace(rule="mars", new_tokens=6)
    drafter = DrafterConfig(
        "eagle3", ModelRef("org/draft", None), 64, DraftMode.SAMPLED, TreeShape(1023, 12, 16)
    )
    sampling = replace(
        trace.config.sampling,
        temperature=0.7000000000000001,
        top_k=2**40,
        top_p=0.1 + 0.2,
        processors=PROCESSORS,
    )
    target, prompt = ModelRef("org/target", "4f2a"), replace(trace.config.prompt, thinking=False)
    config = replace(
        trace.config, drafter=drafter, sampling=sampling, seed=2**63 - 1, target=target
    )
    return replace(trace, config=replace(config, prompt=prompt))


ODD = (math.nan, math.inf, -math.inf, 0.0)


def odd(value: T, *others: float) -> T:
    """With odd numbers in all fields that are plain ones."""
    names = [each.name for each in fields(value) if each.type == "float"]
    return replace(value, **dict(zip(names, cycle((*ODD, *others)), strict=False)))


def odd_numbers() -> Trace:
    trace, tiny = make_trace(rule="mars", new_tokens=3), (5e-324, 1.7976931348623157e308)
    first, *rest = trace.steps[0].tokens
    top = tuple(item._replace(p=p) for item, p in zip(first.top, (*ODD, tiny[0]), strict=True))
    node, *others = trace.steps[0].nodes
    step = replace(
        odd(trace.steps[0], *tiny),
        tokens=(replace(odd(first, *tiny), top=top), *rest),
        nodes=(odd(node, *tiny), *others),
    )
    rule = replace(trace.config.rule, parameters={"theta": math.nan, "high": math.inf})
    return replace(
        trace,
        steps=(step, *trace.steps[1:]),
        summary=replace(odd(trace.summary), acceptance_by_position=(math.nan, 1.0, math.inf)),
        config=replace(trace.config, rule=rule),
    )


TRACES: dict[str, Callable[[], Trace]] = {
    **{
        f"{rule} at {temperature}": partial(
            make_trace, rule=rule, temperature=temperature, new_tokens=80
        )
        for rule in ("strict", "mars", "none")
        for temperature in (0.0, 1.0)
    },
    **{
        f"tree at {each}": partial(make_tree_trace, rule="mars", temperature=each, new_tokens=60)
        for each in (0.0, 1.0)
    },
    **{str(status): partial(make_trace, status=status, new_tokens=9) for status in Status},
    "given tokens": partial(make_trace, rule="mars", new_tokens=20, prefix=(3, 31, 0, 3)),
    "prefix without tokens": lambda: replace(
        make_trace(new_tokens=0, status=Status.FAILED, prefix=(2, 1)), given=(), text=""
    ),
    "no steps": partial(make_trace, new_tokens=0, status=Status.FAILED),
    "full configuration": full_configuration,
    "long prompt": partial(make_trace, prompt="é\x00<b>" * 25_000, new_tokens=1),
}


@pytest.mark.parametrize("name", [*TRACES, "odd numbers"])
def test_loaded_trace_equals_saved(lasting_store: RunStore, name: str) -> None:
    trace = TRACES.get(name, odd_numbers)()
    assert same(saved_and_loaded(lasting_store, trace), as_stored(trace))


def hostile_trace(text: str) -> Trace:
    prompt = PromptConfig(
        text,
        system=text,
        chat=False,
        stop=(text, ""),
        history=(Exchange(text, ""), Exchange("", text)),
    )
    trace = make_trace(
        new_tokens=4, prompt=prompt, words=[text, text + "a", "b" + text, "\x00", "\udfff"]
    )
    drafter = replace(trace.config.drafter, model=ModelRef(text, text))
    config = replace(
        trace.config, drafter=drafter, target=ModelRef(text, text), environment={text: text}
    )
    return replace(
        trace, config=config, error=text, given=(PrefixToken(2**31, text, 0, len(text)),)
    )


@settings(max_examples=20)
@with_hostile()
@given(text=ANY_TEXT)
def test_any_text_is_stored(lasting_store: RunStore, text: str) -> None:
    """But for what neither database can store, of which it keeps the place."""
    trace = hostile_trace(text)
    assert same(saved_and_loaded(lasting_store, trace), as_stored(trace))
