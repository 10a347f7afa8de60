"""Protected tokens: every rule decides them as strict, and TV and KL remain those of its
decisions."""

from __future__ import annotations

import math
from types import MappingProxyType

import pytest
import torch
from tokenizers import AddedToken

from mars_core.engine.build import protected
from mars_core.models import Pair
from mars_core.rules import RULES, Reach, protecting
from mars_core.sampling import Chance, draw, noise, target_distribution
from mars_core.text.detokenize import Pieces
from mars_core.text.protected import protected_ids
from mars_core.types import (
    DrafterConfig,
    DraftMode,
    Outcome,
    Processors,
    Sampling,
    ShiftKind,
    TreeShape,
)
from mars_core.verification import Draft, chain_draft, walk
from tests.checkpoints import EOS, tiny_tokenizer
from tests.live_pairs import config_for, decoded, headed, random_pair
from tests.unit.mars_core import test_verification, test_verification_greedy
from tests.unit.mars_core.byte_level import byte_level_tokenizer
from tests.unit.mars_core.published import accepted, after_node, correction, norm
from tests.unit.mars_core.test_verification import (
    CHAINS,
    TREES,
    V,
    case,
    chance,
    children_of,
    column,
    columns,
    decide,
    divergence,
    drawn_case,
    every_draw,
    every_sampling,
    keys,
    picked,
    takes,
    total_variation,
)
from tests.unit.mars_core.test_verification_chains import position
from tests.unit.mars_core.test_verification_coupled import BY_TOKEN, distributions, joint
from tests.unit.mars_core.test_verification_greedy import RULES_BY_TOKEN, enumerated

PROTECTED = (1, 4)
MASK = torch.zeros(V, dtype=torch.bool).index_fill_(0, torch.tensor(PROTECTED), True)
GUARDED = MappingProxyType({name: protecting(rule, MASK) for name, rule in RULES.items()})
# These chains are too short for the default window.
SHORT = MappingProxyType({"fly": {"window": 1, "entropy": 0}})
RELAXED = [name for name, rule in RULES.items() if rule.modes and not rule.lossless]


@pytest.fixture(autouse=True)
def _protected(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (test_verification, test_verification_greedy):
        monkeypatch.setattr(module, "RULES", GUARDED)


@pytest.mark.parametrize("mode", DraftMode)
@every_sampling
@pytest.mark.parametrize("rule", RELAXED)
def test_a_protected_token_is_accepted_only_where_strict_accepts_it(
    rule: str, sampling: Sampling, mode: DraftMode
) -> None:
    """And where it is drafted alone, the same token is emitted as by strict."""
    seen = 0
    for tree in TREES if mode is not DraftMode.SAMPLED else CHAINS:
        for seed in range(12) if takes(rule, tree, sampling, mode) else ():
            logits, draft, u = drawn_case(tree, seed)
            rows = decide(logits, draft, rule, sampling, u, SHORT.get(rule), mode=mode)
            strict = decide(logits, draft, "strict", sampling, u, mode=mode)
            for number, node in enumerate(rows.nodes[1:], start=1):
                if node.id not in PROTECTED:
                    continue
                seen += 1
                other = strict.nodes[number]
                assert (node.keep, node.forgiveness) == (other.keep, 0), (tree, seed, number)
                parent = int(node.parent)
                if rows.children[parent] == [number] and not RULES[rule].emits_top1:
                    assert rows.nodes[parent].emit == strict.nodes[parent].emit
    assert seen > 5 or not takes(rule, "chain of 1", sampling, mode)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "sampling", [Sampling(0.0), Sampling(1.0), Sampling(0.7, top_k=3)], ids=str
)
@pytest.mark.parametrize("rule", [name for name in RELAXED if name in RULES_BY_TOKEN])
def test_on_greedy_drafts_tv_is_the_distance_of_the_decisions(
    rule: str, sampling: Sampling, seed: int
) -> None:
    for tree in (each for each in TREES if takes(rule, each, sampling)):
        logits, draft = case(tree, seed)
        p, children = target_distribution(logits, sampling).tolist(), children_of(draft.parents)
        nodes = decide(logits, draft, rule, sampling, chance(draft, seed)).nodes
        for node, (distribution, _) in enumerated(rule, tree, sampling, seed).items():
            assert nodes[node].tv == pytest.approx(total_variation(distribution, p[node]), abs=1e-9)
            assert nodes[node].kl == pytest.approx(divergence(distribution, p[node]), abs=1e-9)
            drafted = set(draft.ids[children[node]].tolist())
            if drafted <= set(PROTECTED) and not RULES[rule].emits_top1:
                assert distribution == pytest.approx(p[node], abs=1e-9)


