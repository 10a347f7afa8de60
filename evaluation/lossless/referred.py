"""A server under a trusted reference, which scores the server's own tokens: no second server is
needed, and a deviation has a name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from display.format import count, number, percent, plural, probability
from evaluation.lossless.law import (
    FOUND,
    LEAST,
    LEVEL,
    MOST,
    UNKNOWN,
    beyond_rounding,
    found_at_zero,
    law,
)
from evaluation.lossless.reference import NEAR, NOISES, Reference, Scores, joined
from evaluation.lossless.rounds import TOKENS, Difference, Rounds
from evaluation.lossless.sampled import LONG, RARE, drawn, given_twice
from evaluation.lossless.together import together
from evaluation.lossless.values import Finding, LosslessVerdict, at_once, complete
from evaluation.served.answer import Answer
from evaluation.served.client import Client
from evaluation.served.server import ServerDown, ServerError

CERTAIN = 1e-6  # p below which one answer of many is wrong by itself
REST = 0.1  # the probability of other tokens, at least, where gaps are compared
ANOTHER_MODEL = 3.0  # nats that another quantisation does not move gaps by
AMBIGUOUS = "the server does not identify their tokens, or names others than the reference has"
GUESSED = "The tokens are those of retokenised texts, which may not be the server's."
TIES = f"near ties (z₂/z₁ > {NEAR})"
GOOD, BAD = LosslessVerdict.LOSSLESS, LosslessVerdict.NOT_LOSSLESS


class Referred:
    """The rounds of a server at temperature 0, and its draws, by the reference. Raises ServerError,
    and ValueError for prompts that the reference cannot read."""

    def __init__(
        self, server: Client, reference: Reference, prompts: Sequence[str], in_flight: int
    ) -> None:
        self._server, self._reference = server, reference
        self._texts, self._prompts = prompts, [reference.prompt(each) for each in prompts]
        self._seen: dict[tuple[int, tuple[int, ...]], Difference | None] = {}
        self._moved: list[float] = []  # by how much the server's gaps differ from the reference's
        self._first: list[Scores] = []
        self._guessed = False  # whether tokens are those of texts
        self._another = ""  # what the server reads instead of a prompt
        self.rounds = Rounds(server, self._prompts, self._judged)
        self._answers = self.rounds.ask(1)
        self.rounds.ask(in_flight)

    @property
    def sigma(self) -> float:
        """How far the server's numbers move gaps, in nats: that of a normal deviation with the
        median of what was seen. The gap of a token is to all others, the logit of its p."""
        return max(LEAST, float(np.median(self._moved)) / 0.6745) if self._moved else UNKNOWN

    def _judged(self, prompt: int, answer: Answer) -> Difference | None:
        """Return the worst token of an answer that rounding does not explain."""
        if (ids := self._reference.ids(answer, TOKENS, guess=True)) is None:
            return None
        if (prompt, ids) not in self._seen:
            sent, read = len(self._prompts[prompt]), answer.usage.get("prompt_tokens")
            if type(read) is int and read != sent:
                self._another = (
                    f" The server reads {count(read)} tokens of {count(sent)}: another prompt."
                )
            (scores,) = self._reference.scores(self._prompts[prompt], [ids])
            if not self.rounds:
                self._first.append(scores)
                self._guessed |= answer.names is None
                reported = [each.logprob for each in (answer.logprobs or ())[: len(ids)]]
                rest = -np.expm1(scores.logprob)
                if reported:
                    moved = np.abs(reported - scores.logprob) / rest
                    self._moved += moved[(rest > REST) & ~np.isnan(moved)].tolist()
            wrong = beyond_rounding(scores.gap, scores.margin, self.sigma) < CERTAIN
            self._seen[prompt, ids] = _worst(prompt, scores) if wrong else None
        return self._seen[prompt, ids]

    def findings(self) -> list[Finding]:
        """Raises ServerError."""
        zero = self._at_zero()
        return [zero, self._template(fits=zero.verdict is GOOD)]

    def _at_zero(self) -> Finding:
        title = "Temperature 0, under the reference"
        if not self._first:
            return Finding(
                title,
                LosslessVerdict.NOT_KNOWN,
                f"No answer was read: {AMBIGUOUS}, and their texts have not as many.",
            )
        scores, when, sigma = joined(self._first), self.rounds.when(), self.sigma
        p = beyond_rounding(scores.gap, scores.margin, sigma)
        differ = sum(bool(each.gap.any()) for each in self._first)
        seen = "measured on its log probabilities" if self._moved else "assumed: it reports none"
        reason = (
            f"{differ} of {plural(len(self._first), 'answer')} of up to {TOKENS} tokens differ from "
            f"the reference's, in {count(int((scores.gap > 0).sum()))} of {count(len(scores.gap))} "
            f"tokens; its numbers move gaps by {number(sigma, 2)} nats ({seen}).{self._another}"
        )
        if p >= LEVEL and sigma <= MOST and not when:
            share = found_at_zero(scores, sigma)
            near = int((~np.isnan(scores.runner)).sum())
            if not share > 0:
                reason += (
                    f" p {probability(p)}. No share of runners-up kept at {TIES} would be found."
                )
                return Finding(title, LosslessVerdict.NOT_KNOWN, reason, p)
            found = f"{percent(share)} of {TIES}, 1 token in {count(round(len(scores.gap) / near / share))}"
            unseen = f"moves gaps by less than {MOST} nats is not told from other kernels"
            if not self._moved:
                unseen = "changes few tokens is not found without the server's log probabilities"
            power = (
                f"With probability {FOUND} a runner-up kept at {found}, would have been found. "
                f"Another quantisation that {unseen}."
            )
            reason += f" p {probability(p)}. None is wrong in {self.rounds.asked()}."
            return Finding(title, GOOD, reason, p, power)
        name = (
            _name(scores, sigma, known=bool(self._moved))
            if p < LEVEL or sigma > MOST
            else "load or time"
        )
        worst = next((each for row in self.rounds for each in row.found if each), None)
        example = f" {worst.where}, {number(worst.gap)} nats behind." if worst else ""
        text = f"{name.capitalize()}. {reason} p {probability(p)}.{example} {when}".strip()
        if self._guessed:
            return Finding(title, LosslessVerdict.NOT_KNOWN, f"{text} {GUESSED}", p)
        return Finding(title, BAD, text, p)

    def _template(self, *, fits: bool) -> Finding:
        """Ask one prompt as a chat. ``fits``: whether the server is right without a template."""
        title, expected = "Chat template", self._prompts[0]
        try:
            chat = [{"role": "user", "content": self._texts[0]}]
            answer = complete(self._server, chat, TOKENS, 0.0, logprobs=5)
        except ServerDown:
            raise
        except ServerError:
            return Finding(title, LosslessVerdict.NOT_TESTED, "The server answers no chats.")
        read = len(answer.prompt_ids or ()) or answer.usage.get("prompt_tokens")
        if type(read) is not int:
            return Finding(title, LosslessVerdict.NOT_TESTED, "The server counts no prompt tokens.")
        reason = f"The server reads {plural(read, 'token')}, the reference {count(len(expected))}."
        if [*(answer.prompt_ids or expected)] != expected or read != len(expected):
            return Finding(title, BAD, f"Another template. {reason}")
        if (ids := self._reference.ids(answer, TOKENS)) and fits:
            (scores,) = self._reference.scores(expected, [ids])
            p = beyond_rounding(scores.gap, scores.margin, self.sigma)
            if p < LEVEL:
                reason = f"Another template. {_worst(0, scores).where}, p {probability(p)}."
                return Finding(title, BAD, reason, p)
        return Finding(title, GOOD, reason)

    def drawn(self, draws: int, repeats: int, seed: int) -> list[Finding]:
        """``draws``: answers to each prompt at temperature 1, with seeds from ``seed`` on;
        ``repeats``: those after the same beginning."""
        title = "Temperature 1, under the reference"
        answers = drawn(self._server, self._prompts, draws, seed, LONG)
        rows = [[self._reference.ids(each, LONG) for each in row] for row in answers]
        kept = {at: [ids for ids in row if ids] for at, row in enumerate(rows) if all(row)}
        left = ", ".join(str(at + 1) for at in range(len(rows)) if at not in kept)
        which = f"Prompts {left} are" if "," in left else f"Prompt {left} is"
        reason = f" {which} left out: {AMBIGUOUS}." if left else ""
        if not kept:
            return [Finding(title, LosslessVerdict.NOT_KNOWN, reason.strip())]
        scored = at_once(
            f"{title}, scores",
            lambda each: self._reference.scores(self._prompts[each], kept[each]),
            [*kept],
            1,
        )
        pairs = [zip(*each, strict=True) for each in zip(kept.values(), scored, strict=True)]
        rare = [[ids for ids, each in row if each.logprob.sum() < RARE] for row in pairs]
        repeated = sum(map(bool, map(given_twice, rare)))
        if repeated > len(kept) / 2:
            several = (
                f"One answer for several seeds to {repeated} of {plural(len(kept), 'prompt')}."
            )
            return [Finding(title, LosslessVerdict.DUPLICATED, several)]
        scores = joined([each for row in scored for each in row])
        size = f"{plural(len(kept) * draws, 'answer')}, {plural(len(scores.gap), 'token')}"
        found = _by_law(scores, seed)
        return [
            Finding(title, found.verdict, f"{size}: {found.reason}{reason}", found.p, found.power),
            together(self._server, self._server, self._prompts, self._answers, repeats, seed),
            self._by_noise(kept, draws, seed),
        ]

    def _by_noise(self, kept: dict[int, list[tuple[int, ...]]], draws: int, seed: int) -> Finding:
        """Judge every token where one of NOISES explains most."""
        title, size = "Temperature 1, token by token", self._reference.size

        def scored(noise: str, answers: int) -> Scores:
            def one(at: int) -> list[Scores]:
                begin, make, ids = seed + at * draws, NOISES[noise], kept[at][:answers]
                return self._reference.scores(
                    self._prompts[at], ids, lambda i, n: make(size, begin + i, n)
                )

            rows = at_once(f"{title}, noise of {noise}", one, [*kept], 1)
            return joined([each for row in rows for each in row])

        for noise in NOISES:
            tried = scored(noise, 1)
            chance = float(np.exp(tried.logprob).mean())
            if float((tried.gap == 0).mean()) <= (1 + chance) / 2:
                continue
            scores = scored(noise, draws)
            p = beyond_rounding(scores.gap, scores.margin, self.sigma)
            reason = (
                f"The noise is that of {noise}: {count(int((scores.gap > 0).sum()))} of "
                f"{plural(len(scores.gap), 'token')} are not those it draws, p {probability(p)}."
            )
            if p >= LEVEL:
                return Finding(title, GOOD, reason, p)
            name = _name(scores, self.sigma, known=True).capitalize()
            return Finding(title, BAD, f"{name}. {reason}", p)
        reason = "The server's noise is not known: nothing is claimed of single tokens."
        return Finding(title, LosslessVerdict.NOT_TESTED, reason)


def _by_law(scores: Scores, seed: int) -> Finding:
    """Judge draws by their distribution."""
    tested = law(scores, seed)
    p = min(tested.p)
    by = f"p {probability(p)}, the smallest of {len(tested.p)} tests, corrected (Holm), at the level {LEVEL:g}"
    if p >= LEVEL:
        share = f"a runner-up kept at {percent(tested.least_share)} more of {TIES}, or "
        power = (
            f"With probability {FOUND} {share if tested.least_share < 1 else ''}a temperature off by "
            f"{percent(tested.least_shift)} (KL {number(tested.least_kl, 2)} nats a token) would "
            "have been found."
        )
        return Finding("", GOOD, f"the reference's distribution; {by}.", p, power)
    name = "the ranks of its tokens are others"
    if tested.kept > abs(tested.surprise):
        name = f"a relaxed rule: the runner-up is too frequent at {TIES}"
    elif tested.p[0] < LEVEL:
        name = f"as at temperature {number(tested.temperature)}"
        name += ", or with a truncation (top-k, top-p, min-p)" if tested.temperature < 1 else ""
    return Finding("", BAD, f"another distribution, {name}; {by}.", p)


def _worst(prompt: int, scores: Scores) -> Difference:
    at = int(scores.gap.argmax())
    where = f"Prompt {prompt + 1}, token {at + 1}: rank {count(int(scores.rank[at]))}"
    return Difference(float(scores.gap[at]), f"{where}, z/z₁ {number(scores.ratio[at])}")


def _name(scores: Scores, sigma: float, *, known: bool) -> str:
    """Name what makes tokens that are not the reference's. ``known``: whether the server's log
    probabilities say how far its numbers are from the reference's."""
    if sigma > MOST:
        return "another quantisation" if sigma < ANOTHER_MODEL else "another model"
    far = scores.gap > 4 * sigma
    rank, ratio = int(scores.rank[far].max(initial=1)), float(scores.ratio[far].min(initial=1.0))
    if rank > 2:
        return f"tokens down to rank {count(rank)}: unverified drafts" + (
            "" if known else ", or another model"
        )
    rule = f"a relaxed rule, which keeps the runner-up down to z₂/z₁ = {number(ratio)}"
    return rule if known else f"undecided between {rule}, and another quantisation"
