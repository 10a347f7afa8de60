"""The payload of a lane, in a form that no text can break; in other programs; the stored example;
what another θ would do."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from display.format import displayable, number, visible
from mars_core.models import Pair
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    Outcome,
    PrefixToken,
    Sampling,
    Trace,
    TreeShape,
)
from tests.live_pairs import config_for, decoded, headed, random_pair
from tests.traces import make_trace, make_tree_trace
from tests.unit.ui.helpers import contrast, judged, one_loop
from ui.kit.theme import page_theme
from ui.result import example
from ui.token_view.standalone import read_trace, token_view
from ui.token_view.tiles import LaneCounts, counts_of, stat_tiles
from ui.token_view.view import (
    FIELDS,
    HUES,
    MOST,
    OUTCOMES,
    PREFIX,
    LaneView,
    TokenRow,
    ended_view,
    prefix_rows,
    token_rows,
)
from ui.token_view.whatif import codes, samples_drafts

HOSTILE = (
    "<script>",
    "${1}",
    "{{7*7}}",
    "\ud800",
    "\u202eabc",
    "`",
    "\x1b[31m",
    "</script>",
    "'\"",
)


def test_the_rows_spell_the_text() -> None:
    """A refused draft is the struck alternative of the next token."""
    trace = make_trace(new_tokens=90)
    rows = ended_view(trace, "run").rows
    assert "".join(row[0] for row in rows) == displayable(trace.text)
    assert [OUTCOMES[row[1]] for row in rows] == [token.outcome for token in trace.tokens]
    assert all(len(row[5]) == (OUTCOMES[row[1]] is Outcome.RECOVERED) for row in rows) and any(
        row[5] for row in rows
    )
    # what the target drew is no alternative of a sampled draft; a token without characters keeps
    # its position
    tokens = [token for step in trace.steps for token in step.tokens]
    assert not any(row[4] for row in token_rows(tokens, trace.text, 2, trace.config.rule))
    tokens = [*trace.tokens]
    tokens[3] = replace(tokens[3], piece="\ufffd", end=tokens[3].start)
    rows = token_rows(tokens, trace.text, 0, trace.config.rule)
    assert len(rows) == 90 and rows[3][0] == "" and rows[3][2] == "\ufffd"


def numbers_of(row: TokenRow) -> dict[str, float]:
    return dict(zip((name for name, _ in FIELDS), map(float, row[3].split(",")), strict=True))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_numbers_of_a_row_are_those_of_its_token(temperature: float) -> None:
    trace = make_trace(rule="mars", new_tokens=60, temperature=temperature)
    attributes = {
        "ln p": "logprob",
        "p, T = 0": "p",
        "z₁": "z1",
        "z₂": "z2",
        "relaxed": "forgiveness",
        "depth": "draft_position",
        "value": "parameter",
    }
    for row, token in zip(ended_view(trace, "run").rows, trace.tokens, strict=True):
        alternatives = [(each.id, each.p) for each in token.top]
        for name, value in numbers_of(row).items():
            meant = getattr(token, attributes.get(name, name.lower()))
            if name == "p" and temperature == 0:
                meant = dict(alternatives).get(token.id, math.exp(token.logprob))
            assert value == pytest.approx(meant, rel=1e-8, nan_ok=True) and number(value) == number(
                meant
            )
        ids = [float(value) for value in row[6][1].split(",")[::2]]
        assert ids == [alternative.id for alternative in token.top] and len(row[6][0]) == len(ids)
        assert row[4] == ((visible(token.own_piece), token.own) if token.own != token.id else ())


def test_at_temperature_0_no_probability_of_a_card_contradicts_its_alternatives() -> None:
    """Of the token, and of the drafts that it replaces."""
    trace = make_trace(rule="mars", new_tokens=120, temperature=0.0)
    seen = 0
    for row in ended_view(trace, "run").rows:
        values = list(map(float, row[6][1].split(",")))
        listed = dict(zip(map(int, values[::2]), values[1::2], strict=True))
        numbers = numbers_of(row)
        told = [(numbers["id"], numbers["p"])]
        told += [tuple(map(float, words.split(",")[:2])) for _, words in row[5]]
        for id_, p in told:
            seen += int(id_) in listed
            assert p == pytest.approx(listed.get(int(id_), p), rel=1e-8) and p > 0
    assert seen > 100


def test_prefix_tokens_come_first_and_carry_no_number() -> None:
    trace = make_trace(new_tokens=6)
    shifted = replace(
        trace,
        given=(PrefixToken(3, "Once", 0, 4), PrefixToken(4, " upon", 4, 9)),
        text="Once upon" + trace.text,
    )
    tokens = [token for step in trace.steps for token in step.tokens]
    built = token_rows(tokens, trace.text, 0, trace.config.rule)
    for rows in (ended_view(shifted, "run").rows, ended_view(shifted, "run", rows=built).rows):
        assert [row[:4] for row in rows[:2]] == [
            ("Once", PREFIX, "Once", ""),
            (" upon", PREFIX, "␣upon", ""),
        ]
        assert len(rows) == 8
    rows = [*prefix_rows(shifted.given, shifted.text), *built]
    assert ended_view(shifted, "run", rows=rows).rows == (*rows,)
    assert ended_view(shifted, "run").judged.count(",") == 7


def test_text_on_every_tint_can_be_read() -> None:
    theme = vars(page_theme())
    for suffix, hue in product(("", "_dark"), HUES.values()):
        ground, ink = (
            theme[f"{name}{suffix}"] for name in ("background_fill_primary", "body_text_color")
        )
        tinted = mixed(hue, ground, MOST)
        assert contrast(tinted, ink) >= 4.5
        assert (
            contrast(mixed(ink, tinted, 0.05), ink) >= 4.5
        )  # the shade of the text after a difference


def mixed(colour: str, ground: str, amount: float) -> str:
    """``amount`` of a #RRGGBB colour over another."""
    parts = (
        int(colour[i : i + 2], 16) * amount + int(ground[i : i + 2], 16) * (1 - amount)
        for i in (1, 3, 5)
    )
    return f"#{''.join(f'{round(part):02X}' for part in parts)}"


