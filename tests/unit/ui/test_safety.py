"""The sentence on safety under the three numbers, and the form of a study where there is none."""

from __future__ import annotations

from dataclasses import replace

import gradio as gr
import pytest

from evaluation.recovery import RecoveryOutcome
from evaluation.report import verdicts
from evaluation.report.verdicts import Verdict, Verdicts
from evaluation.statistics import Interval
from mars_core.models import CATALOG
from mars_core.types import RuleConfig
from storage import RunStore
from tests.panels import read_panel
from tests.unit.ui.helpers import one_loop, services_of
from ui.public.limits import PUBLIC_LIMITS
from ui.result import example
from ui.result.result import ended_result
from ui.tabs.compare.safety import assured
from ui.tabs.study.estimate import estimated
from ui.tabs.study.form import read_study
from ui.tabs.study.tab import QualityTab

TRACES = example.stored()
STRIP = ended_result(example.comparison()).strip
FOUND = Verdict(
    *(CATALOG[0].target.name, "bundled/smollm2-eagle3", "eagle3 K=3", "mars(theta=0.97)", 0.0),
    *("sums", 300, 1, Interval(0.898, 0.831, 0.963), 0.98, RecoveryOutcome.NOT_SUPPORTED, "s"),
)
KEPT = "kept 89.8 % [83.1, 96.3] of strict’s score"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (FOUND, f"On 300 prompts of sums at T = 0, MARS θ = 0.97 {KEPT}: less than 98 %."),
        (
            replace(FOUND, outcome=RecoveryOutcome.SUPPORTED, seeds=3),
            f"On 300 prompts × 3 seeds of sums at T = 0, MARS θ = 0.97 {KEPT}: 98 % or more.",
        ),
        (
            replace(FOUND, outcome=RecoveryOutcome.TOO_FEW, drafts="eagle3 9/4/2"),
            "On 300 prompts of sums with other drafts (EAGLE-3 head, tree 9/4/2) at T = 0, MARS θ = 0.97 "
            f"{KEPT}; whether that is 98 % or more is undecided.",
        ),
    ],
)
def test_the_sentence_says_what_the_study_found_and_no_more(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, found: Verdict, sentence: str
) -> None:
    monkeypatch.setattr(verdicts, "stored", lambda: (found,))
    (said,) = assured(STRIP, services_of(store), Verdicts()).safety
    assert (said.text, said.link, said.form) == (sentence, "?tab=quality&study=s", {})
    html = assured(STRIP, services_of(store), Verdicts()).html()
    assert sentence in read_panel(html).text and 'href="?tab=quality&amp;study=s"' in html


def test_what_was_never_measured_has_a_form_that_may_be_started_here(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the limits of the page; strict has no sentence, nor have runs that did not all end."""
    monkeypatch.setattr(verdicts, "stored", lambda: ())
    public = services_of(store, public=True, limits=PUBLIC_LIMITS, catalog=CATALOG)
    for services, problems in ((services_of(store, catalog=CATALOG), 250), (public, 40)):
        (said,) = assured(STRIP, services, Verdicts()).safety
        assert said.text.startswith("No study says how much of strict’s score MARS θ = 0.97 keeps")
        assert said.takes.startswith(f"on {problems} problems; how long it takes is known after")
        with one_loop(), gr.Blocks():
            form = read_study(QualityTab(services).panel.value(said.form))
        plan, config = form.plan(CATALOG[0]), TRACES[1].config
        assert [lane.rule for lane in plan.lanes] == [RuleConfig("strict"), config.rule]
        assert {replace(lane.drafter, model=None) for lane in plan.lanes} == {
            replace(config.drafter, model=None)
        }
        assert (plan.items, plan.temperatures) == (problems, (0.0,))
        assert f" {problems} problems × 2 lanes" in estimated(services, form)
    other = replace(STRIP, configs=(TRACES[0].config,))
    assert assured(other, public, Verdicts()).safety == ()
    unknown = services_of(store, catalog=CATALOG[1:])
    assert assured(STRIP, unknown, Verdicts()).safety[0].form == {}
    varied = replace(TRACES[1].config, rule=RuleConfig("mars", {"theta": "0.9 - position/100"}))
    said = assured(replace(STRIP, configs=(varied,)), public, Verdicts()).safety[0]
    assert "0.9 - position/100" in said.text and said.form == {}
