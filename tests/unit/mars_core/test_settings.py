"""The table of settings: what each refuses, in one sentence that is the same wherever it is said,
and what is said survives every way of saying it."""

from __future__ import annotations

import json
import math
import re
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation.harness.options import OptionError, read_options
from mars_core.settings import KINDS, Drafts, Settings, read_lane
from mars_core.settings.command_line import add_commands, read_settings
from mars_core.settings.recorded import plain
from mars_core.types import TreeShape
from mars_playground.comparison import compare

WORDS = "it must be a text of 1 to 100,000 characters."
REFUSED: tuple[tuple[str, Any, str], ...] = (  # setting, value, sentence
    ("k", 0, "k is 0; it must be a whole number from 1 to 64."),
    ("k", 65, "k is 65; it must be a whole number from 1 to 64."),
    ("k", "2.5", "k is '2.5'; it must be a whole number from 1 to 64."),
    ("draft_mode", "bold", "draft_mode is 'bold'; it must be one of coupled, greedy, sampled."),
    ("tree", "1/2", "tree is '1/2'; it takes tokens/depth/top-k, e.g. 59/8/10, or chain."),
    ("tree", "0/3/3", "tokens of tree is '0'; it must be a whole number from 1 to 256."),
    ("tree", "5/33/3", "depth of tree is '33'; it must be a whole number from 1 to 32."),
    ("tree", "5/3/65", "top_k of tree is '65'; it must be a whole number from 1 to 64."),
    ("temperature", -0.1, "temperature is -0.1; it must be a number from 0 to 100."),
    ("temperature", math.nan, "temperature is nan; it must be a number from 0 to 100."),
    ("temperature", 10**400, "temperature is 1.00000e+400; it must be a number from 0 to 100."),
    ("temperature", "hot", "temperature is 'hot'; it must be a number from 0 to 100."),
    ("top_k", -1, "top_k is -1; it must be a whole number from 0 on."),
    ("top_p", 0.0, "top_p is 0; it must be a number from 1e-06 to 1."),
    (
        "logit_bias",
        "cat",
        "logit_bias is 'cat'; it must be WORD=VALUE, the value a number, or -inf.",
    ),
    (
        "logit_bias",
        "a=1e9",
        "The bias of 'a' is 1e+09; it must be -1e+30 to 1000, or -inf, which bans the word.",
    ),
    ("stop", "", f"A value of stop is ''; {WORDS}"),
    ("stop", [1], f"A value of stop is 1; {WORDS}"),
    ("stop", {}, "stop is {}; it must be a list of at most 1,000 texts."),
    ("protect", ["x"] * 17, "it must be a list of at most 16 texts."),
    ("prefix", 0, "prefix is 0; it must be a list of at most 100,000 token ids."),
    ("prefix", ["a"], "An id of prefix is 'a'; it must be a whole number from 0 on."),
    ("repeats", 21, "repeats is 21; it must be a whole number from 0 to 20."),
    ("seed", 10**400, "seed is 1.00000e+400; it must be a whole number from 0 to"),
    ("seed", "", "seed is empty; it must be a whole number from 0 to 9007199254740991."),
    ("seed", True, "seed is True; it must be a whole number from 0 to 9007199254740991."),
    ("max_new_tokens", 0, "max_new_tokens is 0; it must be a whole number from 1 to 1000000."),
    ("chat", "maybe", "chat is 'maybe'; it must be true or false (on or off)."),
    ("thinking", 1, "thinking is 1; it must be true or false (on or off)."),
    ("system", 5, "system is 5; it must be text."),
    ("rules", "mars(theta=3)", "theta is 3; rule mars takes 0 to 1."),
    ("rules", "mars(theta=1,theta=1)", "each parameter can have one value."),
    ("rules", "lucky", "The rule is 'lucky'; it must be one of none, strict,"),
    ("rules", {"rule": "mars", "k": 5}, 'as an object it has "rule" and "parameters".'),
    ("rules", {"rule": "server", "url": "x"}, 'as an object it has "rule" and "parameters".'),
    ("rules", {"rule": "server", "server": 7}, "server is 7; it must be text."),
    ("server", 7, "server is 7; it must be a list of at most 1,000 texts."),
    ("server_model", [7], "A value of server_model is 7; it must be a text of 0 to 100,000"),
    ("rules", [7], "A rule is 7; write it like"),
    ("rules", "mars(theta=0.9", "A rule is 'mars(theta=0.9'; write it like"),
    ("rules", "mars(gap=1)", "Rule mars has no parameter gap; its parameters: theta"),
    ("rules", ["strict"] * 257, "make 257 lanes; 256 are the most."),
)


def read(*words: str) -> Settings:
    parser = ArgumentParser(exit_on_error=False)
    add_commands(parser.add_subparsers(dest="command"))
    return read_settings(parser.parse_args(words))


def written(folder: Path, **values: Any) -> str:
    """The option of a file with these settings."""
    file = folder / "settings.json"
    file.write_text(json.dumps(values), "utf-8")
    return f"--config={file}"


HARNESS = {"k", "draft_mode", "tree", "seed", "max_new_tokens"}


