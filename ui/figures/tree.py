"""The draft tree of one step as a figure: what was drafted, what was accepted, and the target's
token at the end. No gradio, no store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from display.format import number, plural, shorten, visible
from display.palette import NEUTRAL, OUTCOME_STYLES
from display.plot import FAINT, TEXT, Data, FigurePart, Plot, PointValue, axis, drawn, plotly_text
from mars_core.types import Outcome, Step, Token, Trace

LEAF_PX = 21  # height of one branch
TRUNK = 0.12  # columns between a node and the line that comes down to it
LONGEST = 14  # characters of a piece beside its node
FROM_TARGET = (Outcome.RECOVERED, Outcome.BONUS)
HEADS = ("step", "node", "parent", "depth", "outcome", "in_text", "token_id", "piece", "p", "q")
_SIZES = dict(zip(Outcome, (10, 12, 7, 10, 11), strict=True))


class Node(NamedTuple):
    """Node 0 is the root, the last token of the step before; its ``outcome`` is None. ``accepted``: on
    the path that became text; ``x`` is the depth, ``y`` the branch."""

    number: int
    parent: int
    outcome: Outcome | None
    accepted: bool
    piece: str
    hover: str
    x: int
    values: tuple[PointValue, ...] = ()  # the last of HEADS
    y: float = 0.0


def tree_plot(trace: Trace, step: int) -> Plot:
    """Draw the tree of step number ``step``, which must be one of the trace's."""
    nodes = tree_nodes(trace, step)
    rows = [(step, *_numbers(node)) for node in nodes if node.outcome]
    return Plot(tree_figure(nodes), Data(HEADS, rows), _title(trace.steps[step]))


def tree_nodes(trace: Trace, step: int) -> list[Node]:
    """Return the nodes with their coordinates, parents before children: the root, what was drafted,
    then the recovered or bonus token."""
    chosen = trace.steps[step]
    nodes, accepted = [_root(trace, step)], {token.node for token in chosen.emitted if token.node}
    for index, node in enumerate(chosen.nodes, start=1):
        facts = f"p {number(node.p)}   q {number(node.q)}<br>depth {node.depth}, node {index}"
        hover = _hover(node.piece, f"  {node.outcome}<br>{facts}")
        in_text, values = index in accepted, (node.id, node.piece, node.p, node.q)
        nodes.append(
            Node(index, node.parent, node.outcome, in_text, node.piece, hover, node.depth, values)
        )
    for token in chosen.emitted:
        if token.outcome not in FROM_TARGET:
            continue
        hover = _hover(
            token.piece, f"  {token.outcome}<br>p {number(token.p)}<br>the target's own token"
        )
        depth, values = nodes[token.parent].x + 1, (token.id, token.piece, token.p, token.q)
        nodes.append(
            Node(len(nodes), token.parent, token.outcome, True, token.piece, hover, depth, values)
        )
    rows = _rows(nodes)
    return [node._replace(y=rows[node.number]) for node in nodes]


def _root(trace: Trace, step: int) -> Node:
    before = next((s.emitted[-1] for s in reversed(trace.steps[:step]) if s.emitted), None)
    piece = before.piece if before else "prompt"
    words = "the last token before this step" if before else "the end of the prompt"
    return Node(0, -1, None, True, piece, _hover(piece, f"<br>{words}"), 0)


def _hover(piece: str, facts: str) -> str:
    return f"<b>{plotly_text(piece)}</b>{facts}"


def _rows(nodes: Sequence[Node]) -> dict[int, float]:
    """Node → row: leaves one below the other, the accepted path on top, a parent in line with
    its first child."""
    children: dict[int, list[Node]] = {node.number: [] for node in nodes}
    for node in nodes[1:]:
        children[node.parent].append(node)
    rows: dict[int, float] = {}
    order, stack = list[Node](), [nodes[0]]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += sorted(
            children[node.number], key=lambda child: child.accepted
        )  # the last one is next
        if not children[node.number]:
            rows[node.number] = float(len(rows))
    for node in reversed(order):
        if children[node.number]:
            first = max(children[node.number], key=lambda child: child.accepted)
            rows[node.number] = rows[first.number]
    return rows