def test_live_numbers_end_as_the_summary_says() -> None:
    trace = make_trace(rule="mars", new_tokens=70)
    counts = LaneCounts()
    for step in trace.steps:
        counts = counts.after(step)
    ended = counts_of(trace)
    assert replace(counts, tv_sum=0.0) == replace(ended, tv_sum=0.0)
    assert counts.tv_sum == pytest.approx(ended.tv_sum)
    assert stat_tiles(counts) == ended_view(trace, "run").tiles
    assert all(value == "–" for _, value, _, _ in stat_tiles(LaneCounts()))  # before the first step


DOCS = Path(__file__).parents[3] / "docs" / "reference" / "token-view.md"


@pytest.fixture(scope="module")
def stored() -> tuple[Trace, ...]:
    return example.stored()


def test_the_input_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [field.name for field in fields(LaneView) if f"* `{field.name}` " not in text] == []
    assert [name for name, _ in FIELDS if f"`{name}`" not in text] == []
    outcomes = [*(outcome.value for outcome in Outcome), "given"]
    assert (
        ", ".join(f"{number} {name}" for number, name in enumerate(outcomes)) in text
        and len(outcomes) - 1 == PREFIX
    )


def test_the_example_shows_every_stored_run(stored: tuple[Trace, ...]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    made: dict[str, Any] = {}
    with one_loop():
        exec(example, made)
    assert len(made["page"].blocks) == len(stored)


def test_a_trace_is_read_from_its_json(stored: tuple[Trace, ...]) -> None:
    trace = stored[1]
    assert repr(read_trace(json.dumps(asdict(trace)))) == repr(trace)  # nan is not equal to itself
    view = ended_view(trace, "mine")
    assert json.loads(token_view(view).value)["run"] == "mine"
    with pytest.raises(ValueError, match="steps"):
        read_trace(json.dumps(json.loads(example.FILE.read_bytes())[0] | {"steps": 5}))


@pytest.fixture(scope="module")
def pair() -> Pair:
    return headed(random_pair(eos=frozenset(), noise=0.05))


def run(
    pair: Pair,
    drafter: DrafterConfig,
    theta: float,
    temperature: float,
    seed: int,
    rule: str = "mars",
) -> Trace:
    more = {"theta": theta} if rule == "mars" else {}
    sampling = Sampling(temperature)
    return decoded(
        pair,
        config_for(
            pair, drafter, sampling, prompt="once upon", rule=rule, new=40, seed=seed, **more
        ),
    )


MADE = make_trace(rule="mars", theta=0.9, new_tokens=90)
CHAIN = DrafterConfig("model", None, 5, DraftMode.GREEDY)
SAMPLED = DrafterConfig("model", None, 5, DraftMode.SAMPLED)
TREE = DrafterConfig("eagle3", None, 5, DraftMode.GREEDY, TreeShape(12, 3, 4))


@pytest.mark.parametrize("drafter", [CHAIN, SAMPLED, TREE], ids=["chain", "sampled", "tree"])
def test_at_the_theta_of_the_run_it_says_what_the_run_did(
    pair: Pair, drafter: DrafterConfig
) -> None:
    both = set()
    for seed, (temperature, theta) in enumerate(
        ((0.0, 0.8), (0.0, 1.0), (1.0, 0.5), (1.0, 0.9), (1.0, 0.97))
    ):
        drafts = judged(run(pair, drafter, theta, temperature, seed))
        assert [draft.accepted_at(theta) for draft in drafts] == [
            draft.accepted for draft in drafts
        ]
        both |= {(draft.accepted, draft.token.r > theta) for draft in drafts}
    assert len(both) == 4  # accepted and refused, at low margin and elsewhere
    sampled = [
        samples_drafts(run(pair, drafter, 0.9, temperature, 0).config) for temperature in (0.0, 1.0)
    ]
    assert sampled == [False, drafter is SAMPLED]


@pytest.mark.parametrize("drafter", [CHAIN, TREE], ids=["chain", "tree"])
def test_what_is_foretold_up_to_the_first_change_is_what_a_run_does(
    pair: Pair, drafter: DrafterConfig
) -> None:
    """Uniforms belong to positions, so a real run at another θ agrees up to the first decision that
    changes."""
    changed = 0
    for seed in range(3):
        stored, rerun = (run(pair, drafter, theta, 1.0, seed) for theta in (0.97, 0.6))
        first = next(
            (draft for draft in judged(stored) if draft.accepted_at(0.6) != draft.accepted), None
        )
        if first is None:
            assert stored.token_ids == rerun.token_ids
            continue
        changed += 1
        assert stored.token_ids[: first.token.position] == rerun.token_ids[: first.token.position]
        assert stored.token_ids[first.token.position] != rerun.token_ids[first.token.position]
        assert rerun.tokens[first.token.position].outcome is Outcome.RELAXED
    assert changed


@pytest.mark.parametrize("trace", [MADE, make_tree_trace(new_tokens=90)])
def test_the_codes_name_every_judged_draft_once_at_its_row(trace: Trace) -> None:
    entries = codes(trace).split(",")
    assert len(entries) == len(trace.tokens)
    for entry, token in zip(entries, trace.tokens, strict=True):
        assert (token.outcome is Outcome.BONUS) == (entry == "")
    if (
        trace is MADE
    ):  # a chain has no siblings: without stored nodes it is judged by its tokens alone
        bare = replace(MADE, steps=tuple(replace(step, nodes=()) for step in MADE.steps))
        assert codes(bare) == codes(MADE)
