"""What people and a language model preferred: a rule's text or strict's. Counts and Wilson's interval."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from evaluation.report.caveats import lane_name
from evaluation.report.values import Interval, VoteRow
from evaluation.statistics import over, wilson
from evaluation.study.plan import BASELINE, Models, Plan
from mars_core.types import ModelRef
from storage import Choice, Preferred, RunRecord, RunStore, StoredJudgement, StoredVote

Counts = Counter[str]


def human_votes(store: RunStore, plan: Plan) -> tuple[VoteRow, ...]:
    """All votes of the page between strict and a rule of the plan with its models, whatever the prompt; rules as in the plan."""
    rules = {lane.name for lane in plan.lanes} - {BASELINE}
    asked = [vote for vote in store.votes() if BASELINE in _sides(vote) and rules & set(_sides(vote))]
    runs = [run for vote in asked for run in (vote.left_run, vote.right_run)]
    records = {record.id: record for record in store.records(runs)}
    counts: dict[str, Counts] = defaultdict(Counter)
    for vote in asked:
        if _same_models(plan.models, (records[vote.left_run], records[vote.right_run])):
            left, right = _sides(vote)
            counts[right if left == BASELINE else left][_won(vote)] += 1
    return tuple(_row(rule, counts[rule]) for rule in dict.fromkeys(lane.name for lane in plan.lanes) if rule in counts)


def judged(judgements: Iterable[StoredJudgement], plan: Plan) -> tuple[VoteRow, ...]:
    """Tasks that were judged in both orders, by lane: a win or a loss where both agree, else a tie (MT-bench, 2306.05685, 3.4)."""
    orders: dict[tuple[int, int], list[Preferred]] = defaultdict(list)
    for judgement in judgements:
        orders[judgement.lane, judgement.task].append(judgement.choice)
    counts: dict[int, Counts] = defaultdict(Counter)
    for (lane, _), choices in orders.items():
        if len(choices) == 2:
            counts[lane][_agreed(choices)] += 1
    return tuple(_row(lane_name(plan, lane), counts[lane]) for lane in sorted(counts))


def _agreed(choices: Sequence[Preferred]) -> str:
    if len(set(choices)) > 1 or choices[0] is Preferred.TIE:
        return "ties"
    return "wins" if choices[0] is Preferred.RULE else "losses"


def _row(rule: str, counts: Mapping[str, int]) -> VoteRow:
    wins, losses, ties = (counts[name] for name in ("wins", "losses", "ties"))
    share = Interval(over(wins, wins + losses), *wilson(wins, wins + losses))
    return VoteRow(rule, wins, losses, ties, share)


def _sides(vote: StoredVote) -> tuple[str, str]:
    return vote.left_rule, vote.right_rule


def _won(vote: StoredVote) -> str:
    if vote.choice not in (Choice.LEFT, Choice.RIGHT):
        return "ties"
    winner = vote.left_rule if vote.choice is Choice.LEFT else vote.right_rule
    return "losses" if winner == BASELINE else "wins"


def _same_models(models: Models, records: Iterable[RunRecord]) -> bool:
    """Whether runs were made with the target of the study, and its drafter if they had one."""
    drafters = [models.draft, models.head, None]
    return all(
        _same(record.config.target, models.target)
        and any(_same(record.config.drafter.model, drafter) for drafter in drafters)
        for record in records
    )


def _same(one: ModelRef | None, other: ModelRef | None) -> bool:
    """The same name, and the same revision where both are known."""
    if one is None or other is None:
        return one is other
    return one.name == other.name and (None in (one.revision, other.revision) or one.revision == other.revision)
