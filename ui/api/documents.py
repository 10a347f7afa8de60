"""What a program gets: runs, rules, pairs and tokens as JSON, every number by its name in the
exports. No gradio.

JSON has no nan and no infinity: what is not known is null, infinity is the text "inf".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from display.names import rule_title
from mars_core.drafting import offered
from mars_core.models import ModelPool, PairSpec
from mars_core.models.catalog import SMALL_TREE
from mars_core.rules import RULES, Siblings
from mars_core.types import Outcome, PrefixToken, RunConfig, Status, Token
from storage import StoredComparison, StoredRun
from storage.export.cells import finite
from ui.kit.labels import exact_text, lane_label
from ui.result.result import run_speeds
from ui.result.sentence import divergence, speed_ratio

Document = dict[str, Any]
_PATH = {
    "path": "steps_computed_with"
}  # gradio_client takes an object with a "path" for a file, and would fetch it


def _document(**fields: Any) -> Document:
    return dict(finite(fields))


def comparison_document(stored: StoredComparison) -> Document:
    """Return a saved comparison without its tokens; every run against the leftmost."""
    states = {run.trace.status for run in stored.runs}
    return _document(
        id=stored.id,
        state=next(
            (s for s in (Status.FAILED, Status.CANCELLED, Status.COMPLETED) if s in states),
            Status.CANCELLED,
        ),
        created_at=stored.created_at.isoformat(),
        prompt=stored.prompt.text,
        system=stored.prompt.system,
        chat=stored.prompt.chat,
        stop=stored.prompt.stop,
        runs=[_run(run, stored.runs[0], run_speeds(stored)) for run in stored.runs],
    )


def _run(run: StoredRun, first: StoredRun, speeds: Mapping[int, Sequence[float]]) -> Document:
    """``speeds``: tokens per second of every lane's run and its repeats."""
    trace, baseline = run.trace, first.trace
    parted = divergence(baseline, trace)
    ended = baseline.status is trace.status is Status.COMPLETED
    measured = speed_ratio(baseline, trace, speeds[first.lane], speeds[run.lane]).ratio
    return _document(
        lane=run.lane,
        order=run.order,
        label=lane_label(trace.config),
        **_settings(trace.config),
        status=trace.status,
        stop_reason=trace.stop_reason,
        error=trace.error,
        text=trace.text,
        token_ids=trace.token_ids,
        **asdict(trace.summary),
        tv_kind=trace.config.shift_kind,
        speeds=speeds[run.lane],
        speed_ratio=measured.value,
        speed_ratio_low=measured.low,
        speed_ratio_high=measured.high,
        same_text=parted is None if ended else None,
        divergence=asdict(parted) if parted else None,
    )


def _settings(config: RunConfig) -> Document:
    drafter, tree = config.drafter, config.drafter.tree
    return {
        "rule": config.rule.name,
        "parameters": dict(config.rule.parameters),
        "target": asdict(config.target),
        "draft": asdict(drafter.model) if drafter.model else None,
        "drafter": drafter.kind,
        "k": drafter.k,
        "draft_mode": drafter.mode,
        "tree": asdict(tree) if tree else None,
        **asdict(config.sampling),
        "processors": finite(config.sampling.processors.chosen),
        "max_new_tokens": config.max_new_tokens,
        "seed": config.seed,
        "history": [each._asdict() for each in config.prompt.history],
        "thinking": config.prompt.thinking,
        "exact": exact_text(config),
        "prefix": config.prefix,
        "spent": config.spent,
        "environment": {_PATH.get(name, name): value for name, value in config.environment.items()},
    }


def token_documents(stored: StoredComparison, lane: int) -> list[Document]:
    """Return every token of a run, given ones first, refused ones before the one that replaced
    them. Raises ValueError."""
    traces = {run.lane: run.trace for run in stored.runs}
    if lane not in traces:
        lanes = ", ".join(map(str, traces)) or "none"
        raise ValueError(f"The comparison has no run in lane {lane}; its lanes: {lanes}.")
    trace = traces[lane]
    prefix = [
        {"position": at, **_token(prefix, trace.text)} for at, prefix in enumerate(trace.given)
    ]
    return [*prefix, *(_token(token, trace.text) for step in trace.steps for token in step.tokens)]


def _token(token: PrefixToken | Token, text: str) -> Document:
    text_of = text[token.start : token.end]
    if isinstance(token, PrefixToken):
        return {"outcome": "given", **token._asdict(), "text": text_of}
    top = [alternative._asdict() for alternative in token.top]
    return _document(
        **asdict(token) | {"text": "" if token.outcome is Outcome.REJECTED else text_of, "top": top}
    )


def comparison_row(row: Mapping[Any, Any]) -> Document:
    columns = ("id", "prompt", "target", "rules", "status", "new_tokens", "tokens_per_s", "tau")
    return _document(
        created_at=row["created_at"].isoformat(), **{name: row[name] for name in columns}
    )


def rule_documents() -> list[Document]:
    return [
        _document(
            name=rule.name,
            summary=rule.summary,
            formula=rule.formula,
            source=rule.source,
            title=rule_title(rule.name),
            parameters=[asdict(parameter) for parameter in rule.parameters],
            draft_modes=rule.modes,
            trees=bool(rule.modes) and rule.siblings is not Siblings.REFUSED,
            needs_draft_probabilities=rule.needs_distribution,
        )
        for rule in RULES.values()
    ]


def pair_documents(
    catalog: Sequence[PairSpec], pool: ModelPool, *, public: bool = False
) -> list[Document]:
    """Return every pair that is offered, and whether it fits here; in public without the machine's
    memory and device."""
    documents = []
    for spec in catalog:
        fit, tree = pool.fits(spec), asdict(spec.tree or SMALL_TREE)
        here = {
            "drafters": offered(spec),
            "tree": tree,
            "loaded": spec in pool.loaded(),
            "fits": fit.fits,
        }
        documents.append(_document(**asdict(spec) | here | ({} if public else asdict(fit))))
    return documents
