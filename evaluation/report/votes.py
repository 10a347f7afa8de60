"""What people and a language model preferred: a rule's text or strict's. Counts and Wilson's interval."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from evaluation.report.caveats import lane_name
from evaluation.report.values import Interval, VoteRow
from evaluation.statistics import over, wilson
from evaluation.study.plan import BASELINE, Models, Plan
from mars_core.types import ModelRef
from storage import Choice, Preferred, RunRecord, RunStore, StoredJudgement


def human_votes(store: RunStore, plan: Plan) -> tuple[VoteRow, ...]:
    """All votes of the page between strict and a rule of the plan with its models, whatever the prompt; rules as in the plan."""
    rules = dict.fromkeys(lane.name for lane in plan.lanes if lane.name != BASELINE)
    pairs = [(vote, {vote.left_rule, vote.right_rule}) for vote in store.votes()]
    votes = [vote for vote, pair in pairs if BASELINE in pair and pair & rules.keys()]
    records = {
        record.id: record
        for record in store.records([run for vote in votes for run in (vote.left_run, vote.right_run)])
    }
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for vote in votes:
        if all(_made_by(plan.models, records[run]) for run in (vote.left_run, vote.right_run)):
            rule = vote.right_rule if vote.left_rule == BASELINE else vote.left_rule
            winner = {Choice.LEFT: vote.left_rule, Choice.RIGHT: vote.right_rule}.get(vote.choice)
            counts[rule]["ties" if winner is None else "losses" if winner == BASELINE else "wins"] += 1
    return tuple(_row(rule, counts[rule]) for rule in rules if rule in counts)


def judged(judgements: Iterable[StoredJudgement], plan: Plan) -> tuple[VoteRow, ...]:
    """Tasks that were judged in both orders, by lane: a win or a loss where both agree, else a tie (MT-bench, 2306.05685, 3.4)."""
    orders: dict[tuple[int, int], list[Preferred]] = defaultdict(list)
    for judgement in judgements:
        orders[judgement.lane, judgement.task].append(judgement.choice)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for (lane, _), choices in orders.items():
        if len(choices) == 2:
            agreed = choices[0] if len(set(choices)) == 1 else Preferred.TIE
            counts[lane]["ties" if agreed is Preferred.TIE else "wins" if agreed is Preferred.RULE else "losses"] += 1
    return tuple(_row(lane_name(plan, lane), counts[lane]) for lane in sorted(counts))


def _row(rule: str, counts: Mapping[str, int]) -> VoteRow:
    wins, losses, ties = (counts[name] for name in ("wins", "losses", "ties"))
    return VoteRow(rule, wins, losses, ties, Interval(over(wins, wins + losses), *wilson(wins, wins + losses)))


def _made_by(models: Models, run: RunRecord) -> bool:
    """Whether a run was made with the target of the study, and its drafter if it had one."""
    drafter = run.config.drafter.model
    drafts = drafter is None or any(_same(drafter, other) for other in (models.draft, models.head))
    return _same(run.config.target, models.target) and drafts


def _same(one: ModelRef | None, other: ModelRef | None) -> bool:
    """The same name, and the same revision where both are known."""
    if one is None or other is None:
        return one is other
    return one.name == other.name and (None in (one.revision, other.revision) or one.revision == other.revision)
