"""What would have followed if a relaxed token had been rejected, as the panel below the lanes. No
gradio."""

from __future__ import annotations

from display.blocks import Opened, Side
from display.format import plural, visible
from mars_core.counterfactual import Counterfactual, compared, ending
from mars_core.types import Trace
from ui.kit.labels import lane_label
from ui.kit.panel import render
from ui.kit.values import plain
from ui.result.sentence import answer


def counterfactual_html(run: Trace, position: int, strict: Trace, relaxed: Trace) -> str:
    """``strict``, ``relaxed``: the continuations of the run from before and from after its relaxed
    token at ``position``. Raises ValueError where one of them has not ended."""
    endings = [ending(run, each, position) for each in (strict, relaxed)]
    if endings[0] is None or endings[1] is None:
        why = strict.error or relaxed.error or "It was stopped."
        raise ValueError(f"The two continuations were not both written. {why}")
    token = next(token for token in run.tokens if token.position == position)
    result = compared(run, position, endings[0], endings[1])
    sides = (
        Side(
            f"Rejected: “{visible(token.own_piece)}”, the target’s token", strict.text, token.start
        ),
        Side(f"Relaxed: “{visible(token.piece)}”", relaxed.text, token.start),
    )
    return render(
        "result/panels/counterfactual.html.jinja",
        title=f"If “{visible(token.piece)}” had been rejected",
        lead=f"{lane_label(run.config)}, position {position}. Strict continues in both texts, with the same noise.",
        text=f"{_meeting(result)}{plain(answer(strict, relaxed))}",
        block=Opened("", "", "", "", sides),
    )


def _meeting(result: Counterfactual) -> str:
    change = result.relaxed_logprob - result.strict_logprob
    likelihood = f"mean ln p of the relaxed text is {abs(change):.2g} nats {'below' if change < 0 else 'above'} the other’s."
    if result.meets_after is None:
        return f"The texts do not meet again; {likelihood}"
    return f"The texts meet again after {plural(result.meets_after, 'token')}; {likelihood}"
