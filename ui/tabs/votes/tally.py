"""The results of the votes on the page: one row a pair of rules, the latest votes, and the downloads."""

from __future__ import annotations

import io
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from storage import Choice, RunStore, StorageError, StoredVote
from ui.kit.assets import asset, to_json
from ui.kit.format import MISSING, count, displayable, plural, share, shorten
from ui.kit.palette import LANES, NEUTRAL
from ui.kit.told import told
from ui.services import Services
from ui.tabs.history.names import rule_words
from ui.tabs.votes.results import PairResult, Results, results, winner, write_vote_results_csv

RECENT = 20  # votes in the list
NONE_YET = "No vote is cast yet. Write two answers above, read both, and say which is better."
_WORDS = {Choice.TIE: "Tie", Choice.BOTH_BAD: "Both bad"}


def tally_json(found: Results, message: str = NONE_YET) -> str:
    """The value of the component; ``message`` is shown where there is nothing."""
    recent = [_vote(vote) for vote in found.votes[:RECENT]]
    head = f"The last {RECENT} of {plural(len(found.votes), 'vote')}" if len(found.votes) > RECENT else "All votes"
    return to_json({"pairs": [_pair(pair) for pair in found.pairs], "votes": recent, "head": head, "message": message})


def tally_now(store: RunStore, *, public: bool = False) -> str:
    """The results as they are; what went wrong where they cannot be read."""
    try:
        return tally_json(results(store))
    except StorageError as error:
        return tally_json(Results(), displayable(told(error, public=public)))


def _pair(pair: PairResult) -> dict[str, Any]:
    low, high = pair.interval
    counts = (pair.first_wins, pair.second_wins, pair.ties, pair.both_bad)
    return {
        "names": [displayable(rule_words(rule)) for rule in (pair.first, pair.second)],
        "shares": [round(value / pair.votes, 4) if pair.votes else 0 for value in counts],
        "counts": [count(value) for value in counts],
        "votes": count(pair.votes),
        "rate": share(pair.win_rate),
        "decided": f"of {count(pair.decided)} decided",
        "interval": f"{share(low)} to {share(high)}" if pair.decided else MISSING,
        "same": count(pair.same_text),
    }


def _vote(vote: StoredVote) -> dict[str, str]:
    won = winner(vote)
    return {
        "created": vote.created_at.isoformat(),
        "prompt": shorten(vote.prompt),
        "rules": displayable(f"A {rule_words(vote.left_rule)}, B {rule_words(vote.right_rule)}"),
        "choice": displayable(rule_words(won)) if won else _WORDS[vote.choice],
        "comment": displayable(vote.comment),
        "comparison": vote.comparison_id,
    }


def tally_component() -> gr.HTML:
    return gr.HTML(
        value=tally_json(Results()),
        html_template=asset("votes_tally.html"),
        js_on_load=asset("votes_tally.js"),
        apply_default_css=False,
        elem_id="votes-tally",
        colours=[LANES[0], LANES[1], NEUTRAL],
    )


def vote_routes(services: Services) -> list[Route]:
    """``/votes/vote_results.csv``: what the table of results shows."""

    def send(request: Request) -> Response:
        stream = io.StringIO(newline="")
        try:
            write_vote_results_csv(results(services.seen_by(request).store).pairs, stream)
        except StorageError as error:
            return PlainTextResponse(f"{told(error, public=services.public)}\n", 503)
        headers = {"content-disposition": 'attachment; filename="vote_results.csv"'}
        return Response(stream.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)

    return [Route("/votes/vote_results.csv", send, methods=["GET"])]
