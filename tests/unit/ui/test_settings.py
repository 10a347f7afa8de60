"""The settings panel: which fields it shows, what a change resets, and that whatever a browser
sends becomes a form or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from huggingface_hub import constants

from display import format as words
from mars_core.models import BUNDLED_PAIR, CATALOG, ModelPool
from mars_core.models.catalog import CUSTOM, PAPER_THETA, Theta
from mars_core.rules import RULES
from mars_core.settings import KINDS, PROCESSORS, Settings
from mars_core.settings.links import address_words
from mars_core.types import TreeShape
from storage import RunStore
from tests.answering import Answers, answering
from tests.checkpoints import tiny_checkpoint
from tests.folders import hub_snapshot, offline
from tests.gguf_files import tiny_llama, write_gguf
from tests.panels import Element, read_panel
from tests.unit.ui.helpers import FORM, services_of
from training.demo.corpus import held_out
from ui.jobs.services import Services
from ui.settings.panel import SettingsPanel
from ui.settings.parameters import EXAMPLES, PRESETS, UNMEASURED
from ui.settings.values import (
    DRAFTS,
    EnteredValues,
    lanes_of,
    parse,
    read_lane_values,
    read_link,
    read_settings,
    seeded,
    settings_values,
    taken,
)
from ui.tabs.compare.prompt_panel import PromptPanel
from ui.tabs.study.form import read_study
from ui.tabs.study.tab import QualityTab
from ui.tabs.votes.tab import VotesTab

pytestmark = pytest.mark.usefixtures("page")
HOSTILE = "</textarea><script>alert(1)</script>\"' onfocus=x \u202e"


@pytest.fixture
def services(store: RunStore) -> Services:
    return services_of(store)


PROCESSED = {
    **dict(zip(PROCESSORS, (0.1, 0.9, 1.3, 0.5, -0.5, 3), strict=False)),
    "logit_bias": ((" a=b", -2.5), ("[42, 7]", float("-inf"))),
    "protect": ("digits", "a b*"),
}


@pytest.fixture
def panel(services: Services) -> SettingsPanel:
    """That of Compare."""
    return PromptPanel(services).panel


def redrawn(panel: SettingsPanel, values: EnteredValues, **changed: Any) -> dict[str, Any]:
    """The values after a change was reported."""
    return parse(panel.changed(json.dumps({"values": values}), changed)[0])


def fields_of(panel: SettingsPanel, values: EnteredValues) -> Element:
    return read_panel(json.loads(panel.value(values))["html"])


def visible(html: Element) -> set[str]:
    """Names of the fields of the form, but for the lanes', that are not hidden."""
    lanes = {id(each) for lane in html.all("section") for each in lane.all(".mars-field")}
    every = [
        field for field in html.all(".mars-field") if not field.hidden and id(field) not in lanes
    ]
    return {
        each.attributes["data-name"]
        for field in every
        for each in field.every
        if "data-name" in each.attributes
    }


@pytest.mark.parametrize(
    "form",
    [
        FORM,
        replace(FORM, drafter="eagle3", tree="9/4/2", k=None),
        replace(FORM, drafter="eagle3", tree="chain", k=3, thinking=False),
        replace(
            FORM,
            drafter="ngram",
            draft_mode="coupled",
            stop=("a", "b"),
            system=HOSTILE,
            chat=False,
            top_p=0.1,
        ),
        replace(FORM, rules=("mars", "typical(epsilon=0.2,delta=0.5,drafter=ngram,k=2)")),
        replace(FORM, rules=[f"mars(theta={EXAMPLES[0]},where={EXAMPLES[1]})"]),
        replace(FORM, pair="", target="a/b", draft="c&d=e", protect=("none",)),
        replace(FORM, prompt=HOSTILE, rules=("none",), seed=2**40, repeats=0),
        replace(FORM, **PROCESSED),
    ],
)
def test_settings_survive_the_panel_and_a_link(panel: SettingsPanel, form: Settings) -> None:
    link = address_words(form)
    linked, wrong = read_link({**link, "rules": link["rule"]})
    hostile = {"rules": ["vars"], "prompt": [1], "lane": 5}
    for entered in (settings_values(form), linked):
        again = read_settings(parse(panel.value(entered)) | hostile, link["prompt"])
        assert wrong == "" and replace(again, rules=form.rules) == form
        for one, other in zip(again.rules, form.rules, strict=True):
            assert one.config(BUNDLED_PAIR) == other.config(BUNDLED_PAIR)
            drafts = again.of(one).config(BUNDLED_PAIR)
            assert drafts == form.of(other).config(BUNDLED_PAIR)


