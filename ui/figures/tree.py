"""The draft tree of one step as a figure: what was drafted, what was kept, and the target's own token at the end. No gradio, no store.

Data half: nodes with places. Drawing half: values to figure. Node 0 is the root, the last token of the step before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from evaluation.format import number, plural, shorten, visible
from mars_core.types import Outcome, Step, Token, Trace
from ui.figures.plot import Data, Plot
from ui.figures.style import FAINT, TEXT, axis, drawn, plotly_text
from ui.kit.palette import NEUTRAL, OUTCOME_STYLES

LEAF_PX = 21  # height of one branch
TRUNK = 0.12  # columns between a node and the line that comes down to it
LONGEST = 14  # characters of a piece beside its node
KEPT = (Outcome.ACCEPTED, Outcome.RELAXED)
OWN = (Outcome.RECOVERED, Outcome.BONUS)


@dataclass(frozen=True, slots=True)
class Place:
    """One node. ``outcome`` is None for the root; ``kept``: on the path that became text; ``x`` is the depth, ``y`` the branch."""

    number: int
    parent: int
    outcome: Outcome | None
    kept: bool
    label: str
    hover: str
    x: int
    y: float


@dataclass(frozen=True, slots=True)
class TreeData:
    """A step's tree laid out, parents before children; ``title`` says in words what happened."""

    places: tuple[Place, ...]
    title: str

    @property
    def rows(self) -> float:
        return max(place.y for place in self.places) + 1


@dataclass(frozen=True, slots=True)
class _Node:
    """A node before it has a place."""

    number: int
    parent: int
    outcome: Outcome | None
    kept: bool
    piece: str
    hover: str
    depth: int


def tree_data(trace: Trace, step: int) -> TreeData:
    """The tree of step number ``step``, which must be one of the trace's."""
    chosen = trace.steps[step]
    nodes = [_root(trace, step), *_drafted(chosen), *_own(chosen)]
    rows = _rows(nodes)
    places = tuple(
        Place(n.number, n.parent, n.outcome, n.kept, _label(n.piece), n.hover, n.depth, rows[n.number]) for n in nodes
    )
    return TreeData(places, _title(chosen))


def _label(piece: str) -> str:
    """Without the one space that most words begin with: hover shows it."""
    return plotly_text(shorten(visible(piece.removeprefix(" ") or piece), LONGEST))


def _root(trace: Trace, step: int) -> _Node:
    before = next((s.emitted[-1] for s in reversed(trace.steps[:step]) if s.emitted), None)
    piece = before.piece if before else "prompt"
    words = "the last token before this step" if before else "the end of the prompt"
    return _Node(0, -1, None, True, piece, f"<b>{plotly_text(piece)}</b><br>{words}", 0)


def _drafted(step: Step) -> list[_Node]:
    kept = {token.node for token in step.emitted if token.node}
    return [
        _Node(
            index, node.parent, node.outcome, index in kept, node.piece,
            f"<b>{plotly_text(node.piece)}</b>  {node.outcome}<br>p {number(node.p)}   q {number(node.q)}<br>"
            f"depth {node.depth}, node {index}",
            node.depth,
        )
        for index, node in enumerate(step.nodes, start=1)
    ]  # fmt: skip


def _own(step: Step) -> list[_Node]:
    """The recovered or bonus token, as the last node."""
    depth = {index: node.depth for index, node in enumerate(step.nodes, start=1)} | {0: 0}
    return [
        _Node(
            len(step.nodes) + 1, token.parent, token.outcome, True, token.piece,
            f"<b>{plotly_text(token.piece)}</b>  {token.outcome}<br>p {number(token.p)}<br>the target's own token",
            depth[token.parent] + 1,
        )
        for token in step.emitted
        if token.outcome in OWN
    ]  # fmt: skip


def _rows(nodes: Sequence[_Node]) -> dict[int, float]:
    """Node → row: leaves one below the other, the path that was kept on top, a parent in line with its first child."""
    children: dict[int, list[_Node]] = {node.number: [] for node in nodes}
    for node in nodes[1:]:
        children[node.parent].append(node)
    for siblings in children.values():
        siblings.sort(key=lambda node: not node.kept)
    rows: dict[int, float] = {}
    used, stack = 0, [nodes[0]]
    order: list[_Node] = []
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(children[node.number]))
    for node in order:
        if not children[node.number]:
            rows[node.number] = float(used)
            used += 1
    for node in reversed(order):
        if children[node.number]:
            rows[node.number] = rows[children[node.number][0].number]
    return rows


