"""The table of columns: what a new metric of a token takes, and that nothing is drawn at temperature 0."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mars_core.models import Pair
from mars_core.session import Session
from mars_core.text import assembly
from mars_core.types import DrafterConfig, DraftMode, Outcome, Sampling, Token
from mars_core.verification import columns, walk
from mars_core.verification.columns import COLUMNS, Column, Contents, Of
from tests.live_pairs import config_for, random_pair
from tests.unit.mars_core.test_verification import TREES, case, chance, takes
from tests.unit.mars_core.test_verification import columns as answer

JUDGE = importlib.import_module("mars_core.verification.judge")  # the package's attribute of this name is the function


@dataclass(frozen=True, slots=True)
class Wider(Token):
    surprise: float
    second: int


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two more metrics of a token: its surprise, and the second best id of its place. Table, computation and ``Token``: no more."""
    measures = JUDGE._measures

    def more(*given: Any) -> dict[str, Tensor]:
        found = measures(*given)
        return {**found, "surprise": -found["logprob"], "second": given[0].top_ids[:, 1]}

    extra = Column("surprise", torch.float32, Of.TOKEN, root=0.0), Column("second", torch.long, Of.NODE)
    monkeypatch.setattr(columns, "COLUMNS", (extra[0], *COLUMNS, extra[1]))
    monkeypatch.setattr(JUDGE, "_measures", more)
    monkeypatch.setattr(assembly, "Token", Wider)
    for cached in (columns._groups, columns.layout):
        cached.cache_clear()
    yield
    for cached in (columns._groups, columns.layout):
        cached.cache_clear()


@pytest.fixture(scope="module")
def pair() -> Pair:
    return random_pair("llama")


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("mode", DraftMode)
def test_a_new_metric_takes_a_line_of_the_table_its_values_and_a_field_of_token(pair: Pair, mode: DraftMode) -> None:
    config = config_for(pair, DrafterConfig("model", k=3, mode=mode), Sampling(1.0), prompt="abc", new=30)
    for meter in (True, False):
        run = Session(pair).start(config, meter=meter)
        tokens: list[Any] = [token for step in run for token in step.tokens]
        assert {token.outcome for token in tokens} >= {Outcome.ACCEPTED, Outcome.REJECTED, Outcome.RECOVERED}
        for token in tokens:
            assert token.surprise == -token.logprob if meter else token.surprise != token.surprise
            assert token.second == (token.id2 if meter else 0)
            assert isinstance(token.second, int)


def test_names_of_columns_are_distinct_and_every_one_is_stored_when_it_should_be() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    logits, draft = case("chain of 3", 0)
    for sampling, mode, meter, contents in [
        (Sampling(0.0), DraftMode.GREEDY, False, Contents.ALWAYS),
        (Sampling(0.0), DraftMode.GREEDY, True, Contents.METERED | Contents.SHARES),
        (Sampling(1.0), DraftMode.GREEDY, True, Contents.METERED | Contents.SHARES | Contents.DRAWS),
        (Sampling(1.0), DraftMode.SAMPLED, True, Contents.METERED | Contents.DISTANCES | Contents.DRAWS),
    ]:
        row = answer(logits, draft, "strict", sampling, chance(draft, 0), mode=mode, meter=meter).tolist()
        assert row[: columns.HEAD] == [3, contents, 5]
        lengths = {Of.DRAFTED: 3, Of.NODE: 4, Of.TOKEN: 7, Of.WIDE: 20}
        assert len(row) == columns.HEAD + sum(lengths[each.of] for each in COLUMNS if each.when in contents)


class Operations(TorchDispatchMode):
    """Names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found.add(str(function).split(".")[1])
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("rule", ["strict", "mars", "mars-reference"])
def test_nothing_is_drawn_at_temperature_0(rule: str, tree: str) -> None:
    if not takes(rule, tree):
        return
    logits, draft = case(tree, 0)
    logits[:, :3] = 9.0  # of equal logits the first is the target's own
    for sampling, draws in ((Sampling(0.0), False), (Sampling(1.0), True)):
        with Operations() as operations:
            row = answer(logits, draft, rule, sampling, chance(draft, 0))
        assert ("cumsum" in operations.found) == ("searchsorted" in operations.found) == draws
        assert draws or [node.own for node in walk(row.tolist()).nodes] == [0] * (draft.size + 1)