def test_the_fields_of_a_drafter_are_those_that_it_takes(panel: SettingsPanel) -> None:
    for drafter, shape in product(("model", "ngram", "none", "eagle3"), ("9/4/2", "chain")):
        assert visible(fields_of(panel, {"drafter": drafter, "tree": shape})) & set(
            DRAFTS
        ) == taken(drafter, shape)
    custom = {"target", "draft", "head"}  # displayed once a custom pair is chosen
    assert not custom & visible(fields_of(panel, {})) and custom <= visible(
        fields_of(panel, {"pair": CUSTOM})
    )


def test_a_change_resets_what_follows_from_it_and_nothing_else(
    services: Services, panel: SettingsPanel
) -> None:
    lanes = [{"rule": "strict"}, {"rule": "typical", "theta": 0.5, "epsilon": 0.3}]
    values = {"tree": "3/2/1", "seed": 9, "lanes": lanes}
    after = redrawn(panel, values, changed="rule", lane=1)
    assert (
        lanes_of(after)[1]["epsilon"] == "0.09" and after["tree"] == "3/2/1" and after["seed"] == 9
    )
    assert redrawn(panel, values, changed="pair")["tree"] == "12/6/2"
    for pair, temperature in (
        ("bundled", 1),
        (CATALOG[0].key, 0),
    ):  # of which the second is not in this page's catalog
        custom = SettingsPanel(
            replace(services, catalog=CATALOG), "compare", lambda fields: fields.run(64)
        )
        assert (
            redrawn(custom, {"pair": pair, "temperature": 0.3}, changed="pair")["temperature"]
            == temperature
        )
    assert lanes_of(redrawn(panel, values, changed="rule", lane=7))[1]["epsilon"] == "0.3"
    # of several that were not answered yet none is lost
    changes = ({"changed": "pair"}, {"changed": "rule", "lane": 1})
    after = parse(panel.changed(json.dumps({"values": values}), *changes)[0])
    assert (after["tree"], lanes_of(after)[1]["epsilon"], after["seed"]) == ("12/6/2", "0.09", 9)
    typed = {"changed": "epsilon", "lane": 1}  # since, which stays
    after = parse(panel.changed(json.dumps({"values": values}), *changes, typed)[0])
    assert lanes_of(after)[1]["epsilon"] == "0.3"


def test_a_panel_on_which_nothing_else_depends_is_drawn_as_text(
    services: Services, page: gr.Blocks
) -> None:
    panel = QualityTab(services).panel
    panel.wire()
    event = gr.EventData(None, {"changes": [{"changed": "pair"}, "hostile", 5]})
    updates = page.fns[max(page.fns)].fn(event, json.dumps({"values": {"tree": "3/2/1"}}))
    (drawn,) = updates.values()
    assert (parse(drawn)["pair"], parse(drawn)["tree"]) == ("bundled", "12/6/2")


SPECS = (
    replace(CATALOG[0], theta=PAPER_THETA),
    replace(CATALOG[1], theta=Theta(0.97, "a reason.")),
    CATALOG[2],
)
MEASURED = ((10.0, 9.5), (20.0, 19.0))


def notes_of(panel: SettingsPanel, values: EnteredValues) -> list[str]:
    return [each.text for each in fields_of(panel, values).all(".mars-threshold")]


def waits(panel: SettingsPanel, values: EnteredValues) -> bool:
    return any(
        "data-waits" in each.attributes for each in fields_of(panel, values).all(".mars-threshold")
    )


