"""The file of settings that a report shows repeats exactly the runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mars_core.models import BUNDLED_PAIR, CATALOG, ModelPool, Pair, PairSpec
from mars_core.session import Session, run_config
from mars_core.settings import Settings
from mars_core.settings.recorded import CONTINUED, OTHER_SAMPLER, cautions, documents
from mars_core.types import (
    SAMPLER,
    DrafterConfig,
    DraftMode,
    Processors,
    PromptConfig,
    RuleConfig,
    RunConfig,
    Sampling,
    TreeShape,
)
from tests.eagle_pair import eagle_pair
from tests.pairs import tiny_pair

PROMPT = PromptConfig(
    '-it\'s "5" $HOME\n`x` \\ ünï\ud800', system="Be brief.", chat=False, stop=("###", "-x\ny")
)
MODEL = DrafterConfig("model", k=3, mode=DraftMode.SAMPLED)
NONE = DrafterConfig("none", k=0)
WORDS = Processors(0.1, 0.9, 1.2, 0.3, -0.2, 3, ((" a=b\n'", -1.5), ("[4, 5]", -math.inf)), ())


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return ModelPool(device="cpu", dtype="float32").get(tiny_pair(tmp_path_factory.mktemp("pair")))


@pytest.fixture(scope="module")
def eagle(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return ModelPool(device="cpu", dtype="float32").get(
        eagle_pair(tmp_path_factory.mktemp("eagle"))
    )


def config(
    pair: Pair, rule: str = "mars", drafter: DrafterConfig = MODEL, **parameters: float
) -> RunConfig:
    return run_config(
        pair,
        prompt=PROMPT,
        rule=RuleConfig(rule, parameters),
        drafter=drafter,
        sampling=Sampling(0.7, 11, 0.93),
        max_new_tokens=33,
        seed=12345,
    )


def repeated(configs: Sequence[RunConfig], pair: Pair) -> list[RunConfig]:
    """What the files make, each written and read."""
    read = [Settings(**json.loads(json.dumps(each))) for each in documents(configs)]
    assert all((each.device, each.dtype) == ("cpu", "float32") for each in read)
    assert {each.spec().target.name for each in read} == {pair.target_ref.name}
    return [each for settings in read for each in Session(pair).configs(settings)]


Runs = Callable[[Pair], list[RunConfig]]
ALIKE: dict[str, Runs] = {
    "rules": lambda pair: [
        config(pair, "strict"),
        config(pair, theta=0.84),
        config(pair, "lenience", lenience=0.1234567),
    ],
    "one rule twice": lambda pair: [config(pair, theta=0.8), config(pair, theta=0.9)],
    "the target alone": lambda pair: [config(pair, "none", NONE), config(pair, "strict")],
    "drafts of their own": lambda pair: [
        config(pair, "strict"),
        config(pair, "block", replace(MODEL, k=7)),
        config(pair, "mars", DrafterConfig("ngram", k=3), theta=0.5),
        config(pair, "mars", replace(MODEL, mode=DraftMode.COUPLED), theta=0.5),
    ],
    "processors": lambda pair: [
        replace(config(pair, theta=0.9), sampling=Sampling(1.0, processors=WORDS))
    ],
    "thinking": lambda pair: [
        replace(config(pair, "strict"), prompt=PromptConfig("-", thinking=False))
    ],
    "a beginning": lambda pair: [replace(config(pair, "strict"), prefix=(1, 2))],
}


@pytest.mark.parametrize("name", ALIKE)
def test_one_file_repeats_runs_that_differ_in_rules_and_drafts(pair: Pair, name: str) -> None:
    configs = ALIKE[name](pair)
    assert repeated(configs, pair) == configs and len(documents(configs)) == 1


@pytest.mark.parametrize(
    "drafter",
    [
        DrafterConfig("eagle3", tree=TreeShape(13, 4, 3)),
        DrafterConfig("eagle3", k=4),
        DrafterConfig("ngram", k=6),
    ],
)
def test_every_drafter_comes_back(eagle: Pair, drafter: DrafterConfig) -> None:
    wanted = config(eagle, "mars", drafter, theta=0.9)
    (again,) = repeated([wanted], eagle)
    if drafter.tree:  # which has no K
        again = replace(again, drafter=replace(again.drafter, k=drafter.k))
    assert again == wanted


def test_runs_that_differ_otherwise_have_a_file_each(pair: Pair) -> None:
    configs = [config(pair, "strict"), replace(config(pair, "block"), seed=3)]
    assert len(documents(configs)) == 2 and repeated(configs, pair) == configs


@pytest.mark.parametrize("spec", CATALOG, ids=[spec.key for spec in CATALOG])
def test_a_pair_of_the_catalog_is_named_by_its_key(spec: PairSpec, pair: Pair) -> None:
    named = replace(config(pair), target=spec.target, drafter=replace(MODEL, model=spec.draft))
    (document,) = documents([named])
    assert document["pair"] == spec.key and "target" not in document


@pytest.mark.parametrize(("name", "named"), [("bundled/classifier", False), ("/a/folder", True)])
def test_a_classifier_is_named_where_it_is_not_the_pair_s(
    pair: Pair, name: str, named: bool
) -> None:
    draft = replace(MODEL, model=BUNDLED_PAIR.draft)
    runs = [
        replace(config(pair, rule), target=BUNDLED_PAIR.target, drafter=draft)
        for rule in ("strict", "judge")
    ]
    runs[1].environment["classifier"] = f"{name}@local:0"
    (document,) = documents(runs)
    assert (document["pair"], document.get("classifier")) == (
        "bundled",
        "/a/folder" if named else None,
    )


def test_what_a_file_cannot_repeat_is_said(pair: Pair) -> None:
    """Not where nothing is drawn, nor of runs of a server."""
    now = config(pair)
    assert now.environment["sampler"] == SAMPLER and cautions([now]) == []
    others = {name: value for name, value in now.environment.items() if name != "sampler"}
    for sampler in ({}, {"sampler": "another"}):
        earlier = replace(now, environment=others | sampler)
        assert cautions([now, earlier]) == [OTHER_SAMPLER]
        assert cautions([replace(earlier, sampling=Sampling(0.0))]) == []
        assert not replace(earlier, environment={"server": "http://host"}).draws_otherwise
    assert cautions([replace(now, spent=(0.1, 0.0))]) == [CONTINUED]
