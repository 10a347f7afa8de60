"""Numbers of any number of runs, the shift meter, a sentence over them that is honest in every
case, and when drafts pay."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from evaluation.planner import acceptance_of, costs_of, planned, times_of
from mars_core.telemetry import first_divergence
from mars_core.types import Cause, Outcome, PromptConfig, RuleConfig, Status, StopReason, Trace
from storage import RunStore, StoredComparison
from tests.panels import Element, read_panel
from tests.traces import make_trace, make_tree_trace
from tests.unit.storage.exports import parsed
from tests.unit.ui.places import keep
from ui.figures.plot import PlottedRun
from ui.figures.shift import cumulative_plot, shift_plot
from ui.kit.labels import lane_label, rule_title, run_names, settings_line
from ui.kit.values import ValueCell, plain
from ui.report.page import report_html
from ui.result.numbers import (
    QUANTITIES,
    SHIFT_QUANTITIES,
    comparison_table,
    infinite_note,
    self_check,
    summary_table,
)
from ui.result.planner_panel import NOTHING, PlannerFields, PlannerPanel, planner_html, runs_of
from ui.result.sentence import broken_sentence, divergence, verdict
from ui.token_view.tiles import FLOAT_ERROR, lane_check
from ui.token_view.view import ended_view

RUNS = [make_trace(rule=rule, new_tokens=60) for rule in ("strict", "mars", "mars-gap", "none")]


def test_each_run_after_the_first_has_its_ratio_to_the_first_and_heads_name_the_runs_in_lane_order() -> (
    None
):
    for amount in (2, 3, 4):
        table = comparison_table(RUNS[:amount])
        assert len(table.heads) == 2 * amount and len(table.rows) == len(QUANTITIES)
        for _, _, cells in table.rows:
            assert [cell.ratio for cell in cells] == [False] + [False, True] * (amount - 1)
    heads = comparison_table(RUNS[:3]).heads
    assert heads[1::2] == (lane_label(RUNS[0].config), "/ left", "/ left")
    assert heads[2::2] == tuple(lane_label(run.config) for run in RUNS[1:3])
    assert comparison_table(RUNS[:2]).heads[-1] == "right / left"


def test_ratios_are_those_of_the_summaries_and_carry_a_verdict() -> None:
    left = RUNS[0]
    faster = replace(
        left,
        summary=replace(left.summary, tau=1.5 * left.summary.tau, ttft_s=2 * left.summary.ttft_s),
    )
    ratios = {name: cells[2] for name, _, cells in comparison_table([left, faster]).rows}
    assert ratios["τ, tokens per step"] == ValueCell("1.50×", True, "better")
    assert ratios["Time to first token"] == ValueCell("2.00×", True, "worse")
    assert ratios["Output length"] == ValueCell("1.00×", True, "")


def test_runs_are_told_apart_by_as_little_as_that_takes() -> None:
    assert "tree of 24, depth 6, top-k 4 · coupled EAGLE-3 drafts" in settings_line(
        make_tree_trace().config
    )
    assert "K 5 · coupled drafts" in settings_line(
        RUNS[0].config
    ) and "drafts" not in settings_line(RUNS[3].config)
    assert rule_title("made-up") == "made-up"
    configs = [run.config for run in RUNS]
    assert run_names(configs[:2]) == ("Strict", "MARS")
    other = make_trace(rule="mars", theta=0.8).config
    assert run_names([configs[1], other]) == ("MARS θ = 0.9", "MARS θ = 0.8")
    assert run_names([configs[0], configs[0]]) == ("Strict (left)", "Strict (right)")
    assert run_names([configs[0], configs[1], configs[0]]) == (
        "Strict (lane 1)",
        "MARS θ = 0.9",
        "Strict (lane 3)",
    )


STRICT, MARS, PLAIN = (make_trace(rule=rule, new_tokens=80) for rule in ("strict", "mars", "none"))


def shifted(trace: Trace, tv: float) -> Trace:
    return replace(trace, summary=replace(trace.summary, tv_max=tv))


def test_float_error_is_no_shift_and_more_is_a_warning_of_a_lossless_rule_with_tokens() -> None:
    for rule, checked in (("strict", True), ("block", True), ("mars", False), ("typical", False)):
        config = replace(STRICT.config, rule=RuleConfig(rule))
        assert bool(lane_check(config, 0.5, 10).state) is checked, rule
    assert (
        "Target alone" in self_check([PLAIN]).text and lane_check(STRICT.config, 0.0, 0).state == ""
    )
    assert "Add Target alone or Strict or Block verification" in self_check([MARS]).text
    check = self_check([STRICT, MARS])
    assert (check.state, check.text) == ("ok", "Self-check: Strict shifted nothing (largest TV 0).")
    assert self_check([shifted(STRICT, 0.9 * FLOAT_ERROR)]).state == "ok"
    bad = self_check([STRICT, shifted(STRICT, 0.02)])
    assert (
        bad.state == "bad"
        and bad.text.startswith("Self-check failed: Strict")
        and "0.0200" in bad.text
    )


def test_the_table_has_a_column_a_run_and_no_ratio() -> None:
    table = summary_table([STRICT, MARS, PLAIN], SHIFT_QUANTITIES)
    assert table.heads == ("", "Strict", "MARS", "Target alone")
    assert [row[0] for row in table.rows] == [quantity.name for quantity in SHIFT_QUANTITIES]
    assert all(
        len(cells) == 3 and not any(cell.ratio for cell in cells) for _, _, cells in table.rows
    )
    assert table.rows[0][2][0].text == "0"


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
    config = replace(MARS.config, environment={**MARS.config.environment, "tv": kind})
    summary = replace(MARS.summary, tv_sum=value, tv_max=value, kl_sum=value)
    steps = [
        replace(step, tokens=tuple(replace(token, tv=value) for token in step.tokens))
        for step in MARS.steps
    ]
    trace = replace(MARS, config=config, summary=summary, steps=tuple(steps))
    cells = {row[0]: row[2][0].text for row in summary_table([trace], SHIFT_QUANTITIES).rows}
    tile = next(tile for tile in ended_view(trace, "").tiles if tile[0] == "Shift")
    assert tile[1].startswith(tv_sum) and cells["TV, summed"].startswith(tv_sum)
    assert (
        "estimated" in tile[3] and "est." in tile[2] and "estimated" in cells["TV, summed"]
    ) == (kind == "missing")
    assert cells["KL, summed"] == ("–" if kind == "missing" else tv_sum)
    assert not cells["Perplexity"].startswith("≤")
    run = PlottedRun(trace, 0, "lane")
    assert label in json.dumps(
        shift_plot([run]).figure.to_plotly_json(), default=str, ensure_ascii=False
    )
    assert (label in cumulative_plot([run]).figure.data[0].name) == (kind != "exact")
    assert {row[7] for row in ended_view(trace, "").rows} == {flag}


def test_an_infinite_divergence_is_written_and_explained() -> None:
    greedy = make_tree_trace(new_tokens=60)
    assert greedy.summary.kl_sum == float("inf")
    cells = {name: row[0] for name, _, row in summary_table([greedy], SHIFT_QUANTITIES).rows}
    assert "∞" in cells["KL, summed"].text
    assert "temperature 0" in infinite_note([greedy]) and "temperature 0" in infinite_note(
        [STRICT, greedy]
    )
    assert infinite_note([STRICT]) == ""


def test_the_figure_has_a_row_of_bars_a_run_on_one_scale() -> None:
    figure = shift_plot([PlottedRun(STRICT, 0, "a"), PlottedRun(MARS, 2, "b")]).figure
    shifted = [token for token in MARS.tokens if round(token.tv, 6)]
    assert list(figure.data[0].y) == []
    assert list(figure.data[1].y) == pytest.approx([token.tv for token in shifted], abs=1e-6)
    assert list(figure.data[1].x) == [token.position for token in shifted]
    assert figure.layout.xaxis.range == (-0.6, 79.6)
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    assert figure.data[0].marker.color != figure.data[1].marker.color


def level(left: Trace, right: Trace, factor: float) -> Trace:
    """``right`` at ``factor`` times the speed of ``left``."""
    return replace(
        right, summary=replace(right.summary, tokens_per_s=left.summary.tokens_per_s * factor)
    )


LEFT, RIGHT = make_trace(rule="strict", new_tokens=120), make_trace(rule="mars", new_tokens=120)


def test_passes_a_relaxed_count_and_the_first_relaxed_token_are_named() -> None:
    sentence = plain(verdict([LEFT, level(LEFT, RIGHT, 1.234)]))
    first = next(token for token in RIGHT.tokens if token.outcome is Outcome.RELAXED)
    ours, base = RIGHT.summary, LEFT.summary
    assert sentence.startswith(
        f"MARS took {ours.steps} target passes for 120 tokens, Strict {base.steps} for 120 (τ"
    )
    assert f"relaxed {RIGHT.summary.relaxed} tokens" in sentence
    assert f"first differs at position {first.position}: kept" in sentence
    assert sentence.endswith("). In this one run it was 1.23× faster.")


def test_slower_is_called_slower_and_equal_texts_the_same() -> None:
    assert "1.25× slower" in plain(verdict([LEFT, level(LEFT, RIGHT, 0.8)]))
    assert "equally fast" in plain(verdict([LEFT, level(LEFT, RIGHT, 1.004)]))
    other = make_trace(rule="mars", theta=1.0, new_tokens=120)
    assert other.token_ids == LEFT.token_ids
    sentence = plain(verdict([LEFT, other]))
    assert (
        "relaxed no token" in sentence and "both texts are the same, token for token." in sentence
    )
    # the longer text is named, and a relaxed run on the left as the left one's deed
    short = replace(LEFT, steps=LEFT.steps[:3])
    short = replace(short, summary=replace(LEFT.summary, new_tokens=len(short.tokens)))
    assert "continues where" in plain(verdict([LEFT, short])) and ": MARS kept" in plain(
        verdict([RIGHT, LEFT])
    )
    greedy = [make_trace(rule=rule, new_tokens=120, temperature=0.0) for rule in ("strict", "mars")]
    assert "p at temperature 1: " in plain(verdict(greedy))  # where p is one-hot


def test_the_same_work_claims_no_difference_in_time() -> None:
    sentence = plain(verdict([LEFT, level(LEFT, LEFT, 2.47)]))
    assert (
        sentence.endswith("Same tokens, same passes: a difference in time is noise.")
        and "2.47" not in sentence
    )
    # by another drafter it is not the same work
    other = replace(
        LEFT,
        config=replace(LEFT.config, drafter=replace(LEFT.config.drafter, kind="ngram", model=None)),
    )
    assert plain(verdict([LEFT, level(LEFT, other, 2.0)])).endswith(
        "In this one run it was 2.00× faster."
    )


def test_a_rounding_tie_is_not_blamed_on_the_rule() -> None:
    step = LEFT.steps[0]
    token = replace(step.emitted[0], id=9_999, own=9_999, piece=" other", edge=1e-7)
    steps = (replace(step, tokens=(token, *step.emitted[1:])), *LEFT.steps[1:])
    other = replace(LEFT, steps=steps)
    assert plain(verdict([LEFT, other])).endswith(
        "both were equally fast."
    )  # as many passes, but not the same work
    difference = first_divergence(LEFT, other)
    assert (
        difference is not None
        and difference.cause is Cause.NUMERIC
        and not math.isnan(difference.gap)
    )
    assert "numeric tie" in plain(verdict([LEFT, other])) and "not the rule" in plain(
        verdict([LEFT, other])
    )


def test_every_other_run_gets_its_line_and_its_links_point_into_its_own_lane() -> None:
    third = make_trace(rule="mars-gap", new_tokens=120, theta=0.8)
    sentence = verdict([LEFT, RIGHT, third])
    lines = plain(sentence).split("\n")
    assert len(lines) == 2
    assert lines[0].startswith("MARS took") and lines[1].startswith("MARS, gap took")
    assert all(", Strict " in line for line in lines)
    assert {part.lane for part in sentence if part.lane is not None} <= {0, 1, 2}
    second = sentence[[part.kind for part in sentence].index("break") :]
    assert all(part.lane in (None, 0, 2) for part in second) and any(
        part.lane == 2 for part in second
    )
    links = [
        (part.lane, part.position)
        for part in sentence
        if part.lane is not None and part.position is not None
    ]
    assert links and all(
        position < len((LEFT, RIGHT, third)[lane].tokens) for lane, position in links
    )


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([1.9, 2.0, 2.1], " It was 2.00× faster (1.76× to 2.26×, 3 interleaved runs each)."),
        (
            [1 / 1.9, 0.5, 1 / 2.1],
            " It was 2.00× slower (1.76× to 2.26×, 3 interleaved runs each).",
        ),
        (
            [0.8, 1.3],
            " No difference in time was measurable: 1.02× faster (0.0467× to 22.3×, 2 interleaved runs each).",
        ),
        (
            [math.nan, 1.9, 2.0, 2.1],
            " It was 2.00× faster (1.76× to 2.26×, 3 interleaved runs each).",
        ),
        ([1.5], " In this one run it was 1.50× faster."),
        ([], " Its time was not measured."),
    ],
)
def test_the_time_of_repeats_has_an_interval(rounds: list[float], said: str) -> None:
    speeds = [100.0] * len(rounds), [100 * ratio for ratio in rounds]
    assert plain(verdict([LEFT, RIGHT], speeds)).endswith(said)


def test_stopped_and_failed_runs_claim_no_speed_and_those_that_never_started_are_named() -> None:
    stopped = replace(RIGHT, status=Status.CANCELLED, stop_reason=StopReason.CANCELLED)
    failed = make_trace(rule="mars", status=Status.FAILED, error="Out of memory.")
    for runs, said in (
        (
            (LEFT, stopped),
            "Stopped. A had ended with 120 tokens; B was stopped after 120 tokens. Completed text was saved.",
        ),
        ((LEFT, failed), "B failed after 40 tokens: Out of memory. A ended and is kept."),
        ((stopped, None), "Stopped. A was stopped after 120 tokens; B was not started."),
        (
            (None, stopped, None),
            "Stopped. B was stopped after 120 tokens; A and C were not started.",
        ),
        ((None, failed), "B failed after 40 tokens: Out of memory. A was not started."),
    ):
        assert plain(broken_sentence(list(zip("ABC", runs, strict=False)))) == said
    assert divergence(LEFT, stopped) is None


TRACES = {
    lane: make_trace(rule=rule, new_tokens=60)
    for lane, rule in ((0, "none"), (1, "strict"), (3, "mars"))
}


def drawn(**fields: Any) -> str:
    return planner_html(PlannerFields(runs=runs_of(TRACES), **fields))


def rows(html: str) -> list[dict[str, str]]:
    return parsed(json.loads(read_panel(html).all(".mars-quality-chart")[0].attributes["data-csv"]))


def test_the_runs_that_drafted_are_planned_with_the_pass_of_the_one_that_did_not() -> None:
    runs = runs_of(TRACES)
    assert [(run.lane, len(run.acceptance.rates)) for run in runs] == [(1, 5), (3, 5)]
    trace, times, single = TRACES[1], times_of(TRACES[1]), times_of(TRACES[0])
    acceptance = acceptance_of(trace)
    costs = costs_of(times, single.pass_s)
    assert (runs[0].draft, runs[0].slope) == (costs.draft, costs.slope)
    table = rows(drawn())
    expected = planned(acceptance, costs._replace(budget=256))
    assert [float(row["speedup"]) for row in table] == pytest.approx(
        [each.speedup for each in expected]
    )
    assert [row["extrapolated"] for row in table] == ["false"] * 5 + ["true"] * 11


def test_fields_change_the_plan_and_another_run_brings_its_own_costs() -> None:
    measured = rows(drawn())
    assert rows(drawn(was=0, draft=40))[0]["speedup"] < measured[0]["speedup"]
    assert float(rows(drawn(was=0, draft=-100, batch=8))[4]["speedup"]) < float(
        measured[4]["speedup"]
    )
    assert rows(drawn(was=0, draft=-300, batch=10, budget=1))[0]["speedup"] < "1"
    assert "It does not pay" in drawn(was=0, draft=40, batch=10)
    other = drawn(run=1, was=0, draft=40)
    assert rows(other) == rows(drawn(run=1))  # the slider follows


def test_where_nothing_was_drafted_a_sentence_says_so_and_a_label_is_text() -> None:
    assert NOTHING in planner_html(None) and runs_of({0: TRACES[0]}) == runs_of({}) == []
    run = runs_of(TRACES)[0]._replace(label="<script>alert(1)</script>\u202e")
    html = planner_html(PlannerFields([run]))
    assert "<script" not in html and "\u202e" not in html


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
    run: dict[str, Any] = runs_of(TRACES)[0]._asdict()
    changed = run | {name: change[name] for name in change.keys() & run.keys()}
    fields = {"runs": [list(changed.values())], "was": 0, "draft": "-100"}
    event: Any = SimpleNamespace(
        _data=fields | {name: change[name] for name in change.keys() - run.keys()}
    )
    assert PlannerPanel._draw(event) == gr.skip()


MARKUP = (
    "<img src=x onerror=alert(1)></script><script>window.ran=1</script>{{7*7}}\u202e\x1b[31m\ud800"
)


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


def test_the_report_asks_for_nothing_and_only_scripts_with_a_named_hash_may_run(
    store: RunStore,
) -> None:
    report = report_html(reported(store, MARKUP))
    page = read_panel(report)
    assert not [
        each.tag
        for each in page.every
        if {"src", "href", "action", "data"} & each.attributes.keys()
    ]
    assert not {each.tag for each in page.every} & {
        "link",
        "iframe",
        "object",
        "base",
        "form",
        "img",
    }
    assert not [name for each in page.every for name in each.attributes if name.startswith("on")]
    (policy,) = (
        each.attributes["content"] for each in page.all("meta") if "http-equiv" in each.attributes
    )
    assert (
        policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    )
    assert "url(" not in report.split("</style>")[0]
    hashes = [
        f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts(page)
    ]
    assert len(hashes) == 2 and re.findall("'sha256-[^']+'", policy) == hashes


def test_hostile_text_is_never_markup(store: RunStore) -> None:
    report = report_html(reported(store, MARKUP, words=(MARKUP,) * 8))
    page = read_panel(report)
    assert len(page.all("script")) == 3 and not page.all("img")
    assert not [text for text in scripts(page) if "window.ran" in text]
    assert not set("\u202e\x1b\ud800") & set(report)
    prompt = page.all(".mq-prompt")[0].text
    assert prompt.startswith(
        "<img src=x onerror=alert(1)></script><script>window.ran=1</script>{{7*7}}"
    )
    every = [str(props["value"]) for props in drawn_values(page)]
    values = [
        value for value in every if '"csv":' not in value
    ]  # the CSV of a figure has the text as it is
    assert any("window.ran=1" in value for value in values)
    assert not [
        value for value in values if re.search(r"\\u202e|\\u001b|\\ud800|[\u202e\x1b\ud800]", value)
    ]


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
    drawn = [str(props["value"]) for props in drawn_values(page)]
    figures = [json.loads(value) for value in drawn if '"csv":' in value]
    assert len(figures) >= 6 and all(figure["csv"] for figure in figures)
    assert sum(props.get("lane") in (0, 1) for props in drawn_values(page)) == 2


def test_runs_that_did_not_end_are_reported_too_and_a_comparison_without_runs(
    store: RunStore,
) -> None:
    for status in (Status.CANCELLED, Status.FAILED):
        assert "application/json" in report_html(reported(store, status=status))
    assert "</html>" in report_html(store.load(store.new_comparison(PromptConfig("x"))))