@pytest.mark.parametrize(("name", "value", "sentence"), REFUSED)
def test_a_wrong_value_has_one_sentence_wherever_it_is_given(
    name: str, value: Any, sentence: str, tmp_path: Path
) -> None:
    ways: list[Callable[[], object]] = [
        lambda: Settings(**{name: value}),
        lambda: compare("x", **{name: value}),
    ]
    if not (isinstance(value, float) and math.isnan(value)):
        ways.append(lambda: read("run", written(tmp_path, prompt="x", **{name: value})))
    if name in HARNESS:
        ways.append(lambda: read_options({name: value}))
    for way in ways:
        with pytest.raises((ValueError, OptionError)) as refused:
            way()
        assert sentence in str(refused.value) and "\n" not in str(refused.value)
    if isinstance(value, str) and name not in ("chat", "rules", "draft_mode") and value:
        flag = "--rule" if name == "rules" else f"--{name.replace('_', '-')}"
        with pytest.raises(ValueError, match=re.escape(sentence)):
            read("run", "--prompt=x", f"{flag}={value}")


SAID: Mapping[str, Any] = {
    "prompt": "Say: \n'x'",
    "rules": [
        "strict",
        "mars(theta=0.123456789,k=7,draft_mode=coupled)",
        "typical(where=thinking)",
    ],
    "system": "Be brief.",
    "chat": False,
    "thinking": False,
    "stop": ["\n", "b"],
    "prefix": [1, 2],
    "drafter": "eagle3:./head",
    "tree": "12/6/2",
    "temperature": 0.7,
    "logit_bias": [" a=b=-1.5", "[4, 5]=-inf"],
    "protect": ["none"],
    "k": 3,
}


def test_settings_are_read_as_they_are_written() -> None:
    settings = Settings(**SAID)
    assert plain(settings) == SAID and Settings(**plain(settings)) == settings
    assert Settings(**json.loads(json.dumps(plain(settings)))) == settings
    assert settings.tree == TreeShape(12, 6, 2) and settings.protect == ()
    assert plain(Settings()) == {}
    for name, kind in KINDS.items():  # as a form and an address have it
        if name not in ("stop", "rules", "logit_bias", "protect", "prefix"):
            value = getattr(settings, name)
            text = kind.text(value) if value is not None else ""
            assert not text or kind.read(text, name) == value


A, B = "http://a:8000", "https://b.example/v1"
TWO = {"server": [A, B], "server_model": ["x", "y"]}


def test_servers_are_lanes_however_they_are_said(tmp_path: Path) -> None:
    """Also as files of earlier versions say them: one server, whose lane need not be named."""
    first = {"rule": "server", "server": A, "server_model": "x"}
    lanes = ["strict", first, first | {"server": B, "server_model": "y"}]
    settings = Settings(rules=["strict"], **TWO)  # type: ignore[arg-type]
    assert plain(settings) == {"rules": lanes} and Settings(**plain(settings)) == settings
    assert Settings(rules=["strict", "server", "server"], **TWO) == settings  # type: ignore[arg-type]
    assert [lane.text for lane in settings.rules] == ["strict", "server", "server"]

    def told(*words: str, **values: Any) -> list[tuple[str, str, str]]:
        rules = read("compare", written(tmp_path, prompt="x", **values), *words).rules
        return [(each.rule.name, each.server, each.server_model) for each in rules]

    strict, mars, at_a, at_b = (
        *(("strict", "", ""), ("mars", "", "")),
        *(("server", A, "x"), ("server", B, "y")),
    )
    options = [f"--{name.replace('_', '-')}={each}" for name in TWO for each in TWO[name]]
    assert told(*options) == [strict, mars, at_a, at_b]
    assert told(rules=lanes) == [strict, at_a, at_b]
    assert told("--rule=mars", rules=lanes) == [strict, mars, at_a, at_b]
    assert told(f"--server={B}", "--server-model=y", rules=lanes) == [strict, at_b, at_b]
    assert told(server=A, server_model="x") == [strict, mars, at_a]
    assert told(server="", server_model="") == [strict, mars]
    earlier = {"server": A, "server_model": "x"}
    assert told(rules=["server", "strict", "server"], **earlier) == [at_a, strict, at_a]
    assert told(f"--server={A}", f"--server={B}", "--server-model=", "--server-model=y") == [
        *(strict, mars, ("server", A, ""), at_b)
    ]


def test_what_a_lane_does_not_say_is_as_for_all_and_another_drafter_has_another_tree() -> None:
    settings = Settings(**SAID)
    assert settings.of(read_lane("mars(k=9)")).k == 9
    assert settings.of(read_lane("mars(k=9)")).tree == TreeShape(12, 6, 2)
    assert settings.of(read_lane("mars(drafter=ngram)")).tree == Drafts().tree == ""


def test_a_file_holds_settings_and_options_take_precedence(tmp_path: Path) -> None:
    words = ["compare", written(tmp_path, **SAID)]
    assert read(*words) == Settings(**SAID)
    other = read(*words, "--seed=4", "--rule=block", "--tree=chain")
    assert (other.seed, other.tree, other.temperature) == (4, "chain", 0.7)
    assert [lane.rule.name for lane in other.rules] == ["strict", "block"]
    for text, sentence in (
        ("{", "is no JSON"),
        ("[1]", "it must be an object"),
        ('{"x": 1}', "has 'x'"),
    ):
        (tmp_path / "settings.json").write_text(text, "utf-8")
        with pytest.raises(ValueError, match=sentence):
            read(*words)