def test_a_threshold_says_what_it_means_on_the_pair_once_that_is_loaded(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = services_of(store, catalog=SPECS)
    panels = [
        (PromptPanel(services).panel, {"lanes": [{}, {"rule": "mars"}]}),
        (QualityTab(services).panel, {}),
    ]
    for panel, values in panels:
        (note,) = notes_of(panel, values)
        assert note == UNMEASURED and waits(panel, values)
    monkeypatch.setattr(
        ModelPool, "margins", lambda _, spec: MEASURED if spec.key == CATALOG[0].key else ()
    )
    for panel, values in panels:
        (note,) = notes_of(panel, values)
        assert "On this pair θ = 0.9 calls 100 % of 2 positions near ties" in note
        assert not waits(panel, values)
    (study,) = notes_of(panels[1][0], {"parameters": "theta = 0.5, 1"})
    assert study.count("On this pair") == 2
    for wrong in (None, 2, "x", []):  # what is no θ is refused where a run is requested
        assert notes_of(panels[0][0], {"lanes": [{"rule": "mars", "theta": wrong}]}) == [""]


def test_the_theta_of_a_pair_is_its_default_with_a_reason(store: RunStore) -> None:
    services = services_of(store, catalog=SPECS)
    compare, study, key = PromptPanel(services).panel, QualityTab(services).panel, SPECS[1].key
    mars = [{"rule": "strict"}, {"rule": "mars", "theta": 0.9}, {"rule": "mars", "theta": 0.5}]
    after = redrawn(compare, {"pair": key, "lanes": mars}, changed="pair")
    thetas = [lane.get("theta") for lane in lanes_of(after)]
    assert thetas == [None, "0.97", "0.5"]  # what was chosen otherwise stays
    reason = "θ = 0.97 is the default of this pair: a reason. The paper's is 0.9."
    assert [reason in note for note in notes_of(compare, after)] == [True, True]
    first = redrawn(study, {"pair": SPECS[0].key}, changed="seed")
    assert first["parameters"] == "theta = 0.84, 0.9, 0.96"
    after = redrawn(study, first | {"pair": key}, changed="pair")
    assert after["parameters"] == "theta = 0.84, 0.9, 0.96, 0.97"
    chosen = first | {"parameters": "theta = 0.8"}
    assert redrawn(study, chosen, changed="pair")["parameters"] == "theta = 0.8"
    without = redrawn(compare, {"pair": SPECS[2].key, "lanes": mars}, changed="pair")
    assert lanes_of(without)[1]["theta"] == "0.9"


def test_a_pair_of_own_models_keeps_the_numbers_that_were_set(store: RunStore) -> None:
    services = services_of(store, catalog=CATALOG)
    for panel, names in (
        (PromptPanel(services).panel, ("k", "temperature", "tree", "theta")),
        (QualityTab(services).panel, ("k", "temperature", "parameters")),
    ):
        lanes = [{"rule": "strict"}, {"rule": "mars"}]
        first = parse(panel.value({"pair": CATALOG[0].key, "lanes": lanes}))
        for target in ("", "a/b"):
            after = redrawn(panel, first | {"pair": CUSTOM, "target": target}, changed="pair")
            for name in names:
                before, now = ([each, *lanes_of(each)] for each in (first, after))
                assert [each.get(name) for each in now] == [each.get(name) for each in before]
        listed = redrawn(panel, after | {"pair": BUNDLED_PAIR.key}, changed="pair")
        assert any(listed.get(name) != first.get(name) for name in names)


def test_own_files_are_described_before_they_are_loaded(
    panel: SettingsPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline(tmp_path / "hub", monkeypatch)
    file = write_gguf(tmp_path / "tiny.gguf")
    size = words.parameters(tiny_llama().num_parameters())
    folder = tiny_checkpoint("llama", tmp_path / "folder")
    of_file = (
        f"llama, GGUF F32, {words.memory(file.stat().st_size)}, {size} parameters, fast layers"
    )
    of_folder = "LlamaForCausalLM, safetensors F32, "
    for target, draft, facts in (
        (file, "", [f"target: {of_file}"]),
        (file, file, [f"target: {of_file}", f"draft: {of_file}"]),
        (folder, "", [f"target: {of_folder}"]),
        ("owner/model", file, ["target: on the Hub, which does not answer", f"draft: {of_file}"]),
    ):
        values = {"pair": CUSTOM, "target": str(target), "draft": str(draft)}
        shown = fields_of(panel, values)
        (note,) = shown.all(".mars-note")
        assert all(fact in note.text for fact in facts) and "speed known after" in note.text
        assert ("needs " in note.text and ": fits" in note.text) == (target != "owner/model")
        (recent,) = (each for each in shown.every if "data-recent" in each.attributes)
        assert recent.attributes["data-recent"] == str(target)
    values = {"pair": CUSTOM, "target": str(file)}
    monkeypatch.setattr("gguf.GGUFReader", None)  # a file that did not change is not read again
    assert of_file in fields_of(panel, values).all(".mars-note")[0].text
    file.write_bytes(b"no model")
    monkeypatch.undo()
    offline(tmp_path / "hub", monkeypatch)
    (note,) = fields_of(panel, values).all(".mars-note")
    assert f"{file} is damaged, or no GGUF file" in note.text
    (note,) = fields_of(panel, {"pair": CUSTOM, "target": f"{file}.gguf"}).all(".mars-note")
    assert f"There is no file or folder {file}.gguf" in note.text and "needs" not in note.text


RECORDS: dict[str, Any] = {  # as the Hub answers /api/models/NAME
    "a/whole": {
        "config": {"architectures": ["LlamaForCausalLM"]},
        "safetensors": {"parameters": {"BF16": 134_515_008}, "total": 134_515_008},
        "siblings": [
            {"rfilename": "model.safetensors", "size": 269_060_552},
            {"rfilename": "consolidated.safetensors", "size": 269_060_552},
            {"rfilename": "onnx/model.safetensors", "size": 1},
        ],
    },
    "a/files": {
        "gguf": {"architecture": "qwen2", "total": 1},
        "siblings": [
            {"rfilename": f"{name}.gguf", "size": size}
            for name, size in (("q8", 531_000_000), ("q4", 398_000_000))
        ],
    },
    "a/hostile": {"config": [], "siblings": [{"rfilename": 3}], "safetensors": {"parameters": 7}},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """What is asked of a Hub that has RECORDS and nothing else."""
    paths = list[str]()

    class Hub(Answers):
        def do_GET(self) -> None:
            paths.append(self.path)
            name = self.path.partition("?")[0].removeprefix("/api/models/")
            self.send_response(200 if name in RECORDS else 404)
            if name not in RECORDS:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.end_headers()
            self.wfile.write(json.dumps({"id": name, **RECORDS.get(name, {})}).encode())

    with answering(Hub) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        yield paths


def test_a_model_of_the_hub_is_described_without_being_fetched(
    panel: SettingsPanel, asked: list[str], tmp_path: Path
) -> None:
    def note(target: str, draft: str = "") -> Element:
        return fields_of(panel, {"pair": CUSTOM, "target": target, "draft": draft})

    described = note("a/whole", "a/files/q4.gguf").all(".mars-note")[0].text
    assert "target: LlamaForCausalLM, safetensors BF16, 269 MB to fetch, 135" in described
    assert "draft: qwen2, GGUF, 398 MB to fetch, fast layers" in described
    assert all(path.startswith("/api/models/") for path in asked)
    files = note("a/whole", "a/files")
    chips = [each for each in files.all("button") if "data-into" in each.attributes]
    assert [each.text for each in chips] == ["q4.gguf, 398 MB", "q8.gguf, 531 MB"]
    assert chips[0].attributes["data-fill"] == "a/files/q4.gguf"
    assert {each.attributes["data-into"] for each in chips} == {"draft"}
    for name, sentence in (
        ("a/files/q5.gguf", "a/files has no file q5.gguf: choose one of q4.gguf, q8.gguf."),
        ("a/whole/q5.gguf", "a/whole has no file q5.gguf: it has no GGUF files."),
        ("a/nothing", "There is no public model a/nothing on the Hugging Face Hub"),
        ("a/hostile", "target: on the Hub, which does not answer"),
    ):
        assert sentence in note(name).all(".mars-note")[0].text
    fetched = hub_snapshot(tmp_path / "hub", "b/whole")
    tiny_checkpoint("llama", fetched)
    asked.clear()
    assert "safetensors F32" in note("b/whole").all(".mars-note")[0].text and not asked


def test_a_dropped_file_is_found_by_name_and_size(
    panel: SettingsPanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for folder, content in (("Downloads/a", b"123"), ("Documents", b"12345"), (".hidden", b"12")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a model.gguf").write_bytes(content)
    (tmp_path / "Downloads" / "a model.gguf").symlink_to("nothing")
    tiny_checkpoint("llama", tmp_path / "models" / "tiny")
    for size, name, path in (
        (5, "a model.gguf", "Documents/a model.gguf"),
        (3, "a model.gguf", "Downloads/a/a model.gguf"),
        (4096, "tiny", "models/tiny"),
    ):
        after = redrawn(panel, {"pair": CUSTOM}, changed=f"dropped draft {size} {name}")
        assert after["draft"] == str(tmp_path / path)
    for size, name in ((2, "a model.gguf"), (5, "../a model.gguf"), (5, "x" * 1000)):
        after = redrawn(panel, {"pair": CUSTOM}, changed=f"dropped target {size} {name}")
        assert after["target"] == name[:255]
    for changed in ("dropped", "dropped target", "dropped prompt 1 x", "dropped target -1 x"):
        assert not redrawn(panel, {"pair": CUSTOM}, changed=changed)["target"]


def test_a_folder_without_a_model_is_browsed(panel: SettingsPanel, tmp_path: Path) -> None:
    for name in ("b.gguf", "text.txt", ".hidden.gguf", "<b>.gguf"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    shown = fields_of(panel, {"pair": CUSTOM, "draft": str(tmp_path)})
    chips = [each for each in shown.all("button") if "data-into" in each.attributes]
    assert [each.text for each in chips] == ["↑", "models/", "<b>.gguf", "b.gguf"]
    assert {each.attributes["data-into"] for each in chips} == {"draft"}
    assert chips[3].attributes["data-fill"] == str(tmp_path / "b.gguf")


def test_the_form_says_what_other_models_changed_and_offers_what_they_can(
    panel: SettingsPanel,
) -> None:
    def after(values: EnteredValues, changed: str) -> dict[str, Any]:
        value, answered = panel.changed(json.dumps({"values": values}), {"changed": changed})
        assert answered["changes"] in read_panel(json.loads(value)["html"]).text
        return parse(value) | {"changes": answered["changes"]}

    own = after(parse(panel.value({})) | {"pair": CUSTOM}, "pair")
    assert own["drafter"] == "suffix"  # no draft model and no head is named
    assert "Drafts from " in own["changes"] and "what can be done" in own["changes"]
    named = after(own | {"target": "a/b", "draft": "c/d"}, "draft")
    assert named["drafter"] == "model" and "→ Draft model" in named["changes"]
    assert after(named, "target")["changes"] == named["changes"]
    for chosen in ("ngram", "suffix"):  # by the visitor: models that are named later leave it
        for models in (own, named):
            other = after(models | {"drafter": chosen, "draft": "e/f"}, "draft")
            assert other["drafter"] == (chosen if models["drafter"] != chosen else "model")
    for values, offers in ((own, False), (named, True)):  # a lane's own drafts are of named models
        lane = fields_of(panel, values | {"lanes": [{}]}).one("section")
        drafters = [each.attributes.get("value") for each in lane.all("option")]
        assert "suffix" in drafters and ("model" in drafters) is offers


def test_a_study_has_a_line_for_every_parameter_of_its_rules(services: Services) -> None:
    panel = QualityTab(services).panel

    def lines(rules: list[str], typed: str) -> str:
        values = {"rules": rules, "parameters": typed}
        return str(redrawn(panel, values, changed="rules")["parameters"])

    assert lines(["block"], "theta = 1") == ""
    assert lines(["mars", "entropy"], "theta = 0.5") == "theta = 0.5\nalpha = 0.4\nlimit = 0.95"
    assert lines(["entropy"], "theta = 1\nlimit = 0.9").endswith(", 0.8\nlimit = 0.9")
    assert lines(["mars"], "nope = 1").endswith("\nnope = 1")  # which is refused, and not lost
    assert lines(["mars"], "theta") == "theta"
    varied = {name: rule for name, rule in RULES.items() if rule.parameters}
    for name, rule in varied.items():
        values = redrawn(panel, {"rules": [name]}, changed="rules")
        form = read_study(json.dumps({"values": values}))
        plan = form.plan(services.catalog[0])
        assert form.study().rules == (name,) and form.settings().top_k == 0
        for each in rule.parameters:
            chosen = {lane.rule.parameters.get(each.name) for lane in plan.lanes} - {None}
            assert each.default in chosen


def test_the_questions_of_a_pair_are_replaced_by_those_of_another_and_typed_ones_stay(
    store: RunStore,
) -> None:
    study = QualityTab(services_of(store, catalog=CATALOG)).panel
    first = redrawn(study, {}, changed="seed")
    assert (first["suite"], first["drafter"]) == ("prompts", "eagle3") and "Paris" in first[
        "references"
    ]
    paris = first["prompts"]
    for prompts, begins, answers in (
        (paris, held_out()[0].question, 7),
        ("My own.", "My own.", 0),
        (f"{paris}\nMy own.", paris, 7),
    ):
        values = first | {"pair": "bundled", "prompts": prompts}
        after = redrawn(study, values, changed="pair")
        assert after["drafter"] == "model" and after["suite"] == "prompts"
        assert after["prompts"].startswith(begins)
        for each in (after, values):  # also before the form was drawn again
            suite = read_study(json.dumps({"values": each})).chosen_suite()
            assert sum(len(item.references) for item in suite.items) == answers
        assert (after["references"] == "") == (answers == 0)


@pytest.mark.parametrize("tab", [PromptPanel, QualityTab, VotesTab])
def test_every_tab_that_plans_runs_has_the_fields_of_the_table_and_processors_are_folded(
    services: Services, tab: Any
) -> None:
    """A new setting with a section gets its field by that."""
    html = fields_of(tab(services).panel, {})
    names = {each.attributes.get("data-name") for each in html.every}
    declared = {name for name, kind in KINDS.items() if kind.section}
    left = {PromptPanel: set[str](), QualityTab: set[str](), VotesTab: {"repeats"}}
    assert declared - names <= left[tab]
    folded = [each for each in html.all("details") if each.all("summary")[0].text[:4] == "More"]
    inside = {each.attributes.get("data-name") for part in folded for each in part.every}
    assert {*PROCESSORS} <= inside and "open" not in folded[0].attributes


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"pair": CUSTOM}, "The target model is empty"),
        ({"lanes": []}, "0 rules were chosen"),
        ({"k": None}, "k is empty"),
        ({"thinking": "perhaps"}, "thinking is 'perhaps'"),
        ({"lanes": [{"rule": "mars", "theta": None}]}, "theta is empty"),
    ],
)
def test_what_only_a_form_can_lack_is_one_sentence(values: EnteredValues, words: str) -> None:
    """Whatever else is wrong, the table of settings refuses."""
    with pytest.raises(ValueError, match=words):
        read_settings(settings_values(FORM) | values, "x")


@pytest.mark.parametrize(
    "sent", [None, "", "{", "[]", '{"values": 3}', "[" * 100_000, '{"html": "x"}']
)
def test_what_is_no_settings_is_empty(sent: object) -> None:
    assert parse(sent) == {}


def test_values_of_any_type_become_texts_and_numbers_or_nothing(panel: SettingsPanel) -> None:
    wild: list[Any] = [None, True, -1e400, [], {"a": 1}, HOSTILE, 10**400]
    names = {*KINDS, *settings_values(FORM), "at", "fresh"}
    for value in wild:
        lane = {"rule": value, "k": value, "drafter": value}
        values = parse(json.dumps({"values": dict.fromkeys(names, value) | {"lanes": [lane]}}))
        with pytest.raises(ValueError, match=r"\.$"):
            read_settings(values, "x")
        assert "<script" not in json.loads(panel.value(values))["html"]
    texts = {"system": HOSTILE, "target": HOSTILE}  # escaped, and unchanged to the letter
    inputs = {
        each.attributes.get("data-name"): each.attributes
        for each in fields_of(panel, texts).all("input")
    }
    assert (
        texts.items() <= parse(panel.value(texts)).items() and inputs["target"]["value"] == HOSTILE
    )


def preset(key: str) -> Settings:
    return read_settings(settings_values(FORM) | dict(PRESETS[key].fields), "x")


def test_the_papers_setting_is_the_papers() -> None:
    paper = preset("paper")
    assert (paper.temperature, paper.k, paper.draft_mode) == (1.0, 7, "greedy")
    assert PRESETS["paper"].rules == (("strict", {}), ("mars", {"theta": 0.9}))
    eagle = {
        "total_token": 60,
        "depth": 7,
        "top_k": 10,
    }  # of EAGLE's code: with the root, and expansions after the first
    shape = TreeShape(eagle["total_token"] - 1, eagle["depth"] + 1, eagle["top_k"])
    assert preset("paper-tree").tree == shape == TreeShape()
    assert f"{shape.tokens} tokens, depth {shape.depth}" in PRESETS["paper-tree"].title


def test_a_prompt_beyond_the_bundled_pairs_words_leads_to_the_other_pair_with_one_click(
    services: Services,
) -> None:
    prompt_panel = PromptPanel(replace(services, catalog=CATALOG))
    bundled, first = (
        prompt_panel.panel.value({"pair": pair.key}) for pair in (BUNDLED_PAIR, CATALOG[0])
    )
    for value, prompt, label in (
        (
            bundled,
            "What is the capital of France?",
            "This pair never read “capital”, “France”: ask SmolLM2 135M instead",
        ),
        (
            bundled,
            f"Anna’s {HOSTILE} Lima, Quito, Kyiv",
            "This pair never read “Anna’s”, “textarea”, “script” …: ask",
        ),
        (bundled, BUNDLED_PAIR.prompts[1], ""),
        (first, "What is the capital of France?", ""),
    ):
        button = prompt_panel.about(prompt, value)[prompt_panel.other]
        assert button["value"].startswith(label) and button["visible"] is bool(label)
    switched_updates = prompt_panel.switch("What is the capital of France?", bundled)
    switched = parse(switched_updates[prompt_panel.panel.component])
    assert (switched["pair"], switched["drafter"], switched["temperature"]) == (
        CATALOG[0].key,
        "eagle3",
        0,
    )
    for pairs, offers in ((services.catalog, True), ((BUNDLED_PAIR,), False)):
        alone = PromptPanel(replace(services, catalog=pairs))
        assert alone.about("capital", bundled)[alone.other]["visible"] is offers


def read_value(lane: EnteredValues, name: str) -> object:
    """None: refused, or not given."""
    try:
        return read_lane_values(lane).rule.parameters.get(name)
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("given", "typed", "read"),
    [(0.9, "0.9", 0.9), ("0.50", "0.50", 0.5), (1, "1", 1), (None, "", None), ("1 - p1",) * 3],
)
def test_a_parameter_is_a_number_or_an_expression_in_one_field(
    panel: SettingsPanel, given: object, typed: str, read: object
) -> None:
    lanes = [{"rule": "strict"}, {"rule": "mars", "theta": given, "where": given}]
    after = lanes_of(redrawn(panel, {"lanes": lanes}, changed="theta", lane=1))[1]
    assert after["theta"] == after["where"] == typed and read_value(after, "theta") == read


def test_what_is_wrong_with_a_parameter_stands_below_it(panel: SettingsPanel) -> None:
    for theta, says in (("x", "'x' is unknown"), ("2", "takes 0 to 1"), ("", ""), ("p1", "")):
        lanes = [{"rule": "strict"}, {"rule": "mars", "theta": theta}]
        html = read_panel(json.loads(panel.value({"lanes": lanes}))["html"])
        by_id = {each.attributes.get("id"): each for each in html.every}
        field = by_id["rule-1-parameter-theta-input"]
        assert ("aria-invalid" in field.attributes) is bool(says)
        assert says in by_id[field.attributes["aria-describedby"]].text


def test_the_address_of_a_server_is_kept_while_another_rule_is_looked_at(
    panel: SettingsPanel,
) -> None:
    told = {"server": "http://one", "server_model": "m", "answer": "a"}
    served = {"lanes": [{"rule": "strict"}, {"rule": "server", **told}]}
    lane = lanes_of(redrawn(panel, served, changed="rule", lane=1))[1]
    assert told.items() <= lane.items()
    other = redrawn(panel, {"lanes": [{}, lane | {"rule": "mars"}]}, changed="rule", lane=1)
    assert told.items() <= lanes_of(other)[1].items()
    assert read_lane_values(lanes_of(other)[1]).server == ""


@pytest.mark.parametrize(
    ("temperature", "rules", "matters"),
    [
        (0, ("strict", "mars"), False),
        (0, ("none", "mars-gap"), False),
        (0, ("strict", "random"), True),
        (0, ("strict", "ensemble"), True),
        (0.5, ("strict", "mars"), True),
    ],
)
def test_a_new_seed_is_offered_only_where_it_can_write_another_text(
    services: Services, temperature: float, rules: tuple[str, ...], matters: bool
) -> None:
    values = {"temperature": temperature, "lanes": [{"rule": rule} for rule in rules]}
    assert seeded(values) is matters
    panel = PromptPanel(services).panel
    html = read_panel(json.loads(panel.value(values))["html"])
    assert html.one(".mars-drawer").attributes["data-seeded"] == str(matters).lower()
