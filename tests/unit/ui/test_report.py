"""Numbers of any number of runs, the shift meter, a sentence over them that is honest in every
case, and when drafts pay."""

from __future__ import annotations

import ast
import json
import math
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from display.blocks import TableCell
from display.format import number
from display.palette import css_variables
from evaluation.scoring.extraction import answers
from mars_core.models import CATALOG
from mars_core.telemetry import first_divergence
from mars_core.types import (
    Cause,
    Outcome,
    PrefixToken,
    PromptConfig,
    RuleConfig,
    Status,
    StopReason,
    Trace,
)
from mars_playground.decoding import _report
from storage import Repeat, RunStore, StoredComparison, StoredRun
from tests.panels import Element, read_panel
from tests.traces import make_trace
from tests.unit.ui.helpers import HOSTILE, keep
from ui.api.documents import comparison_document
from ui.figures.runs import PlottedRun
from ui.figures.shift import shift_plot
from ui.kit.components import Strip
from ui.kit.values import plain
from ui.report.page import report_html
from ui.result.numbers import (
    LOOP_QUANTITIES,
    QUANTITIES,
    SHIFT_QUANTITIES,
    run_table,
    self_check,
)
from ui.result.panels.planner import redrawn, runs_of
from ui.result.result import ended_result, headlines, run_speeds, shared_spans, unsaved
from ui.result.sentence import SpeedRatio, broken_sentence, divergence, speed_ratio, verdict
from ui.token_view.story import relaxed_story
from ui.token_view.tiles import FLOAT_ERROR, NOTHING, lane_check
from ui.token_view.view import ended_view

TIMES = ("Total latency", "Time to first token", "Tokens per second")
LEFT, RIGHT, PLAIN = (make_trace(rule=rule, new_tokens=120) for rule in ("strict", "mars", "none"))


def paces_of(
    traces: Sequence[Trace], speeds: Sequence[Sequence[float]] | None = None
) -> list[SpeedRatio]:
    """``speeds``: by lane and round; without them of one round."""
    speeds = speeds or [[trace.summary.tokens_per_s] for trace in traces]
    return [
        speed_ratio(traces[0], trace, speeds[0], each)
        for trace, each in zip(traces, speeds, strict=True)
    ]


def test_differences_are_those_of_the_summaries_and_only_what_is_better_is_called_so() -> None:
    other = replace(LEFT.summary, tau=LEFT.summary.tau + 0.5, acceptance_rate=1.0)
    cells = differences_of(LEFT, replace(LEFT, summary=other))
    assert cells["τ, tokens per step"] == TableCell("+0.500")
    assert cells["Output length"] == TableCell("±0")


def differences_of(
    left: Trace, right: Trace, speeds: Sequence[Sequence[float]] | None = None
) -> dict[str, TableCell]:
    table = run_table("", [left, right], QUANTITIES, paces_of([left, right], speeds))
    return {row[0].text: row[3] for row in table.rows}


def test_a_ratio_of_times_is_the_same_in_sentence_table_command_line_and_api(
    store: RunStore,
) -> None:
    """And nowhere where the work was the same."""
    short = replace(RIGHT, summary=replace(RIGHT.summary, new_tokens=96))
    rounds = [100.0, 100.0, 100.0], [190.0, 200.0, 210.0]
    paces = paces_of([LEFT, short], rounds)
    expected = "2.00× faster (3 rounds: 1.76× faster to 2.26× faster)"
    assert plain(verdict([LEFT, short], paces)).endswith(f" Time per token: {expected}.")
    cells = differences_of(LEFT, short, rounds)
    assert cells["Tokens per second"] == TableCell(expected, "better", "good")
    assert cells["Total latency"].text == "60 % shorter for 20 % fewer tokens"
    assert cells["Time to first token"].text == ""
    noise = differences_of(LEFT, short, ([100.0, 100.0], [80.0, 130.0]))
    assert not noise["Tokens per second"].mark
    for silent in (differences_of(LEFT, LEFT, rounds), differences_of(LEFT, short)):
        assert {silent[name].text for name in TIMES} == {""}

    comparison = keep(store, new_tokens=60)
    stored = store.load(comparison)
    _, document = comparison_document(stored)["runs"]
    traces = [run.trace for run in stored.runs]
    assert document["speed_ratio"] is document["speed_ratio_low"] is None  # of one round
    measured = replace(stored, repeats=tuple(map(repeated, (1, 0), (2, 3), stored.runs)))
    mine, theirs = (math.prod(run_speeds(measured)[lane]) for lane in (1, 0))
    assert comparison_document(measured)["runs"][1]["speed_ratio"] == pytest.approx(
        math.sqrt(mine / theirs)
    )
    pair: Any = SimpleNamespace(spec=CATALOG[0], margins=())
    head, *rows = _report(traces, pair).splitlines()[-3:]
    passes = head.index("passes") + len("passes")
    assert [int(row[:passes].split()[-1]) for row in rows] == [
        each.summary.steps for each in traces
    ]
    assert "×" not in head