@every_draw
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "rule",
    [
        name
        for name in RELAXED
        if RULES[name].charge is None and DraftMode.SAMPLED in RULES[name].modes
    ],
)
def test_on_sampled_drafts_decisions_have_their_distribution_and_tv_its_distance(
    rule: str, seed: int, sampling: Sampling
) -> None:
    """A rejected protected token is replaced as by strict, except under rules that emit top-1."""
    z, p, q = position(sampling, seed)
    scores = z[0].tolist()
    accept = accepted(rule, scores, p, q)
    lossless = norm([a - b for a, b in zip(p, q, strict=True)], p)
    corrections = [correction(rule, scores, p, q, x) for x in range(V)]
    for token in PROTECTED:
        accept[token] = min(1.0, p[token] / q[token])
        if not RULES[rule].emits_top1:
            corrections[token] = lossless
    expected = [0.0] * V
    for x in range(V):
        expected[x] += q[x] * accept[x]
        for y in range(V):
            expected[y] += q[x] * (1 - accept[x]) * corrections[x][y]
    trials = [(x, u, y) for x in range(V) for u in (1e-9, 1 - 1e-9) for y in range(V)]
    ids = torch.tensor([0, *(x for x, *_ in trials)])
    distribution = torch.tensor([q], dtype=torch.float64).expand(len(trials), -1)
    draft = chain_draft(ids, distribution[0, ids[1:]], distribution)
    u = picked(*([y] for *_, y in trials), [0], uniform=[*(u for _, u, _ in trials), 0.5])
    rows = columns(z.expand(len(ids), -1), draft, rule, sampling, u, mode=DraftMode.SAMPLED)
    distances = total_variation(expected, p), divergence(expected, p)
    if RULES[rule].reach is Reach.DRAFTED:  # P follows from tokens that are not drafted, too
        distances = math.nan, math.nan
    measured = column(rows, "tv")[0], column(rows, "kl")[0]
    assert measured == pytest.approx(distances, abs=1e-9, nan_ok=True)
    keep, emit = column(rows, "keep")[1:], column(rows, "emit")
    for (x, low, y), relaxed_or_drawn, other in zip(trials, keep, emit, strict=False):
        if 1e-6 < accept[x] < 1 - 1e-6:
            assert relaxed_or_drawn == (low < 0.5)
        if accept[x] < 1 and corrections[x][y] > 1e-9:
            assert other == y


def expected_after(rule: str, z: list[float], p: list[float], q: list[float]) -> list[float]:
    """P of the emitted token of a coupled chain. A protected draft is accepted where it is y."""
    distribution, joint_p = [0.0] * V, joint(p, q)
    top1 = max(range(V), key=z.__getitem__)
    for a in (each for each in range(V) if q[each]):
        alone = after_node(rule, z, p, [a], [q[a]], q, False)
        relaxed = (alone[a] - p[a]) / (1 - p[a]) if alone[a] > p[a] < 1 else 0.0
        for b in range(V):
            if RULES[rule].emits_top1 and a not in PROTECTED:
                distribution[b] += q[a] * alone[b]
            elif a == b or a in PROTECTED:
                distribution[top1 if RULES[rule].emits_top1 and a != b else b] += joint_p[a][b]
            else:
                distribution[a] += joint_p[a][b] * relaxed
                distribution[b] += joint_p[a][b] * (1 - relaxed)
    return distribution