def _title(step: Step) -> str:
    last = step.emitted[-1] if step.emitted else None
    if not step.nodes:
        return f"Step {step.index}: nothing was drafted; the target wrote {_named(last)} itself."
    relaxed = sum(token.outcome is Outcome.RELAXED for token in step.emitted)
    more = f", {relaxed} of them relaxed" if relaxed else ""
    ending = (
        f", then {_named(last)}, {last.outcome}" if last and last.outcome in FROM_TARGET else ""
    )
    return f"Step {step.index}: {plural(len(step.nodes), 'token')} drafted, {step.kept} kept{more}{ending}."


def _named(token: Token | None) -> str:
    return f"“{visible(token.piece.removeprefix(' ') or token.piece)}”" if token else "nothing"


def _numbers(node: Node) -> tuple[PointValue, ...]:
    """Return the numbers of a token; one that the target drew has no number."""
    number = 0 if node.outcome in FROM_TARGET else node.number
    return number, node.parent, node.x, node.outcome, node.accepted, *node.values


def tree_figure(nodes: Sequence[Node]) -> go.Figure:
    """Depth to the right, branches downwards; the accepted path is thick, every outcome has its colour
    and its shape."""
    present = {node.outcome for node in nodes}
    depth, rows = max(node.x for node in nodes), max(5, *(node.y + 1 for node in nodes))
    drafted = max((node.x for node in nodes if node.outcome not in (None, *FROM_TARGET)), default=0)
    edges = [_edges(nodes, accepted=accepted) for accepted in (False, True)]
    marks = [_marks(nodes, outcome) for outcome in (None, *Outcome) if outcome in present]
    ticks = {"tickvals": list(range(1, drafted + 1)), "showgrid": False, "zeroline": False}
    return drawn(
        [*edges, *marks],
        height=round(LEAF_PX * rows) + 84,
        margin={"l": 14, "r": 10, "t": 40, "b": 42},
        hovermode="closest",
        xaxis=axis("depth in the draft", range=[-0.25, depth + 0.9], **ticks),
        yaxis=axis(range=[rows - 0.4, -0.8], visible=False),
    )


def _edges(nodes: Sequence[Node], *, accepted: bool) -> FigurePart:
    """Lines from parent to child: out along the parent's row, then down to the child's, left of
    every label there."""
    x: list[float | None] = []
    y: list[float | None] = []
    for child in nodes[1:]:
        if child.accepted is accepted:
            parent = nodes[child.parent]
            x += [parent.x, child.x - TRUNK, child.x - TRUNK, child.x, None]
            y += [parent.y, parent.y, child.y, child.y, None]
    line = {"color": NEUTRAL, "width": 3.5} if accepted else {"color": FAINT, "width": 1}
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "line": line,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _marks(nodes: Sequence[Node], outcome: Outcome | None) -> FigurePart:
    chosen = [node for node in nodes if node.outcome is outcome]
    emphasis = ("<b>", "</b>") if outcome is not Outcome.REJECTED else ("", "")
    return {
        "type": "scatter",
        "x": [node.x for node in chosen],
        "y": [node.y for node in chosen],
        "mode": "markers+text",
        "name": outcome.value if outcome else "root",
        "text": [_label(node.piece).join(emphasis) for node in chosen],
        "textposition": "top right",
        "textfont": {"size": 11, "color": TEXT},
        "customdata": [node.hover for node in chosen],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": _marker(outcome),
        "showlegend": outcome is not None,
        "cliponaxis": False,
    }


def _label(piece: str) -> str:
    """Return the text without the one space that most words begin with: hover shows it."""
    return plotly_text(shorten(visible(piece.removeprefix(" ") or piece), LONGEST))


def _marker(outcome: Outcome | None) -> FigurePart:
    if outcome is None:
        return {"symbol": "circle-open", "size": 10, "color": NEUTRAL, "line": {"width": 2}}
    look, line = OUTCOME_STYLES[outcome], {"width": 1, "color": OUTCOME_STYLES[outcome].light}
    return {"symbol": look.symbol, "size": _SIZES[outcome], "color": look.light, "line": line}