def repeated(lane: int, order: int, run: StoredRun) -> Repeat:
    return Repeat(lane, order, run.trace.status, run.trace.summary)


def shifted(trace: Trace, tv: float) -> Trace:
    return replace(trace, summary=replace(trace.summary, tv_max=tv))


def test_float_error_is_no_shift_and_more_is_a_warning_of_a_lossless_rule_with_tokens() -> None:
    for rule, checked in (("strict", True), ("block", True), ("mars", False), ("typical", False)):
        config = replace(LEFT.config, rule=RuleConfig(rule))
        assert bool(lane_check(config, shifted(LEFT, 0.5).summary).state) is checked, rule
    assert (
        "Target alone" in self_check([PLAIN]).text and lane_check(LEFT.config, NOTHING).state == ""
    )
    assert "Add Target alone or Strict or Block verification" in self_check([RIGHT]).text
    check = self_check([LEFT, RIGHT])
    assert (check.state, check.text) == ("ok", "Self-check: Strict shifted nothing (largest TV 0).")
    assert self_check([shifted(LEFT, 0.9 * FLOAT_ERROR)]).state == "ok"
    bad = self_check([LEFT, shifted(LEFT, 0.02)])
    assert (
        bad.state == "bad"
        and bad.text.startswith("Self-check failed: Strict")
        and "0.0200" in bad.text
    )


@pytest.mark.parametrize(
    ("kind", "tv_sum", "label", "flag"),
    [
        ("exact", "0.250", "TV", 0),
        ("bound", "≤ 0.250", "upper bounds of TV", 4),
        ("missing", "≤ ", "TV not known", 0),
    ],
)
def test_a_tv_that_is_a_bound_or_missing_says_so_in_tiles_tables_figures_and_tokens(
    kind: str, tv_sum: str, label: str, flag: int
) -> None:
    value = math.nan if kind == "missing" else 0.25
    config = replace(RIGHT.config, environment={**RIGHT.config.environment, "tv": kind})
    summary = replace(RIGHT.summary, tv_sum=value, tv_max=value, kl_sum=value)
    steps = [
        replace(step, tokens=tuple(replace(token, tv=value) for token in step.tokens))
        for step in RIGHT.steps
    ]
    trace = replace(RIGHT, config=config, summary=summary, steps=tuple(steps))
    table = run_table("Shift", [trace], SHIFT_QUANTITIES)
    cells = {name.text: cell.text for name, cell in table.rows}
    tile = next(tile for tile in ended_view(trace, "").tiles if tile[0] == "Shift")
    mean = tv_sum.replace("0.250", "0.208")  # %, of 120 tokens
    assert tile[1].startswith(mean) and cells["TV, summed"].startswith(tv_sum)
    assert (
        "estimated" in tile[3] and "est." in tile[2] and "estimated" in cells["TV, summed"]
    ) == (kind == "missing")
    assert cells["KL, summed"] == ("–" if kind == "missing" else tv_sum)
    assert not cells["Perplexity"].startswith("≤")
    (line,) = shift_plot([PlottedRun(trace, 0, "lane")]).figure.data
    assert line.name == ("lane" if kind == "exact" else f"lane, {label}")
    assert line.customdata[0][1] == ("–" if kind == "missing" else tv_sum)
    assert {row[7] for row in ended_view(trace, "").rows} == {flag}


