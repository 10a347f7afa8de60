"""The results of the votes on the page: one row a pair of rules, the latest votes, and the downloads."""

from __future__ import annotations

import io
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from evaluation.format import MISSING, count, plural, share, shorten
from storage import Choice, RunStore, StorageError, StoredVote
from ui.kit.errors import error_message
from ui.kit.labels import rule_label
from ui.kit.palette import LANES, NEUTRAL
from ui.kit.panel import panel_component, render
from ui.services import Services
from ui.tabs.votes.results import PairResult, Results, results, winner, write_vote_results_csv

RECENT = 20  # votes in the list
NONE_YET = "No vote is cast yet. Write two answers above, read both, and say which is better."
_CHOICES = {Choice.TIE: "Tie", Choice.BOTH_BAD: "Both bad"}


def tally_html(found: Results, message: str = NONE_YET) -> str:
    """The value of the component; ``message`` is shown where there is nothing."""
    return render(
        "tabs/votes/tally.html.jinja",
        pairs=[_pair(pair) for pair in found.pairs],
        votes=[_vote(vote) for vote in found.votes[:RECENT]],
        head=f"The last {RECENT} of {plural(len(found.votes), 'vote')}" if len(found.votes) > RECENT else "All votes",
        message=message,
        kinds=("first", "second", "tie", "bad"),
        colours=(LANES[0], LANES[1], NEUTRAL),
    )


def tally_now(store: RunStore, *, public: bool = False) -> str:
    """The results as they are; what went wrong where they cannot be read."""
    try:
        return tally_html(results(store))
    except StorageError as error:
        return tally_html(Results(), error_message(error, public=public))


def _pair(pair: PairResult) -> dict[str, Any]:
    low, high = pair.interval
    counts = (pair.first_wins, pair.second_wins, pair.ties, pair.both_bad)
    return {
        "names": [rule_label(rule) for rule in (pair.first, pair.second)],
        "shares": [round(value / pair.votes, 4) if pair.votes else 0 for value in counts],
        "counts": [count(value) for value in counts],
        "votes": count(pair.votes),
        "rate": share(pair.win_rate),
        "decided": f"of {count(pair.decided)} decided" if pair.decided else "",
        "interval": f"{share(low)} to {share(high)}" if pair.decided else MISSING,
        "same": count(pair.same_text),
    }


def _vote(vote: StoredVote) -> dict[str, str]:
    won = winner(vote)
    return {
        "id": vote.id,
        "created": vote.created_at.isoformat(),
        "prompt": shorten(vote.prompt),
        "rules": f"A {rule_label(vote.left_rule)}, B {rule_label(vote.right_rule)}",
        "choice": rule_label(won) if won else _CHOICES[vote.choice],
        "comment": vote.comment,
        "comparison": vote.comparison_id,
    }


def tally_component() -> gr.HTML:
    return panel_component(tally_html(Results()), elem_id="votes-tally")


def vote_routes(services: Services) -> list[Route]:
    """``/votes/vote_results.csv``: what the table of results shows."""

    def send(request: Request) -> Response:
        stream = io.StringIO(newline="")
        try:
            write_vote_results_csv(results(services.seen_by(request).store).pairs, stream)
        except StorageError as error:
            return PlainTextResponse(f"{error_message(error, public=services.public)}\n", 503)
        headers = {"content-disposition": 'attachment; filename="vote_results.csv"'}
        return Response(stream.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)

    return [Route("/votes/vote_results.csv", send, methods=["GET"])]
