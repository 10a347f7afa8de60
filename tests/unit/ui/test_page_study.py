"""A study that is started from the page: as a plain generator over a small real pair, stopped,
resumed, limited, owned."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from evaluation.advise.plans import advised
from evaluation.plan.lane import with_placebos
from evaluation.plan.plan import read_plan
from evaluation.report.document.charts import charts
from evaluation.report.measure import measure
from evaluation.scoring.names import PASS
from evaluation.suites.read import BUILT_IN
from evaluation.suites.typed import TYPED
from mars_core.models import BUNDLED_PAIR, CATALOG, ModelPool
from mars_core.session import Session
from mars_core.types import ModelRef, Status
from storage import RunStore
from tests.traces import make_trace
from tests.unit.ui.helpers import SWEEP as PROMPTS
from tests.unit.ui.helpers import changed, rows_of
from ui.jobs.admission import JobError
from ui.jobs.queue import Paces
from ui.jobs.services import Services
from ui.kit.values import plain
from ui.public.limits import Limits
from ui.settings.fields import Fields
from ui.tabs.study.estimate import estimated
from ui.tabs.study.fields import describe
from ui.tabs.study.form import ADVISE, ALPHA, SUITES, StudyForm
from ui.tabs.study.panels import first_html
from ui.tabs.study.running import TIME_IS_UP, StudyFrame, resumable, resumed, started

FORM = changed(
    PROMPTS,
    suite="demo_arithmetic",
    problems=3,
    rules=["mars", "none"],
    parameters="theta = 0.8, 0.9",
    max_new_tokens=12,
)


def until(events: Iterator[StudyFrame], results: int) -> str:
    """The study, once so many results were stored."""
    for event in events:
        results -= event.saved
        if event.study and results == 0:
            return event.study
    raise AssertionError("it ended before")


def test_placebos_are_lanes_unless_they_are_switched_off(services: Services) -> None:
    spec = services.catalog[0]
    lanes = FORM.plan(spec).lanes
    assert changed(FORM, placebos=True).plan(spec).lanes == with_placebos(lanes) != lanes


SWEEP = changed(
    FORM,
    suite="prompts",
    prompts="Once upon a time\n2 + 2 =",
    references="the",
    rules=["mars"],
    parameters="theta = 0.1, 0.9",
)


def drawn(services: Services, study: str) -> dict[str, list[float]]:
    """What a report draws over the varied parameter: its values by rule."""
    drawings = charts(measure(services.store, study))
    values = defaultdict[str, list[float]](list)
    for point in drawings[0].varied if drawings else ():
        values[point.series[0]].append(point.x)
    return values


def test_a_sweep_is_a_study_whose_curves_grow_while_it_runs(services: Services) -> None:
    """Also while its only task is not done; its numbers are those of its runs."""
    points = []
    for event in started(services, changed(SWEEP, prompts="Once")):
        if event.saved:
            points.append(len(drawn(services, event.study).get("MARS", ())))
    assert points == sorted(points) and points[-1] == 2
    (head,) = services.store.studies()
    assert head.name == "MARS θ = 0.1 / 0.9, 1 prompt: Once" and head.done == head.tasks == 1
    report = measure(services.store, head.id)
    strict, first, _ = report.measured
    traces = {
        each.lane: services.store.traces(each.run_ids)[each.run_ids[0]].summary
        for each in services.store.results(head.id)
    }
    assert [lane.name for lane in report.plan.lanes] == [
        "strict",
        "mars(theta=0.1)",
        "mars(theta=0.9)",
    ]
    assert first.tau.value == pytest.approx(traces[1].tau)
    assert first.relaxed_share.value == pytest.approx(traces[1].relaxed_share)
    assert first.speedup_strict.value == pytest.approx(
        traces[1].tokens_per_s / traces[0].tokens_per_s
    )
    assert [*strict.scores] == ["answer,none"] and strict.main_score
    assert (head.id, {"MARS": [0.1, 0.9]}) == (report.id, drawn(services, head.id))


def test_a_stopped_study_goes_on_without_repeating_anything(services: Services) -> None:
    events = started(services, FORM)
    study = until(events, 5)
    services.stop.request()
    assert list(events)[-1].status is Status.CANCELLED
    before = {
        (stored.task, stored.lane): stored.run_ids for stored in services.store.results(study)
    }
    assert len(before) == 5 and resumable(services.store, study)
    services.stop.begin()
    again = list(resumed(services, study))
    words = [plain(event.strip.parts) for event in again if event.saved]
    assert len(words) == 7 and words[0].startswith("Run 7 of 12: ")
    assert any("MARS θ = 0.8, draft model, K = 3, T = 1, prompt" in each for each in words)
    assert any(event.strip.side.endswith("to go") for event in again)
    assert again[-1].status is Status.COMPLETED and again[-1].why == ""
    (head,) = services.store.studies()
    assert (head.tasks, head.done, head.name) == (
        *(3, 3),
        "demo_arithmetic, 3 problems: MARS θ = 0.8 / 0.9 and target alone",
    )
    assert not resumable(services.store, study)
    after = {(stored.task, stored.lane): stored.run_ids for stored in services.store.results(study)}
    assert len(after) == 12 and before.items() <= after.items()


ADVICE = changed(
    FORM, purpose=ADVISE, margin=0.5, problems=10, rules=["mars"], temperature="0", k="5"
)


@pytest.fixture
def bundled(store: RunStore) -> Services:
    """With a pair that answers right."""
    pool = ModelPool(device="cpu", dtype="float32")
    return Services(pool, store, (BUNDLED_PAIR,))


@pytest.mark.usefixtures("loaded_once")
def test_a_setting_is_advised_as_by_the_command_and_goes_on_where_it_stopped(
    bundled: Services,
) -> None:
    form, store = changed(ADVICE, max_new_tokens=80), bundled.store
    events = started(bundled, form)
    choosing = [plain(event.strip.parts) for event in takewhile(lambda one: not one.study, events)]
    assert choosing[-1] == "Choosing settings: strict, run 4 of 4"
    study = until(events, 5)
    events.close()  # type: ignore[attr-defined]
    assert resumable(store, study)
    before = {(one.task, one.lane): one.run_ids for one in store.results(study)}
    again = list(resumed(bundled, study))
    lines = [plain(event.strip.parts) for event in again if event.saved]
    assert lines[0].startswith("Run 7 of at most ") and again[-1].status is Status.COMPLETED
    after = {(one.task, one.lane): one.run_ids for one in store.results(study)}
    assert len(before) == 5 and before.items() <= after.items()
    plan = read_plan(store.study(study).plan)
    session = Session(bundled.pool.get(BUNDLED_PAIR))
    command = advised(replace(form.plan(BUNDLED_PAIR), models=plan.models), session, ALPHA, print)
    assert plan == command
    report = measure(store, study)
    assert report.certificate is not None and report.certificate.chosen is not None
    html = first_html(report)
    assert f"Use {report.certificate.chosen.name}: it is supported at" in html
    assert "in at most 5.0 % of studies" in html
    assert "mars compare" in html and 'href="?prompt=' in html and "pair=bundled" in html
    assert not resumable(store, study)


@pytest.mark.usefixtures("loaded_once")
def test_advice_that_is_stopped_before_its_plan_stores_nothing(bundled: Services) -> None:
    events = started(bundled, ADVICE)
    for event in events:
        if plain(event.strip.parts).startswith("Choosing settings"):
            bundled.stop.request()
            break
    with pytest.raises(JobError, match="Stopped before strict’s runs were done"):
        list(events)
    assert bundled.store.studies() == () and bundled.store.count() == 0


def test_time_that_is_up_leaves_a_study_to_be_resumed(services: Services) -> None:
    short = replace(services, limits=Limits(seconds=1))
    events = list(started(short, changed(FORM, problems=100, max_new_tokens=200)))
    assert (events[-1].status, events[-1].why) == (Status.CANCELLED, TIME_IS_UP)
    (head,) = services.store.studies()
    assert resumable(services.store, head.id)


def test_only_its_owner_resumes_a_study(services: Services) -> None:
    a, b = (replace(services, store=services.store.of(owner * 43), public=True) for owner in "ab")
    events = started(a, FORM)
    study = until(events, 1)
    assert not resumable(a.store, study)  # it is running
    events.close()  # type: ignore[attr-defined]
    assert not a.store.study_progress(study).working
    assert (
        resumable(a.store, study)
        and not resumable(b.store, study)
        and not resumable(a.store, study, "a link")
    )
    with pytest.raises(JobError, match="cannot be resumed here"):
        list(resumed(b, study))
    assert a.store.studies() and not b.store.studies()


def test_code_is_not_executed_from_the_page(services: Services) -> None:
    assert not any(PASS in BUILT_IN[name] for name in SUITES if name != TYPED)
    plan = changed(FORM, execute_code=True).plan(services.catalog[0])
    assert not plan.execute_code
    plan = replace(plan, execute_code=True)
    study = services.store.new_study(plan.name, plan.as_dict(), plan.tasks)
    with pytest.raises(JobError, match="executes code"):
        list(resumed(services, study))
    served = {
        "served": {"url": "http://localhost:1/v1", "model": "m"}
    }  # nor is what runs elsewhere resumed here
    for elsewhere, here in (({}, True), (served, False), ({"execute_code": True}, False)):
        study = services.store.new_study("study", {"name": "study"} | elsewhere, 4)
        assert resumable(services.store, study) is here


@pytest.mark.parametrize(
    ("change", "words"),
    rows_of(r"""
{"purpose": "win"} -> The purpose is 'win'; it must be one of compare, advise.
{"purpose": "advise", "problems": 20} -> 16 prompts (20 without 4 that choose the settings) cannot support a recovery of 98.0 %
{"purpose": "advise", "margin": null} -> margin is empty
{"purpose": "advise", "problems": 400} -> The study has 2,850 runs; from the page
{"purpose": "advise", "problems": 100, "margin": 0.9, "rules": ["random"]} -> The rule is 'random'; it has no margin threshold
{"purpose": "advise", "problems": 100, "margin": 0.9, "k": "3, 5"} -> Settings are chosen for one drafter and one temperature
{"suite": "/etc/passwd"} -> The suite is '/etc/passwd'; it must be one of demo_arithmetic, demo_stories, instructions, instructions_fresh
{"problems": 0} -> limit is 0; it must be at least 1
{"problems": null} -> the number of problems is empty
{"rules": []} -> No rule is chosen
{"rules": ["strict", "none"]} -> No rule is chosen
{"parameters": "theta = ,"} -> The list of θ is empty
{"parameters": "theta = 0.9, x"} -> θ is 'x'; it must be a number.
{"parameters": "theta = 0.9:0.8:0.1"} -> The range 0.9:0.8:0.1 of θ
{"parameters": "theta = 0:1:0.0001"} -> The range 0:1:0.0001 of θ
{"parameters": "theta = 0.9, 0.9"} -> Two lanes are the same
{"parameters": "theta"} -> 'theta' among the parameters is not name = values
{"parameters": "beta = 1"} -> The parameters have 'beta'
{"suite": "prompts", "prompts": " \n"} -> There is no prompt
{"suite": "prompts", "prompts": "2 + 2 =", "references": "\n4"} -> There are 2 right answers and 1 prompt; give at most one for each prompt.
{"k": "2.5"} -> k is 2.5; it must be a whole number from 1 to 64.
{"k": "nan"} -> k is 'nan'; it must be a number.
{"k": ""} -> The list of k is empty
{"repeats": null} -> repeats is empty
{"drafter": "eagle3"} -> has no EAGLE-3 head
{"problems": 600} -> The study has 2,400 runs; from the page it must be at most 2,000
{"pair": "no such pair"} -> pair is 'no such pair'
{"max_new_tokens": 4096} -> the context of
"""),
)
def test_a_bad_value_gets_one_sentence_and_saves_nothing(
    services: Services, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(JobError, match=re.escape(words)) as refused:
        list(started(services, changed(FORM, **change)))
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")
    assert services.store.studies() == () and services.store.count() == 0


def test_limits_and_the_estimate_come_before_the_start(services: Services) -> None:
    public = replace(services, limits=Limits(study_runs=80, seconds=120))
    more = "The number of runs is 84; on this public page it must be at most 80."
    long = changed(FORM, problems=20, max_new_tokens=160)
    words = "20 problems × 4 lanes = 80 runs, at most 12,800 new tokens; how long it takes is known after the first run of this model. "
    words += "It stops after 120 s and can be resumed."
    assert estimated(public, long).endswith(words)
    assert estimated(public, changed(long, problems=21)) == more
    with pytest.raises(JobError, match="The number of runs is 84"):
        list(started(public, changed(long, problems=21)))
    for length in (513, 10**6):
        sentence = f"max_new_tokens is {length}; on this public page it must be 1 to 512."
        short = replace(services, limits=Limits(new_tokens=512))
        assert estimated(short, changed(FORM, max_new_tokens=length)) == sentence


def test_the_time_of_a_study_is_a_range_of_what_runs_of_its_models_took_here(
    services: Services,
) -> None:
    """Not of other models, of runs that were stopped, or of waiting and loading."""
    here = replace(services, paces=Paces())
    trace = make_trace(new_tokens=24)
    target = ModelRef(here.catalog[0].target.name, "revision")
    config = replace(trace.config, target=target, max_new_tokens=48)

    def ran(new_tokens: int, wall_s: float, **changes: Any) -> None:
        summary = replace(trace.summary, new_tokens=new_tokens, wall_s=wall_s)
        here.observe(replace(trace, **{"config": config, "summary": summary, **changes}))

    form = changed(FORM, problems=20, max_new_tokens=160)
    ran(24, 100.0, config=replace(config, target=ModelRef("another/model")))
    ran(24, 100.0, status=Status.CANCELLED)
    assert "known after the first run of this model" in estimated(here, form)
    ran(24, 0.24)  # 5 ms a token that it may write, 10 ms each that it wrote
    ran(48, 1.2)
    ran(0, 0.1)
    words = "12,800 new tokens; about 70 s to about 6 min, by the last 2 runs here."
    assert words in estimated(here, form)


@pytest.mark.parametrize(
    ("change", "words"),
    rows_of(r"""
{} -> Measures speed-up and τ ratio; decides nothing about scores: 3 problems, 30 needed.
{"purpose": "advise", "problems": 100, "margin": 0.9} -> ≥ 90 % takes 37 prompts that strict answers right, more where answers are lost.
{"problems": 40, "margin": 0.95} -> 73 prompts that strict answers right if none is lost, about 310 if one in ten answers differs.
{"problems": 40, "placebos": true} -> answers differs; equivalence to random within ± 5 % in 4 comparisons 125 and 570.
{"suite": "prompts", "prompts": "a\nb\nc\nd\ne"} -> Measures speed-up and τ ratio; nothing is scored.
"""),
)
def test_what_a_study_can_decide_comes_before_the_start(
    services: Services, change: dict[str, Any], words: str
) -> None:
    assert words in estimated(services, changed(FORM, **change))


@pytest.mark.parametrize("suite", ["demo_arithmetic", "prompts"])
def test_the_defaults_decide_something_within_five_minutes(suite: str) -> None:
    """At 45 tokens/s, as of the default pair in int4 on two cores."""
    fields = Fields({"suite": suite}, spec=CATALOG[0], pairs=[("", CATALOG[0].key)])
    describe(fields)
    values = {name: field.value for name, field in fields.by_name.items()}
    plan = StudyForm(values).plan(CATALOG[0])
    assert plan.items >= 5 and plan.runs * plan.max_new_tokens / 45 < 300
