"""Continuing a run from another token: a further lane of the same comparison, whose text begins as that of the first."""

from __future__ import annotations

import pytest

from mars_core.types import Cause, Status, Trace
from tests.traces import make_trace
from ui.jobs.services import Services
from ui.kit.values import plain
from ui.result.sentence import divergence
from ui.tabs.compare.frames import Frame, Shown
from ui.tabs.compare.handlers import Wish, run_one_more, wished_config


def runs_of(services: Services, shown: Shown) -> list[Trace]:
    return [run.trace for run in services.store.load(shown.comparison).runs]


def go_on(services: Services, shown: Shown, column: int, index: int, token: int) -> list[Frame]:
    return list(run_one_more(services, shown, Wish(column, index, token), "visitor"))


@pytest.mark.parametrize("index", [0, 7, 20])
def test_strict_continued_from_its_own_token_writes_its_own_text(services: Services, shown: Shown, index: int) -> None:
    strict = runs_of(services, shown)[0]
    frames = go_on(services, shown, 0, index, strict.token_ids[index])
    again = runs_of(services, shown)[2]
    assert (*again.config.prefix, *again.token_ids) == strict.token_ids and again.text == strict.text
    assert divergence(strict, again) is None
    assert frames[-1].strip is not None and frames[-1].strip.state == "done"


def test_another_token_opens_a_lane_that_is_saved_with_the_others(services: Services, shown: Shown) -> None:
    mars = runs_of(services, shown)[1]
    other = next(a.id for a in mars.tokens[5].top if a.id != mars.tokens[5].id)
    frames = go_on(services, shown, 1, 5, other)
    runs = services.store.load(shown.comparison).runs
    assert [(run.lane, run.order) for run in runs][2] == (2, 2)
    new = runs[2].trace
    assert new.status is Status.COMPLETED and new.config.prefix == (*mars.token_ids[:5], other)
    assert new.tokens[0].position == 6 and len(new.given) == 6
    parting = divergence(mars, new)
    assert parting is not None and (parting.position, parting.cause) == (5, Cause.CHOSEN)
    now = [frame.shown for frame in frames if frame.shown][-1]
    assert now.lanes == (0, 1, 2) and len(frames[-1].lanes) == 3
    assert frames[0].lanes[:2] == (None, None)
    assert frames[-1].strip is not None and len(plain(frames[-1].strip.parts).split("\n")) == 2
    # with another theta it keeps its given beginning
    list(run_one_more(services, now, Wish(theta=0.4), "visitor"))
    again = runs_of(services, shown)[3].config
    assert again.prefix == new.config.prefix and again.rule.parameters == {"theta": 0.4}


@pytest.mark.parametrize(
    ("column", "index", "words"),
    [(0, 99, "The output position is 99"), (5, 0, "no run to continue"), (0, 23, "the last that these settings allow")],
)
def test_what_cannot_be_continued_is_said_and_changes_nothing(
    services: Services, shown: Shown, column: int, index: int, words: str
) -> None:
    frames = go_on(services, shown, column, index, 5)
    assert len(frames) == 1 and frames[0].strip is not None and frames[0].strip.state == "failed"
    assert words in plain(frames[0].strip.parts)
    assert len(runs_of(services, shown)) == 2


def test_a_run_that_is_stopped_while_it_continues_is_kept(services: Services, shown: Shown) -> None:
    frames = run_one_more(services, shown, Wish(0, 2, 7), "visitor")
    next(frame for frame in frames if any(view and view.state == "running" for view in frame.lanes))
    frames.close()  # type: ignore[attr-defined]
    assert runs_of(services, shown)[2].status is Status.CANCELLED


def test_another_theta_is_one_more_run_and_leaves_the_others(services: Services, shown: Shown) -> None:
    before = runs_of(services, shown)
    frames = list(run_one_more(services, shown, Wish(theta=0.5), "visitor"))
    after = runs_of(services, shown)
    assert [trace.token_ids for trace in after[:2]] == [trace.token_ids for trace in before]
    new = after[2].config
    assert new.rule.name == "mars" and new.rule.parameters == {"theta": 0.5}
    mars = before[1].config
    assert (new.seed, new.prompt, new.sampling) == (mars.seed, mars.prompt, mars.sampling)
    assert [frame.shown for frame in frames if frame.shown][-1].lanes == (0, 1, 2)


def test_another_theta_without_a_rule_that_has_one_is_mars_and_four_lanes_are_the_most() -> None:
    with pytest.raises(ValueError, match="All 4 lanes are in use"):
        wished_config([make_trace()] * 4, Wish(0, 3, 1))
    config = wished_config([make_trace(rule="strict")], Wish(theta=0.7))
    assert (config.rule.name, config.rule.parameters) == ("mars", {"theta": 0.7})