def test_the_first_relaxed_token_is_explained_with_the_tied_pair_and_the_three_numbers_name_it() -> (
    None
):
    sentence = plain(verdict([LEFT, RIGHT]))
    first = next(token for token in RIGHT.tokens if token.outcome is Outcome.RELAXED)
    story = "".join(relaxed_story(first, RIGHT.config.rule, sampled=False))
    assert sentence == (f"MARS first differs from Strict at position {first.position}: {story}")
    for rule, expected in (
        (RuleConfig("mars", {"theta": 0.9}), "The two best logits were within 3.0 %: "),
        (RuleConfig("mars-gap", {"gap": 0.7}), "The two best logits were 0.600 apart: "),
        (RuleConfig("typical"), "The two best were "),
    ):
        pieces = zip(first.top[:2], (0.46, 0.32), strict=True)
        near = replace(first, r=0.97, gap=0.6, top=[(id_, word, p) for (id_, word, _), p in pieces])
        story = "".join(relaxed_story(near, rule, sampled=False))
        assert story.startswith(expected) and " (46 %) against " in story
        assert "(32 %). The draft said" in story and " kept it; strict writes" in story
    (numbers,) = headlines(("Strict", "MARS"), {0: LEFT, 1: RIGHT})
    assert [name for name, _ in numbers.runs] == ["Strict", "MARS"]
    assert [summary for _, summary in numbers.runs] == [LEFT.summary, RIGHT.summary]
    assert (numbers.lane, numbers.relaxed_at) == (1, first.position)
    shown, stopped = (
        Strip((), state, numbers=(numbers,)).html() for state in ("done", "cancelled")
    )
    assert "instead of" in shown and "instead of" not in stopped  # it is compared with none
    panel = read_panel(shown)
    assert [each.text for each in panel.all(".mars-passes")[0].all("dd")] == [
        f"{name}{trace.summary.steps}" for name, trace in (("Strict", LEFT), ("MARS", RIGHT))
    ]
    for lane, part in enumerate(panel.all(".mars-passes")[0].all("i")):  # colours of the figures
        assert f"--lane:var(--mars-lane-{lane});" in part.attributes["style"]
        assert f"--mars-lane-{lane}:{PlottedRun(LEFT, lane, '').colour};" in css_variables()
    # a run that has not begun has no numbers; without a margin rule nothing is nearly tied
    (live,) = headlines(("Strict", "MARS"), {}, {0: replace(NOTHING, new_tokens=6, steps=2)})
    assert "nan" not in Strip((), "running", numbers=(live,)).html()
    words = "".join(relaxed_story(first, RuleConfig("typical"), sampled=True))
    assert "logits" not in words and "random number" in words and "strict" not in words


def test_a_loop_is_named_with_the_numbers_before_it_wherever_a_run_is_displayed() -> None:
    loop = {"loop_tokens": 12, "loop_start": 40, "tau_before_loop": 1.25}
    looped = replace(RIGHT, summary=replace(RIGHT.summary, **loop))
    words = plain(verdict([LEFT, looped]))
    assert words.endswith(
        " MARS repeats the same 12 tokens from position 40 on: before that it had 1.25 tokens per "
        f"target pass, in all {number(RIGHT.summary.tau)}."
    )
    given = PrefixToken(5, "x", 0, 0)
    assert ended_view(replace(looped, given=(given,)), "").chip.endswith("repeats from token 41 on")
    pair: Any = SimpleNamespace(spec=CATALOG[0], margins=())
    assert "repeats from token 40 on, τ before 1.25;" in _report([LEFT, looped], pair)
    table = run_table("", [LEFT, looped], LOOP_QUANTITIES, paces_of([LEFT, looped]))
    (row,) = [cells for name, *cells in table.rows if name.text == "τ before the loop"]
    assert [cell.text for cell in row] == ["–", "1.25", ""]
    for quiet in (plain(verdict([LEFT, RIGHT])), ended_view(RIGHT, "").chip, _report([LEFT], pair)):
        assert "repeats" not in quiet


