"""The run of a served model as a Trace: what the server reported is filled in, everything else is
nan, or −1 for whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from evaluation.served.answer import Answer, Part
from evaluation.served.counts import counts_of, with_counts
from evaluation.served.tokens import STOPS, count_of, of_part, through_stop, token_of, tokens_of
from mars_core.telemetry import UNREPORTED, summarise
from mars_core.types import (
    UNKNOWN,
    DraftNode,
    Outcome,
    RunConfig,
    Status,
    Step,
    StopReason,
    Token,
    Trace,
)

NAN = math.nan
MAX_DRAFT = 1024  # tokens per step


class TwoBest(NamedTuple):
    """The target's two largest logits at a position, with their ids."""

    z1: float
    z2: float
    id1: int
    id2: int


@dataclass(frozen=True, slots=True)
class ServedStep:
    """One draft and one target pass. ``emitted``: number of tokens that it added to the text, the
    ``kept`` drafted ones first.

    ``lead``: tokens before these without a draft, such as the first token of a text, which comes
    from the prefill. The sequences are empty, or have one value per drafted token: its id, whether
    the rule relaxed there, and what the target had there.
    """

    drafted: int
    kept: int
    emitted: int
    lead: int = 0
    ids: Sequence[int] = ()
    relaxed: Sequence[bool] = ()
    best: Sequence[TwoBest] = ()


_UNKNOWN_STEP = ServedStep(UNKNOWN, UNKNOWN, 1)


def served_trace(
    config: RunConfig,
    *,
    text: str,
    tokens: Sequence[Token],
    stop_reason: StopReason,
    new_tokens: int = UNKNOWN,
    prompt_ids: Sequence[int] = (),
    prompt_tokens: int = UNKNOWN,
    steps: Sequence[ServedStep] | None = None,
    ttft_s: float = NAN,
    wall_s: float = NAN,
    error: str = "",
) -> Trace:
    """Make a completed run, or a failed one with an ``error``. Without ``tokens`` the text is a
    single token with id −1.

    ``steps``: their emitted tokens must add up to ``tokens``, else they are as unknown as with
    None: then all tokens are in one step with outcome bonus. Without ``relaxed`` in the steps, kept
    tokens have outcome accepted and the counts of both are −1, unless the rule is strict.
    """
    new_tokens = len(tokens) if tokens else new_tokens
    all_tokens = tokens or ([token_of(piece=text)] if text else [])
    known = steps is not None and sum(step.emitted for step in steps) == len(tokens)
    one_step = [ServedStep(UNKNOWN, UNKNOWN, len(all_tokens))] if all_tokens else []
    reported = list(steps or ()) if known else one_step
    built = tuple(_steps(config, reported, all_tokens, text))
    prompt_tokens = len(prompt_ids) or prompt_tokens
    summary = summarise(
        built, prompt_tokens=prompt_tokens, prefill_s=NAN, peak_memory_bytes=UNKNOWN
    )
    rate = new_tokens / wall_s if new_tokens != UNKNOWN and wall_s else NAN
    summary = replace(
        summary, new_tokens=new_tokens, wall_s=wall_s, ttft_s=ttft_s, tokens_per_s=rate
    )
    if not known:
        unknown: dict[str, Any] = {**UNREPORTED}
        summary = replace(summary, **unknown)
    elif config.rule.name != "strict" and any(step.kept and not step.relaxed for step in reported):
        summary = replace(summary, accepted=UNKNOWN, relaxed=UNKNOWN, relaxed_share=NAN)
    status = Status.FAILED if error else Status.COMPLETED
    return Trace(config, status, stop_reason, tuple(prompt_ids), text, built, summary, error)


def failed_trace(config: RunConfig, error: Exception) -> Trace:
    return served_trace(config, text="", tokens=(), stop_reason=StopReason.ERROR, error=str(error))


def answer_trace(config: RunConfig, answer: Answer) -> Trace:
    """Make the run of an answer, with vLLM's detailed speculative metrics where it has them.
    Accepted tokens past a stop string, which vLLM reports and counts, are no part of it; their
    number is unknown without the texts of the tokens."""
    tokens, metrics = tokens_of(answer, config.sampling), answer.extra.get("metrics")
    reason, ended = STOPS.get(answer.finish_reason), answer.finish_reason[:40]
    error = "" if reason else f"The server ended the answer with finish reason {ended!r}."
    new_tokens = count_of(answer.usage.get("completion_tokens"))
    stopped = answer.extra.get("stop_reason")
    stops = [*config.prompt.stop, *([stopped] if isinstance(stopped, str) else [])]
    through = through_stop(tokens, stops) if reason is StopReason.EOS else 0
    if through or isinstance(stopped, str):
        tokens, reason = tokens[:through], StopReason.STOP_STRING
        new_tokens = UNKNOWN if answer.token_ids else new_tokens
    trace = served_trace(
        config,
        text=answer.text,
        tokens=tokens,
        stop_reason=reason or StopReason.ERROR,
        new_tokens=new_tokens,
        prompt_ids=answer.prompt_ids or (),
        prompt_tokens=count_of(answer.usage.get("prompt_tokens")),
        steps=vllm_steps(
            metrics.get("speculative_decoding") if isinstance(metrics, dict) else None, len(tokens)
        ),
        ttft_s=answer.ttft_s,
        wall_s=answer.wall_s,
        error=error,
    )
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        return with_counts(trace, counts_of(answer.extra))
    return trace


