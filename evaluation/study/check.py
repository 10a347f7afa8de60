"""Checks before the first run whether these models can run a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evaluation.plan.plan import Plan, Task
from evaluation.scoring.metrics import check_libraries
from evaluation.study.engine import config_of
from mars_core.drafting import context_limit
from mars_core.rules import reads_score
from mars_core.types import RunConfig
from storage import RunStore

if TYPE_CHECKING:
    from mars_core.models import Pair
    from mars_core.session import Session


def check(plan: Plan, session: Session) -> None:
    """Raises ValueError with one sentence for a setting that cannot be run, a suite that cannot be
    scored, a prompt that does not fit."""
    from mars_core.runs.validation import validate

    check_libraries(plan.suites, execute_code=plan.execute_code)
    settings = list(every_setting(plan, session))
    for config in settings:
        validate(config, session.pair)
    limit = min(context_limit(session.pair, config.drafter) for config in settings)
    for suite in plan.suites:
        for item in suite.items:
            length = session.count_tokens(plan.prompt(item))
            if length + plan.max_new_tokens > limit.tokens:
                raise ValueError(
                    f"Item {item.id} of suite {suite.name} has {length} tokens and max_new_tokens "
                    f"is {plan.max_new_tokens}; together they must be at most {limit.tokens}, the "
                    f"context of {limit.model}."
                )


def every_setting(plan: Plan, session: Session) -> Iterator[RunConfig]:
    """Yield the first item in every lane at every temperature."""
    for temperature in plan.temperatures:
        for lane in range(len(plan.lanes)):
            yield config_of(plan, session, Task(0, 0, 0, temperature), lane)


def every_prompt(plan: Plan, session: Session) -> Iterator[RunConfig]:
    """Yield every item in the first lane."""
    for number, suite in enumerate(plan.suites):
        for item in range(len(suite.items)):
            yield config_of(plan, session, Task(number, item, 0, plan.temperatures[0]), 0)


def longest(plan: Plan, session: Session) -> int:
    """Return the tokens of the longest conversation, without those of its later questions."""
    return max(
        session.count_tokens(plan.prompt(item)) + len(item.turns) * plan.max_new_tokens
        for suite in plan.suites
        for item in suite.items
    )


def check_models(plan: Plan, pair: Pair) -> None:
    """Raises ValueError if the models are not those of the plan."""
    models, read = plan.models, any(reads_score(lane.rule) for lane in plan.lanes)
    for before, now in (
        (models.target, pair.target_ref),
        (models.draft, pair.draft_ref),
        (models.head, pair.head_ref),
        *([(models.classifier, pair.classifier_ref)] if read else []),
    ):
        if before != now:
            old, new = (
                f"{ref.name} ({ref.revision or 'no revision'})" if ref else "no model"
                for ref in (before, now)
            )
            raise ValueError(
                f"The study was planned with {old}, but this is {new}; the results would not be "
                "comparable."
            )


def check_sampler(plan: Plan, store: RunStore, study_id: str) -> None:
    """Raises ValueError if the study has runs that were drawn by another sampler, and would now get
    others beside them."""
    left = store.study_progress(study_id)
    drawn = [
        result.run_ids[0]
        for result in store.results(study_id)
        if result.run_ids and plan.task(result.task).temperature > 0
    ]
    if left.done < left.tasks and drawn:
        for trace in store.traces((drawn[0], drawn[-1])).values():
            if trace.config.draws_otherwise:
                raise ValueError(
                    f"The study was begun by version {trace.config.environment.get('app', '?')} "
                    "with another sampler, whose texts above temperature 0 are others; resume it "
                    "with that version, or start a new study."
                )