def test_a_rounding_tie_is_not_blamed_on_the_rule() -> None:
    step = LEFT.steps[0]
    token = replace(step.emitted[0], id=9_999, own=9_999, piece=" other", edge=1e-7)
    steps = (replace(step, tokens=(token, *step.emitted[1:])), *LEFT.steps[1:])
    other = replace(LEFT, steps=steps)
    assert not paces_of([LEFT, other])[1].same_work  # in as many passes
    difference = first_divergence(LEFT, other)
    assert (
        difference is not None
        and difference.cause is Cause.NUMERIC
        and not math.isnan(difference.gap)
    )
    assert "numeric tie" in plain(verdict([LEFT, other])) and "not the rule" in plain(
        verdict([LEFT, other])
    )


def test_after_the_first_difference_the_texts_are_found_again_where_they_meet() -> None:
    middle = [(1, 2, 3, 50, 60, 70, 4, 9, 5), (1, 2, 3, 80, 50, 60, 70, 4, 8)]
    left, right = (
        replace(
            LEFT,
            steps=(
                replace(
                    LEFT.steps[0],
                    tokens=tuple(replace(LEFT.tokens[0], id=id_) for id_ in ids),
                ),
            ),
        )
        for ids in middle
    )
    assert shared_spans(left, right, 3) == ((0, 3, 0), (4, 8, 3))
    result = ended_result(unsaved({0: LEFT, 1: RIGHT}))
    base, other = (
        [trace.token_ids[at] for first, after, _ in view.shared for at in range(first, after)]
        for view, trace in zip(result.lanes, (LEFT, RIGHT), strict=True)
    )
    assert base == other and result.lanes[1].shared[0] == (0, result.lanes[1].diverges, 0)
    spans = zip(*(view.shared for view in result.lanes), strict=True)
    assert all(mine[0] == theirs[2] == mine[2] for mine, theirs in spans)
    same = ended_result(unsaved({0: LEFT, 1: LEFT})).lanes
    assert [(view.diverges, view.shared) for view in same] == [
        (None, ((0, len(LEFT.tokens), 0),))
    ] * 2


CODE = ast.dump(ast.parse("x=1"))


@pytest.mark.parametrize(
    ("prompt", "left", "right", "expected"),
    [
        ("How many legs?", "So 12.", "It has 12 legs.", ("number", "12", "12")),
        ("What is 3 + 4?", "It is 7", "It is 8", ("number", "7", "8")),
        ("Who was it?", "Born in 1879", "Born in 1880", None),
        ("x", "so\n#### 4", "#### 5", ("number", "4", "5")),
        ("Which?\nA) a\nB) b", "The answer is (B).", "A) a", ("choice", "B", "A")),
        (
            "x",
            '{"a": [1, 2]}',
            '```json\n{"a":[1,2]}\n```',
            ("JSON", '{"a": [1, 2]}', '{"a": [1, 2]}'),
        ),
        ("x", "```python\nx = 1 # a\n```", "```\nx=1\n```", ("code", CODE, CODE)),
        ("x", "```python\nx = (\n```", "```\nx=1\n```", None),
        ("x", "[" * 9000, "[" * 9000, None),
        ("x", "```\n" + "(" * 9000, "```\n" + "-" * 9000 + "1", None),
    ],
)
def test_the_answers_are_compared_where_both_texts_have_one(
    prompt: str, left: str, right: str, expected: tuple[str, str, str] | None
) -> None:
    assert answers(prompt, left, right) == expected
    runs = [
        replace(
            trace,
            text=text,
            stop_reason=StopReason.EOS,
            config=replace(trace.config, prompt=PromptConfig(prompt)),
        )
        for trace, text in ((LEFT, left), (RIGHT, right))
    ]
    words = plain(verdict(runs))
    assert ("Same " in words) is bool(expected and expected[1] == expected[2])
    assert ("Another " in words) is bool(expected and expected[1] != expected[2])
    assert "nother" not in plain(
        verdict([replace(runs[0], stop_reason=StopReason.LENGTH), runs[1]])
    )