def part_step(config: RunConfig, part: Part, index: int, start: int) -> Step:
    """Return what an event of a stream adds at a position of the text, as a step of which nothing
    else is known yet."""
    token = of_part(part, config.sampling)
    row = _placed(_UNKNOWN_STEP, 0, token, Outcome.BONUS, greedy=config.sampling.temperature == 0)
    end = start + len(part.text)
    row = replace(row, step=index, position=index, start=start, end=end)
    return Step(index, UNKNOWN, UNKNOWN, NAN, NAN, part.at_s, (), (row,))


def vllm_steps(reported: Any, tokens: int) -> list[ServedStep] | None:
    """Return vLLM's ``per_step_drafted`` and ``per_step_accepted`` for an output of so many tokens;
    None where they do not explain it.

    The first token comes from the prefill and is counted with the first step. The last step may
    have kept more than was emitted.
    """
    try:
        pairs = list(zip(reported["per_step_drafted"], reported["per_step_accepted"], strict=True))
    except (LookupError, TypeError, ValueError):
        return None
    steps: list[ServedStep] = []
    for drafted, accepted in pairs:
        lead = int(not steps)
        if not (
            type(drafted) is type(accepted) is int
            and 0 <= accepted <= drafted <= MAX_DRAFT
            and tokens > 0
        ):
            return None
        emitted = min(lead + accepted + 1, tokens)
        steps.append(ServedStep(drafted, min(accepted, emitted - lead), emitted, lead))
        tokens -= emitted
    return steps if steps and not tokens else None


def _steps(
    config: RunConfig, steps: Sequence[ServedStep], tokens: Sequence[Token], text: str
) -> Iterator[Step]:
    """Yield steps; a piece that is not the continuation of the text has no characters; the last
    token has the rest of the text."""
    greedy = config.sampling.temperature == 0
    position = end = 0
    for index, step in enumerate(steps):
        rows: list[Token] = []
        emitted = tokens[position : position + step.emitted]
        for offset, token in enumerate(emitted, start=-step.lead):
            start = end
            end += len(token.piece) if text.startswith(token.piece, end) else 0
            end = len(text) if position + 1 == len(tokens) else end
            if offset == step.kept < len(step.ids):
                refused = token_of(step.ids[offset])
                row = _placed(step, offset, refused, Outcome.REJECTED, greedy=greedy)
                rows.append(replace(row, position=position, step=index, start=start, end=start))
            row = _placed(step, offset, token, _outcome(step, offset), greedy=greedy)
            rows.append(replace(row, position=position, step=index, start=start, end=end))
            position += 1
        kept = emitted[step.lead :][: max(step.kept, 0)]
        nodes = tuple(_nodes(step, kept))
        yield Step(index, step.drafted, step.kept, NAN, NAN, NAN, nodes, tuple(rows))


def _outcome(step: ServedStep, offset: int) -> Outcome:
    """Return the outcome of the token at ``offset``, counted from the first drafted one."""
    if 0 <= offset < step.kept:
        return Outcome.RELAXED if step.relaxed and step.relaxed[offset] else Outcome.ACCEPTED
    return Outcome.RECOVERED if 0 <= offset < step.drafted else Outcome.BONUS


def _nodes(step: ServedStep, kept: Sequence[Token]) -> Iterator[DraftNode]:
    ids = step.ids or [UNKNOWN] * step.drafted
    for offset, token in enumerate((*kept, *map(token_of, ids[len(kept) :]))):
        outcome = _outcome(step, offset) if offset < len(kept) else Outcome.REJECTED
        yield DraftNode(token.id, token.piece, offset, offset + 1, NAN, NAN, outcome)


def _placed(
    step: ServedStep, offset: int, token: Token, outcome: Outcome, *, greedy: bool
) -> Token:
    """Return a token with its place in a step. ``offset``: as in ``_outcome``; the logits of the
    step are those after which the token was drafted or drawn."""
    drafted = 0 <= offset < step.kept or outcome is Outcome.REJECTED
    placed = replace(
        token,
        draft_position=max(offset, 0) + 1,
        node=offset + 1 if drafted else 0,
        parent=max(offset, 0),
        outcome=outcome,
    )
    if not 0 <= offset < len(step.best):
        return placed
    best = step.best[offset]
    gap = best.z1 - best.z2
    return replace(
        placed,
        **best._asdict(),
        r=best.z2 / best.z1 if best.z1 > 0 else NAN,
        gap=gap,
        own=best.id1 if greedy else UNKNOWN,
        rank={best.id1: 1, best.id2: 2}.get(token.id, UNKNOWN),
        edge=gap if greedy else NAN,
    )