@every_draw
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", [name for name in BY_TOKEN if name in RELAXED])
def test_on_coupled_chains_decisions_have_their_distribution_and_tv_its_distance(
    rule: str, seed: int, sampling: Sampling
) -> None:
    """A chain of equal positions, each with separate noise."""
    count = 10_000
    z, p, q = distributions(seed, sampling)
    drawn = noise(keys(seed, 1, count + 1), V)
    source = torch.Generator().manual_seed(seed)
    uniform = torch.rand(count + 1, generator=source, dtype=torch.float64)
    distribution = torch.tensor([q], dtype=torch.float64).expand(count, -1)
    x = draw(distribution, drawn[:count]).ids
    ids = torch.cat([x[:1], x])
    draft = chain_draft(ids, distribution.gather(-1, x[:, None])[:, 0], distribution)
    arguments = z.expand(count + 1, -1), draft, rule, sampling, Chance(uniform, drawn, None)
    nodes = walk(columns(*arguments, mode=DraftMode.COUPLED, telemetry=False).tolist()).nodes
    keep, emit = (torch.tensor(nodes.column(name)) for name in ("keep", "emit"))
    tokens = torch.where(keep[1:] > 0, x, emit[:-1].long())
    expected = expected_after(rule, z[0].tolist(), p, q)
    exact = torch.tensor(expected)
    shares = torch.bincount(tokens, minlength=V) / count
    assert ((shares - exact).abs() < 5 * (exact * (1 - exact) / count).sqrt() + 1e-4).all()
    one = chain_draft(draft.ids[:2], draft.q[:1], distribution[:1])
    u = Chance(uniform[:2], drawn[:2], None)
    node = decide(z.expand(2, -1), one, rule, sampling, u, mode=DraftMode.COUPLED).nodes[0]
    distances = total_variation(expected, p), divergence(expected, p)
    kind = RULES[rule].shift_kind(chain=True)
    if kind is ShiftKind.EXACT:
        assert (node.tv, node.kl) == pytest.approx(distances, abs=1e-5)
    elif kind is ShiftKind.MISSING:
        assert math.isnan(node.tv) and math.isnan(node.kl)
    else:
        assert distances[0] <= node.tv + 1e-6 and distances[1] <= node.kl + 1e-6


@every_draw
@pytest.mark.parametrize("rule", [name for name in RELAXED if RULES[name].emits_top1])
def test_on_coupled_trees_the_bound_holds(rule: str, sampling: Sampling) -> None:
    """Of rules that emit top-1: nothing beside it and what they keep is emitted oftener than by
    the target."""
    for seed in range(4):
        logits, draft = case("siblings", seed)
        p = target_distribution(logits, sampling)[0].tolist()
        counts, runs = [0] * V, 300
        for run in range(runs):
            u = chance(draft, run)
            assert u.noise is not None
            best = (torch.tensor(p) / u.noise[0]).topk(3).indices
            coupled = Draft(
                torch.cat([draft.ids[:1], best]), draft.parents, draft.depths, draft.q, 1, False
            )
            decided = decide(logits, coupled, rule, sampling, u, mode=DraftMode.COUPLED)
            path = decided.path
            node = decided.nodes[path[1]].id if len(path) > 1 else decided.nodes[0].emit
            counts[int(node)] += 1
        share = [each / runs for each in counts]
        assert total_variation(share, p) <= decided.nodes[0].tv + 1.5 * (V / runs) ** 0.5


def test_the_lossless_rules_have_nothing_to_protect() -> None:
    for rule in RULES.values():
        assert (protecting(rule, MASK) is rule) is rule.lossless


@pytest.fixture(scope="module")
def pair() -> Pair:
    return headed(random_pair())


DRAFTERS = {
    "coupled": DrafterConfig("model", k=4),
    "greedy": DrafterConfig("model", k=4, mode=DraftMode.GREEDY),
    "sampled": DrafterConfig("model", k=4, mode=DraftMode.SAMPLED),
    "tree": DrafterConfig("eagle3", tree=TreeShape(14, 4, 4)),
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", ["always", "typical", "topk-delta"])
def test_a_run_relaxes_no_protected_token(
    pair: Pair, rule: str, drafter: str, temperature: float
) -> None:
    def relaxed(protect: tuple[str, ...]) -> set[int]:
        sampling = Sampling(temperature, processors=Processors(protect=protect))
        chosen = config_for(pair, DRAFTERS[drafter], sampling, rule=rule, new=96)
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


@pytest.mark.parametrize(
    ("protect", "words"),
    [
        (("no such token",), "protect has 'no such token', which is no token of this target"),
        (("a" * 101,), "has 101 characters; 100 are the most"),
        (("[5]",) * 17, "protect has 17 words; 16 are the most"),
    ],
)
def test_what_protects_nothing_is_refused(pair: Pair, protect: tuple[str, ...], words: str) -> None:
    assert EOS in protected(pair, ["special"])
    sampling = Sampling(processors=Processors(protect=protect))
    with pytest.raises(ValueError, match=words):
        decoded(pair, config_for(pair, DRAFTERS["coupled"], sampling))
