"""The command that repeats a comparison is read by the real parser and requests exactly the
same."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.commands import OTHER_SAMPLER, PROGRAM, comparison_commands
from mars_core.arguments import read_configs, read_spec
from mars_core.models import BUNDLED_PAIR, CATALOG, ModelPool, Pair
from mars_core.session import run_config
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
from mars_playground.__main__ import parser
from tests.eagle_pair import eagle_pair
from tests.pairs import tiny_pair

PROMPT = PromptConfig(
    '-it\'s "5" $HOME\n`x` \\ ünï', system="Be brief.", chat=False, stop=("###", "-x y")
)
MODEL = DrafterConfig("model", k=3, mode=DraftMode.SAMPLED)


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


def configs_of(command: str, pair: Pair) -> list[RunConfig]:
    """What the command line makes of the command; its models must be those of the pair."""
    words = shlex.split(command)
    assert words[0] == PROGRAM
    options = parser().parse_args(words[1:])
    spec = read_spec(options)
    assert spec.target.name == pair.target_ref.name and (options.device, options.dtype) == (
        "cpu",
        "float32",
    )
    return read_configs(options, pair)


def same(actual: Sequence[RunConfig], wanted: Sequence[RunConfig]) -> bool:
    return sorted(map(repr, actual)) == sorted(map(repr, wanted))


def test_one_command_repeats_runs_that_differ_in_their_rule(pair: Pair) -> None:
    configs = [
        config(pair, "strict"),
        config(pair, theta=0.84),
        config(pair, "lenience", lenience=0.1),
    ]
    command = comparison_commands(configs)
    assert command.startswith(f"{PROGRAM} compare ") and same(configs_of(command, pair), configs)


def test_of_runs_that_an_earlier_sampler_drew_the_commands_say_that_the_text_will_be_another(
    pair: Pair,
) -> None:
    """Not where nothing is drawn, nor of runs of a server."""
    now = config(pair)
    assert now.environment["sampler"] == SAMPLER and OTHER_SAMPLER not in comparison_commands([now])
    for sampler in ({}, {"sampler": "another"}):
        others = {
            name: value for name, value in now.environment.items() if name != "sampler"
        } | sampler
        earlier = replace(now, environment=others)
        cold = replace(earlier, sampling=Sampling(0.0))
        note, command = comparison_commands([now, earlier]).split("\n", 1)
        assert note == f"# {OTHER_SAMPLER}" and command.startswith(PROGRAM)
        assert comparison_commands([cold]).startswith(PROGRAM)
        assert not replace(earlier, environment={"server": "http://host"}).draws_otherwise


def test_the_target_alone_is_a_rule_of_the_command(pair: Pair) -> None:
    configs = [config(pair, "none", DrafterConfig("none", k=0)), config(pair, "strict")]
    repeated = configs_of(comparison_commands(configs), pair)
    assert [each.drafter.kind for each in repeated] == ["model", "none"]
    target = replace(repeated[1], drafter=configs[0].drafter)
    assert same([repeated[0], target], configs)


def test_runs_that_one_command_cannot_tell_apart_have_one_each(pair: Pair) -> None:
    for configs in (
        [config(pair, theta=0.8), config(pair, theta=0.9)],
        [config(pair, "strict"), replace(config(pair, "block"), seed=3)],
        [config(pair, "strict"), config(pair, "block", replace(MODEL, k=7))],
    ):
        commands = _commands(comparison_commands(configs))
        assert [configs_of(command, pair) for command in commands] == [[each] for each in configs]


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
    repeated = configs_of(comparison_commands([wanted]), eagle)[0]
    assert (
        replace(
            repeated,
            drafter=replace(
                repeated.drafter, k=wanted.drafter.k if drafter.tree else repeated.drafter.k
            ),
        )
        == wanted
    )


@pytest.mark.parametrize("spec", CATALOG, ids=[spec.key for spec in CATALOG])
def test_a_pair_of_the_catalog_is_named_by_its_key(spec: object, pair: Pair) -> None:
    named = replace(config(pair), target=spec.target, drafter=replace(MODEL, model=spec.draft))  # type: ignore[attr-defined]
    assert f"--pair={spec.key}" in comparison_commands([named])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("thinking", "option"), [(True, "--thinking=on"), (False, "--thinking=off"), (None, None)]
)
def test_thinking_is_requested_as_it_was(
    pair: Pair, thinking: bool | None, option: str | None
) -> None:
    wanted = replace(config(pair), prompt=PromptConfig("hi", thinking=thinking))
    command = comparison_commands([wanted])
    assert configs_of(command, pair) == [wanted]
    assert ("--thinking" in command) is (option is not None) and (option or "") in command


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
    for each in (runs, runs[1:]):
        command = comparison_commands(each)
        assert "--pair=bundled" in command and ("--classifier" in command) is named
        assert ("--classifier=/a/folder" in command) is named


def test_what_no_command_can_say_is_a_comment(pair: Pair) -> None:
    for odd in (
        replace(config(pair), prompt=PromptConfig("-")),
        replace(config(pair), prompt=PromptConfig("a\ud800")),
        replace(config(pair), prefix=(1, 2)),
    ):
        assert comparison_commands([odd]).startswith("# ")


def _commands(text: str) -> list[str]:
    """The commands of a text; a quoted prompt may have lines of its own."""
    first, *others = text.split(f"\n{PROGRAM}")
    return [first, *(PROGRAM + other for other in others)]


def test_further_processors_come_back(pair: Pair) -> None:
    words = ((" a=b\n'", -1.5), ("[4, 5]", -math.inf))
    processors = Processors(0.1, 0.9, 1.2, 0.3, -0.2, 3, words, ("digits", "* '"))
    wanted = replace(config(pair), sampling=Sampling(1.0, processors=processors))
    command = comparison_commands([wanted])
    assert same(configs_of(command, pair), [wanted]) and "--no-repeat-ngram-size=3" in command


@pytest.mark.parametrize(("protect", "option"), [((), " --protect=none"), (("special",), "")])
def test_runs_without_protected_tokens_are_repeated_without_them(
    pair: Pair, protect: tuple[str, ...], option: str
) -> None:
    wanted = replace(config(pair), sampling=Sampling(1.0, processors=Processors(protect=protect)))
    command = comparison_commands([wanted])
    assert same(configs_of(command, pair), [wanted])
    assert (option in command) and ("--protect" in command) is bool(option)


def test_paths_do_not_matter(tmp_path: Path, pair: Pair) -> None:
    odd = replace(config(pair), target=replace(pair.target_ref, name=str(tmp_path / "a b'c")))
    assert shlex.quote(f"--target={odd.target.name}") in comparison_commands([odd])


def test_of_a_pair_with_a_separate_theta_the_command_names_that_of_the_run(pair: Pair) -> None:
    spec = CATALOG[0]
    assert spec.theta.pair_value not in (None, 0.9)
    requested = replace(config(pair, drafter=DrafterConfig("ngram")), target=spec.target)
    assert "--set=theta=0.9 " in comparison_commands([requested])