def test_stopped_and_failed_runs_claim_no_speed_and_those_that_never_started_are_named() -> None:
    stopped = replace(RIGHT, status=Status.CANCELLED, stop_reason=StopReason.CANCELLED)
    failed = make_trace(rule="mars", status=Status.FAILED, error="Out of memory.")
    for runs, expected in (
        ((LEFT, stopped), "Stopped. A ended with 120 tokens; B was stopped after 120 tokens."),
        (
            (LEFT, failed),
            "A run failed. A ended with 120 tokens; B failed after 40 tokens: Out of memory.",
        ),
        (
            (None, stopped, None),
            "Stopped. A was not started; B was stopped after 120 tokens; C was not started.",
        ),
    ):
        assert plain(broken_sentence(list(zip("ABC", runs, strict=False)))) == expected
    assert divergence(LEFT, stopped) is None


@pytest.mark.parametrize(
    "change",
    [
        {"runs": []},
        {"runs": "x"},
        {"runs": [{}]},
        {"budget": 0},
        {"run": 7},
        {"was": None},
        {"lane": 9},
        {"slope": "Infinity"},
        {"slope": 1e308, "budget": 1e-308},
        {"acceptance": [["x"], 0.5, [1], False]},
        {"acceptance": [[float("nan")], 0.5, [1], False]},
        {"label": "\ud800"},
    ],
)
def test_what_cannot_be_drawn_changes_nothing(change: dict[str, Any]) -> None:
    run: dict[str, Any] = runs_of([PlottedRun(RIGHT, 3, "MARS")])[0]._asdict()
    changed = run | {name: change[name] for name in change.keys() & run.keys()}
    fields = {"runs": [list(changed.values())], "was": 0, "draft": "-100"}
    event: Any = SimpleNamespace(
        _data=fields | {name: change[name] for name in change.keys() - run.keys()}
    )
    assert redrawn(event) == gr.skip()


def reported(store: RunStore, prompt: str = "Tell me.", **more: object) -> StoredComparison:
    comparison = keep(store, prompt, new_tokens=16, **more)  # type: ignore[arg-type]
    store.annotate(comparison, name=prompt[:40], comment=prompt, tags=["<b>"])
    return store.load(comparison)


def scripts(page: Element, kind: str = "") -> list[str]:
    """Of that type, as they stand."""
    scripts_ = [each for each in page.all("script") if each.attributes.get("type", "") == kind]
    return ["".join(map(str, each.children)) for each in scripts_]


def drawn_values(page: Element) -> list[dict[str, object]]:
    """What the scripts draw: properties by component."""
    (text,) = scripts(page, "application/json")
    assert text.isascii() and "<" not in text
    return [piece["props"] for piece in json.loads(text)]


def test_only_scripts_with_a_named_hash_may_run_in_a_report(store: RunStore) -> None:
    """What it requests, the browser says."""
    page = read_panel(report_html(reported(store, HOSTILE)))
    assert not [name for each in page.every for name in each.attributes if name.startswith("on")]
    (policy,) = (
        each.attributes["content"] for each in page.all("meta") if "http-equiv" in each.attributes
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    hashes = [
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts(page)
    ]
    assert len(hashes) == 2 and re.findall("'[^' ]+'", policy)[1:3] == hashes
    assert "unsafe-eval" not in policy


def test_the_report_holds_what_the_page_shows(store: RunStore) -> None:
    """Texts and tables without a script; tokens and figures as the values of the page's
    components."""
    page = read_panel(report_html(reported(store, "a lantern")))
    words = page.one("main").text
    expected = (
        "a lantern",
        "MARS",
        "Tokens per second",
        "Perplexity",
        "Self-check",
        "mars compare",
        "torch",
    )
    assert not [word for word in expected if word not in words]
    ids = {each.attributes.get("id") for each in page.every}
    assert {"prompt", "numbers", "shift", "settings", "repeat", "versions"} <= ids
    figures = [json.loads(each.attributes["data-figure"]) for each in page.all(".mq-figure")]
    assert len(figures) == 5 and all(figure["csv"] for figure in figures)
    assert sum(props.get("lane") in (0, 1) for props in drawn_values(page)) == 2
