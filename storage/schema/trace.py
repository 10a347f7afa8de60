"""The fields of a Trace as columns of runs: each is in the column of its name, or of its name in
COLUMNS. Not its steps, nor its prompt, which is the comparison's. And those of a
Counterfactual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from itertools import starmap
from operator import itemgetter
from types import UnionType
from typing import Any, get_args, get_type_hints

from mars_core.counterfactual import Counterfactual
from mars_core.rules import as_value
from mars_core.types import Exchange, Parameters, PrefixToken, Processors, RunConfig, Summary, Trace

COLUMNS = {
    "config.prompt.text": "prompt",
    "config.target.name": "target",
    "config.target.revision": "target_revision",
    "config.drafter.kind": "drafter",
    "config.drafter.model.name": "drafter_model",
    "config.drafter.model.revision": "drafter_revision",
    "config.drafter.mode": "draft_mode",
    "config.drafter.tree.tokens": "tree_tokens",
    "config.drafter.tree.depth": "tree_depth",
    "config.drafter.tree.top_k": "tree_top_k",
    "config.rule.name": "rule",
    "config.rule.parameters": "rule_parameters",
}
PROMPT = (
    "prompt",
    "system",
    "chat",
    "stop",
)  # columns of comparisons; history, thinking and structure may differ between runs
_READ: Mapping[Any, Callable[[Any], Any]] = {  # from what JSON has
    tuple[str, ...]: tuple,
    tuple[int, ...]: tuple,
    tuple[float, ...]: lambda values: tuple(map(float, values)),
    tuple[PrefixToken, ...]: lambda values: tuple(starmap(PrefixToken, values)),
    tuple[Exchange, ...]: lambda values: tuple(starmap(Exchange, values)),
    Processors: lambda values: processors_of(values),
    Parameters: lambda values: {name: as_value(value) for name, value in values.items()},
}


def processors_of(chosen: Mapping[str, Any]) -> Processors:
    """Read processors from ``Processors.chosen``, also after conversion to JSON. Raises TypeError
    for another name."""
    bias = dict(chosen.get("logit_bias", ())).items()
    words = {"logit_bias": tuple((word, float(value)) for word, value in bias)}
    return Processors(**{**chosen, **words, "protect": tuple(chosen.get("protect", ()))})


class TraceField:
    """A value of type ``kind`` at a ``path`` in a trace: in one column, or with fields that have one.
    ``optional``: it may be None, as where the first column of its fields is NULL. ``read``: its
    value in a row of runs, with the columns of PROMPT."""

    def __init__(self, hint: Any, path: str, optional: bool = False) -> None:
        self.kind, *none = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        self.path, self.optional = path.split("."), optional or bool(none)
        self.column = COLUMNS.get(path, self.path[-1])
        parts = self.kind not in _READ and (
            is_dataclass(self.kind) or hasattr(self.kind, "_fields")
        )
        hints = get_type_hints(self.kind) if parts else {}
        self._fields = [
            TraceField(each, f"{path}.{name}", self.optional) for name, each in hints.items()
        ]
        self.read: Callable[[Mapping[Any, Any]], Any] = (
            self._read if hints else itemgetter(self.column)
        )
        if (convert := _READ.get(self.kind)) is not None:
            self.read = lambda row: convert(row[self.column])

    def in_columns(self) -> Iterator[TraceField]:
        """Itself, or the fields that it consists of: each in one column."""
        if not self._fields:
            yield self
        for each in self._fields:
            yield from each.in_columns()

    def of(self, trace: Trace) -> Any:
        """Return its value in ``trace``."""
        value: Any = trace
        for name in self.path:
            value = getattr(value, name, None)
        return value.chosen if isinstance(value, Processors) else value

    def _read(self, row: Mapping[Any, Any]) -> Any:
        values = [each.read(row) for each in self._fields]
        return None if self.optional and values[0] is None else self.kind(*values)


CONFIG, SUMMARY = TraceField(RunConfig, "config"), TraceField(Summary, "summary")
COUNTERFACTUAL = TraceField(Counterfactual, "counterfactual")
RUN_FIELDS = [
    TraceField(get_type_hints(Trace)[name], name)
    for name in ("status", "stop_reason", "error", "text", "prompt_ids", "given")
]
FIELDS = [
    each
    for field in (CONFIG, SUMMARY, *RUN_FIELDS)
    for each in field.in_columns()
    if each.column not in PROMPT
]
