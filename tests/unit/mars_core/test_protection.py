"""Protected tokens: every rule decides them as strict, and TV and KL remain those of its
decisions."""

from __future__ import annotations

from itertools import product
from types import MappingProxyType

import pytest
from tokenizers import AddedToken

from mars_core.models import Pair
from mars_core.rules import RULES, protecting
from mars_core.text.detokenize import Pieces
from mars_core.text.protected import protected_ids
from mars_core.types import (
    DraftMode,
    Outcome,
    Processors,
    Sampling,
)
from tests.checkpoints import tiny_tokenizer
from tests.live_pairs import DRAFTS, config_for, decoded, ready_pair
from tests.unit.mars_core.byte_level import byte_level_tokenizer
from tests.unit.mars_core.deciding import MASK, PROTECTED
from tests.unit.mars_core.test_verification import (
    CHAINS,
    SAMPLINGS,
    TREES,
    decide,
    drawn_case,
    takes,
)

# These chains are too short for the default window.
SHORT = MappingProxyType({"fly": {"window": 1, "entropy": 0}})
RELAXED = [name for name, rule in RULES.items() if rule.modes and not rule.lossless]


@pytest.mark.parametrize("rule", RELAXED)
def test_a_protected_token_is_accepted_only_where_strict_accepts_it(rule: str) -> None:
    """And where it is drafted alone, the same token is emitted as by strict."""
    seen, guarded = 0, protecting(RULES[rule], MASK)
    for mode, sampling, tree, seed in product(DraftMode, SAMPLINGS, TREES, range(3)):
        if not takes(rule, tree, sampling, mode) or (
            mode is DraftMode.SAMPLED and tree not in CHAINS
        ):
            continue
        logits, draft, u = drawn_case(tree, seed)
        rows = decide(logits, draft, guarded, sampling, u, SHORT.get(rule), mode=mode)
        strict = decide(logits, draft, "strict", sampling, u, mode=mode)
        for number, node in enumerate(rows.nodes[1:], start=1):
            if node.id not in PROTECTED:
                continue
            seen += 1
            other, parent = strict.nodes[number], int(node.parent)
            assert (node.keep, node.forgiveness) == (other.keep, 0), (mode, sampling, tree, seed)
            if rows.children[parent] == [number] and not guarded.emits_top1:
                assert rows.nodes[parent].emit == strict.nodes[parent].emit
    assert seen > 15


@pytest.fixture(scope="module")
def pair() -> Pair:
    return ready_pair()


@pytest.mark.parametrize(("rule", "temperature"), [("always", 1.0), ("topk-delta", 0.0)])
@pytest.mark.parametrize("drafter", ["coupled chain", "greedy chain", "sampled chain", "tree"])
def test_a_run_relaxes_no_protected_token(
    pair: Pair, rule: str, drafter: str, temperature: float
) -> None:
    def relaxed(protect: tuple[str, ...]) -> set[int]:
        sampling = Sampling(temperature, processors=Processors(protect=protect))
        chosen = config_for(pair, DRAFTS[drafter], sampling, rule=rule, new=36)
        trace = decoded(pair, chosen)
        assert trace.config.sampling.processors.protect == protect
        return {token.id for token in trace.tokens if token.outcome is Outcome.RELAXED}

    if free := relaxed(()):
        few = sorted(free)[:12]
        assert not relaxed((str(few),)) & {*few}
        assert relaxed(("*",)) == set()


def test_special_tokens_are_protected_by_their_kind_and_others_by_their_text() -> None:
    tokenizer = tiny_tokenizer()
    plain = [AddedToken(text) for text in ("</think>", "[TOOL_CALLS]", "cat7")]
    tokenizer.add_tokens([*plain, AddedToken("<end>", special=True)])
    added = {text: tokenizer.convert_tokens_to_ids(text) for text in tokenizer.get_added_vocab()}
    pieces, size = Pieces(tokenizer), len(tokenizer)

    def ids(*words: str, ends: tuple[int, ...] = ()) -> frozenset[int]:
        return protected_ids(tokenizer, pieces, ends, size, words)

    special = ids("special", ends=(7, size))
    names = {text for text, token in added.items() if token in special}
    assert names >= {"</think>", "[TOOL_CALLS]", "<end>"} and "cat7" not in names
    assert special >= {7, *tokenizer.all_special_ids} and size not in special
    assert added["cat7"] in ids("digits") & ids("cat?") & ids("*7") & ids("c[ab]t7")
    assert ids("digits") == {
        token for token in range(size) if set(pieces[token]) & set("0123456789")
    }
    assert ids("[3, 5]") == {3, 5} and ids() == frozenset() == ids("no such token")


def test_a_lone_byte_is_no_quote_and_no_digit_by_its_label() -> None:
    """Byte-level vocabularies call the bytes AB and BB « and »; they are parts of other characters."""
    tokenizer = byte_level_tokenizer()
    pieces, size = Pieces(tokenizer), len(tokenizer)
    assert {pieces[tokenizer.convert_tokens_to_ids(each)] for each in "«»"} == {*"«»"}
    for word, characters in (("quotes", "\"'`"), ("digits", "0123456789")):
        ids = protected_ids(tokenizer, pieces, (), size, [word])
        assert ids == {*tokenizer.convert_tokens_to_ids([*characters])}
