"""``mars_playground.compare``: what the page does, from Python and in a notebook."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import mars_playground as mars
from mars_core.models import BUNDLED_PAIR, ModelPool
from mars_core.session import Session, run_config
from mars_core.text.prompting import encode
from mars_core.types import DrafterConfig, PromptConfig, Sampling
from storage import RunStore

pytestmark = pytest.mark.usefixtures("loaded_once")
ROOT = Path(__file__).parents[2]
PROMPT = "Tell me a story about Mia and a </iframe><script>alert(1)</script> lantern."


@pytest.fixture(scope="module")
def comparison() -> mars.Comparison:
    return mars.compare(
        PROMPT, pair="bundled", rules=["none", "mars"], max_new_tokens=24, seed=3, temperature=1
    )


def test_the_runs_are_those_of_the_engine(comparison: mars.Comparison) -> None:
    session = Session(ModelPool().get(BUNDLED_PAIR))
    for trace, rule in zip(
        comparison.traces,
        ("strict", "none", "mars"),
        strict=True,
    ):
        config = run_config(
            session.pair,
            prompt=PromptConfig(PROMPT),
            rule=mars.RuleConfig(rule),
            drafter=DrafterConfig("none") if rule == "none" else DrafterConfig("model", k=5),
            sampling=Sampling(1.0),
            max_new_tokens=24,
            seed=3,
        )
        run = session.start(config)
        for _ in run:
            pass
        assert run.trace().text == trace.text and trace.config.rule.name == rule
    assert list(comparison.texts) == ["Strict", "Target alone", "MARS θ = 0.9"]
    said = repr(comparison).splitlines()
    assert [line.split(":")[0].strip() for line in said[1:]] == list(comparison.texts)
    assert len(said[0]) < 100 and all(len(line) < 200 for line in said)


def test_its_tables_are_the_exports_and_it_is_saved_as_the_page_saves(
    comparison: mars.Comparison, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    saved = comparison.save(url)
    with RunStore(url) as store:
        stored = store.load(saved)
    written = [(run.trace.config, run.trace.text, len(run.trace.steps)) for run in stored.runs]
    assert written == [(each.config, each.text, len(each.steps)) for each in comparison.traces]
    runs, tokens = comparison.to_pandas(), comparison.to_pandas("tokens")
    assert list(runs["rule"]) == ["strict", "none", "mars"]
    emitted = tokens[(tokens["outcome"] != "rejected") & (tokens["rule"] == "mars")]
    assert "".join(emitted["piece"]).replace(" ", "") == comparison.traces[2].text.replace(" ", "")
    assert (comparison.to_pandas("nodes")["rule"] != "none").all()
    with pytest.raises(ValueError, match="table is 'steps'; it must be runs, tokens or nodes"):
        comparison.to_pandas("steps")


def test_a_follow_up_goes_on_from_every_lane_s_own_answer(tmp_path: Path) -> None:
    """The rest is as on the page, whose follow-ups these are."""
    first = mars.compare(
        "A story about Mia.", pair="bundled", system="Be kind.", max_new_tokens=16, seed=3, k=3
    )
    own = first.ask("And Ben?")
    pair = ModelPool().get(BUNDLED_PAIR)
    for trace, before in zip(own.traces, first.traces, strict=True):
        prompt = trace.config.prompt
        assert prompt == before.config.prompt.then(before.text, "And Ben?")
        assert list(trace.prompt_ids) == encode(pair.tokenizer, prompt)
        assert trace.config.drafter == before.config.drafter
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with RunStore(url) as store:
        last = own.ask("Really?", history="baseline")
        stored = store.load(last.save(url))
    every = [run for turn in stored.turns for run in turn.runs]
    written = sorted(every, key=lambda run: (run.lane, run.order))
    runs, tokens = last.to_pandas(), last.to_pandas("tokens")
    assert list(zip(runs["turn"], runs["lane"], runs["execution_order"], strict=True)) == [
        (len(run.trace.config.prompt.history), run.lane, run.order) for run in written
    ]
    emitted = tokens[tokens["outcome"] != "rejected"].groupby("run_id")["piece"].count()
    assert [emitted[id_] for id_ in runs["run_id"]] == [len(run.trace.tokens) for run in written]
    asked = [turn.prompt.text for turn in stored.turns]
    assert asked == ["A story about Mia.", "And Ben?", "Really?"]
    assert len({run.trace.config.prompt.history[-1].answer for run in stored.runs}) == 1


def test_without_a_chat_template_there_is_no_follow_up() -> None:
    plain = mars.compare("A story.", pair="bundled", chat=False, max_new_tokens=4)
    with pytest.raises(ValueError, match="no follow-up without a chat template"):
        plain.ask("And?")


def test_a_notebook_shows_hostile_text_as_text(comparison: mars.Comparison) -> None:
    view = comparison._repr_html_()
    assert view.count("<iframe") == view.count("</iframe>") == 1 and "<script" not in view
    (document,) = re.findall(r'srcdoc="([^"]*)"', view)
    assert "<script>alert" not in html.unescape(document) and "Mia" in document


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pair": "other"}, "pair is 'other'"),
        ({"protect": "no such token"}, "protect has 'no such token'"),
        ({"tree": mars.TreeShape(8, 3, 2)}, "drafter model drafts chains only"),
    ],
)
def test_bad_input_is_one_sentence(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mars.compare(PROMPT, **{"pair": "bundled", **arguments})  # type: ignore[arg-type]


def test_one_text_stands_for_a_list_of_one() -> None:
    shared: dict[str, Any] = {"pair": "bundled", "max_new_tokens": 32, "seed": 3}
    one = mars.compare(PROMPT, rules="none", stop="boy", protect="special", **shared)
    several = mars.compare(PROMPT, rules=["none"], stop=["boy"], protect=["special"], **shared)
    assert one.texts == several.texts and one.texts["Strict"].endswith("boy")
    assert [each.config.prompt.stop for each in one.traces] == [("boy",)] * 2
    (rule,) = mars.compare(PROMPT, rules=mars.RuleConfig("none"), **shared).traces[1:]
    assert rule.config.rule.name == "none"


def test_the_notebook_runs() -> None:
    text = (ROOT / "docs/compare.ipynb").read_text(encoding="utf-8")
    for written, here in (
        ('smollm2-135m\\"\\n', 'bundled\\"\\n'),
        ("pair=PAIR)", "pair=PAIR, max_new_tokens=16)"),
        ("max_new_tokens=64", "max_new_tokens=16"),
    ):
        assert written in text
        text = text.replace(written, here)
    notebook = nbformat.reads(text, 4)
    ran = NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    results = [cell.outputs[-1]["data"] for cell in ran.cells if cell.cell_type == "code"]
    assert "iframe" in results[0]["text/html"] and len(results) == 4


def test_the_example_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MARS_DATABASE_URL", f"sqlite:///{tmp_path / 'runs.db'}")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert "compare(" in code
    exec(code.replace("compare(", 'compare(pair="bundled", prompt=', 1))
    with RunStore(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        assert store.count() == 1