def _title(step: Step) -> str:
    last = step.emitted[-1] if step.emitted else None
    if not step.nodes:
        return f"Step {step.index}: nothing was drafted; the target wrote {_named(last)} itself."
    relaxed = sum(token.outcome is Outcome.RELAXED for token in step.emitted)
    forgiven = f", {relaxed} of them forgiven" if relaxed else ""
    own = f", then {_named(last)}, {last.outcome}" if last and last.outcome in OWN else ""
    return f"Step {step.index}: {plural(len(step.nodes), 'token')} drafted, {step.kept} kept{forgiven}{own}."


def _named(token: Token | None) -> str:
    return f"“{visible(token.piece.removeprefix(' ') or token.piece)}”" if token else "nothing"


_SIZES: Mapping[Outcome, int] = {
    Outcome.ACCEPTED: 10, Outcome.RELAXED: 12, Outcome.REJECTED: 7, Outcome.RECOVERED: 10, Outcome.BONUS: 11,
}  # fmt: skip


def tree_plot(trace: Trace, step: int) -> Plot:
    data = tree_data(trace, step)
    return Plot(tree_figure(data), _numbers(trace.steps[step]), data.title)


def _numbers(step: Step) -> Data:
    kept = {token.node for token in step.emitted if token.node}
    drafted = [
        (step.index, number, node.parent, node.depth, node.outcome.value, number in kept, node.id, node.piece, node.p, node.q)
        for number, node in enumerate(step.nodes, start=1)
    ]  # fmt: skip
    own = [
        (step.index, 0, token.parent, token.draft_position, token.outcome.value, True, token.id, token.piece, token.p, token.q)
        for token in step.emitted
        if token.outcome in OWN
    ]  # fmt: skip
    return Data(
        ("step", "node", "parent", "depth", "outcome", "in_text", "token_id", "piece", "p", "q"), (*drafted, *own)
    )


def tree_figure(data: TreeData) -> go.Figure:
    """Depth to the right, branches downwards; the kept path is thick, every outcome has its colour and its shape."""
    present = {place.outcome for place in data.places}
    depth = max(place.x for place in data.places)
    drafted = max((place.x for place in data.places if place.outcome not in (None, *OWN)), default=0)
    return drawn(
        [
            _edges(data, kept=False),
            _edges(data, kept=True),
            _marks(data, None),
            *(_marks(data, outcome) for outcome in Outcome if outcome in present),
        ],
        height=round(LEAF_PX * max(data.rows, 5)) + 84,
        margin={"l": 14, "r": 10, "t": 40, "b": 42},
        hovermode="closest",
        xaxis=axis(
            range=[-0.25, depth + 0.9], tickvals=list(range(1, drafted + 1)), title={"text": "depth in the draft"},
            showgrid=False, zeroline=False,
        ),
        yaxis=axis(range=[max(data.rows, 5) - 0.4, -0.8], visible=False),
    )  # fmt: skip


def _edges(data: TreeData, *, kept: bool) -> dict[str, Any]:
    """Lines from parent to child: out along the parent's row, then down to the child's, left of every label there."""
    by_number = {place.number: place for place in data.places}
    x: list[float | None] = []
    y: list[float | None] = []
    for child in data.places[1:]:
        if child.kept is kept:
            parent = by_number[child.parent]
            x += [parent.x, child.x - TRUNK, child.x - TRUNK, child.x, None]
            y += [parent.y, parent.y, child.y, child.y, None]
    line = {"color": NEUTRAL, "width": 3.5} if kept else {"color": FAINT, "width": 1}
    return {"type": "scatter", "x": x, "y": y, "mode": "lines", "line": line, "hoverinfo": "skip", "showlegend": False}


def _marks(data: TreeData, outcome: Outcome | None) -> dict[str, Any]:
    chosen = [place for place in data.places if place.outcome is outcome]
    emphasis = ("<b>", "</b>") if outcome is not Outcome.REJECTED else ("", "")
    return {
        "type": "scatter", "x": [place.x for place in chosen], "y": [place.y for place in chosen], "mode": "markers+text",
        "name": outcome.value if outcome else "root", "text": [place.label.join(emphasis) for place in chosen],
        "textposition": "top right", "textfont": {"size": 11, "color": TEXT}, "customdata": [place.hover for place in chosen],
        "hovertemplate": "%{customdata}<extra></extra>", "marker": _marker(outcome), "showlegend": outcome is not None,
        "cliponaxis": False,
    }  # fmt: skip


def _marker(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {"symbol": "circle-open", "size": 10, "color": NEUTRAL, "line": {"width": 2}}
    look = OUTCOME_STYLES[outcome]
    line = {"width": 1, "color": look.light}
    return {"symbol": look.symbol, "size": _SIZES[outcome], "color": look.light, "line": line}
