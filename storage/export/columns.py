"""Every column of every export: name, type, unit, meaning. The one schema of CSV and Parquet;
docs/data.md shows it.

Columns of runs have the names of storage.schema.runs. The fields of Summary, Step, Token and
DraftNode are described in mars_core.types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from mars_core.types import (
    NODE_FIELDS,
    STEP_FIELDS,
    SUMMARY_FIELDS,
    TOKEN_FIELDS,
    Alternative,
    FieldDescription,
)
from storage.traces.flat import RENAMED

SCHEMA_VERSION = 9  # incremented when a column changes its name, type or meaning
_GIVEN = [("id", pa.int64()), ("piece", pa.string()), ("start", pa.int64()), ("end", pa.int64())]
TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "texts": pa.list_(pa.string()),
    "ints": pa.list_(pa.int64()),
    "floats": pa.list_(pa.float64()),
    "JSON": pa.string(),  # an object; maps of Arrow are unknown to the Hub's viewer
    "given tokens": pa.list_(pa.struct(_GIVEN)),
    "turns": pa.list_(pa.struct([("user", pa.string()), ("answer", pa.string())])),
    "alternatives": pa.list_(
        pa.struct([("id", pa.int64()), ("piece", pa.string()), ("p", pa.float64())])
    ),
}
STRUCTS = ("given tokens", "turns", "alternatives")
_KINDS: dict[Any, str] = {
    int: "int",
    float: "float",
    tuple[float, ...]: "floats",
    tuple[Alternative, ...]: "alternatives",
}


class ExportColumn(NamedTuple):
    """``kind``: a key of TYPES; ``unit``: empty for counts, ids, names and dimensionless
    numbers."""

    name: str
    kind: str
    unit: str
    meaning: str


def _columns(text: str) -> tuple[ExportColumn, ...]:
    return tuple(
        ExportColumn(*(part.strip() for part in line.split("|")))
        for line in text.strip().splitlines()
    )


def _fields(
    described: Mapping[str, FieldDescription], between: Mapping[str, str], prefix: str = ""
) -> Iterator[ExportColumn]:
    """Yield a column for each field, and those of ``between`` before the field of that name."""
    for name, field in described.items():
        yield from _columns(between.get(name, ""))
        column = prefix + RENAMED.get(name, name)
        yield ExportColumn(column, _KINDS.get(field.kind, "text"), field.unit, field.meaning)


_COMPARISON = """\
schema_version | int | | version of these columns
comparison_id | text | | one prompt, run in one or more lanes
"""
_TV_KIND = """\
tv_kind | text | | exact, bound (tv and kl are upper bounds), missing (empty), unknown (of a served model)
"""
_RUN = f"""\
{_COMPARISON}\
run_id | text | | the run
lane | int | | column on the page, from 0
rule | text | | verification rule; none: the target alone
"""
RUNS = (
    *_columns(
        f"""\
{_COMPARISON}\
run_id | text | | the run
chat | bool | | with the chat template
prompt | text | | its text
system | text | | system message
stop | texts | | stop strings
name | text | | of the comparison
tags | texts | | of the comparison
comment | text | | on the comparison
source | text | | origin of the comparison: compare, vote, study, server (a record of a server)
lane | int | | column on the page, from 0
turn | int | | of the conversation, from 0
execution_order | int | | order of execution, from 0
created_at | time | UTC | when the run was saved
status | text | | completed, cancelled, failed
stop_reason | text | | eos, stop_string, length, cancelled, deadline, error, unknown (not reported by a server)
rule | text | | verification rule
rule_parameters | JSON | | of the rule, by name; a text is an expression of the position
drafter | text | | kind of drafter: model, none, another of --drafter, or server
drafter_model | text | | repository or folder of the drafter
drafter_revision | text | | its commit
k | int | tokens | drafted per step
draft_mode | text | | coupled, greedy, sampled
tree_tokens | int | nodes | of a drafted tree; empty for chains
tree_depth | int | nodes | longest path of the tree
tree_top_k | int | nodes | most children of a node
target | text | | repository or folder of the target model
target_revision | text | | its commit
temperature | float | | of sampling; 0 is greedy
top_k | int | | most likely tokens kept before sampling; 0: all
top_p | float | | share of probability kept before sampling
processors | JSON | | further logits processors, and protected tokens (protect), by name
max_new_tokens | int | tokens | limit of new tokens
seed | int | | of all random numbers
thinking | bool | | switch of the chat template; empty: its default
structure | text | | tools and response_format that the prompt has beside its text, in JSON
"""
    ),
    *_fields(SUMMARY_FIELDS, {"tv_sum": _TV_KIND}),
    *_columns("""\
environment | JSON | | versions, device, dtype, by name
error | text | | why the run failed
prompt_ids | ints | | token ids of the prompt
text | text | | output text, given tokens first
prefix | ints | | ids of the given tokens
spent | floats | | TV and regret of the given tokens, where a run that reads them was continued
given | given tokens | | with their pieces and characters
history | turns | | earlier turns of the conversation
"""),
)
TOKENS = (
    *_columns(_RUN),
    *_fields(TOKEN_FIELDS, {"position": "ordinal | int | | in the step, from 0", "tv": _TV_KIND}),
    *_fields(STEP_FIELDS, {}, "step_"),
)
_NODE = """\
step | int | | decoding step, from 0
node | int | | number in the step's draft, from 1
"""
NODES = (
    *_columns(_RUN),
    *_fields(NODE_FIELDS, {"id": _NODE}),
    *_columns("judged | bool | | false: after the first rejection, or beside the path in a tree"),
)
COUNTERFACTUALS = (
    *_columns(f"""\
{_RUN}\
position | int | | of the relaxed token, in the output, from 0
kind | text | | of the token: number, word, punctuation, code
"""),
    *_fields({name: TOKEN_FIELDS[name] for name in ("r", "gap", "entropy")}, {}),
    *_columns("""\
meets_after | int | tokens | from position on, after which both texts are the same; empty where they do not meet
strict_tokens | int | tokens | from position on, if strict continues with the target's token
relaxed_tokens | int | tokens | from position on, if strict continues after the relaxed token
strict_logprob | float | nats | mean logprob of the former
relaxed_logprob | float | nats | mean logprob of the latter
changed | bool | | whether the two answers differ; empty where there is none
strict_score | float | | of the former text, 0 to 1; empty where it is not graded
relaxed_score | float | | of the latter text
"""),
)
VOTES = _columns(
    f"""\
{_COMPARISON}\
vote_id | text | | the vote
created_at | time | UTC | time of the vote
choice | text | | left, right, tie, both_bad
left_run_id | text | | the run shown on the left
right_run_id | text | | the run shown on the right
winner_run_id | text | | the run that was preferred; empty for a tie
left_rule | text | | with its parameters; of a server its model and address
right_rule | text | | with its parameters; of a server its model and address
comment | text | | on the vote
prompt | text | | of the comparison
"""
)


def described() -> str:
    """Return all columns as Markdown, one list per export.
    A column that a list before describes in the same words is only named."""
    lists = []
    before: set[ExportColumn] = set()
    exports = {
        "runs": RUNS,
        "tokens": TOKENS,
        "nodes": NODES,
        "counterfactuals": COUNTERFACTUALS,
        "votes": VOTES,
    }
    for name, columns in exports.items():
        lines = ""
        for again, group in groupby(columns, before.__contains__):
            if again:
                lines += f"* {', '.join(f'`{each.name}`' for each in group)}: as above\n"
            else:
                lines += "".join(
                    f"* `{each.name}` ({each.kind}{each.unit and f', {each.unit}'}): "
                    f"{each.meaning}\n"
                    for each in group
                )
        lists.append(f"### {name}\n\n{lines}")
        before.update(columns)
    return "\n".join(lists)


def arrow_schema(columns: tuple[ExportColumn, ...]) -> pa.Schema:
    """Return the Arrow schema, with unit and meaning of each column."""
    about = {"schema_version": str(SCHEMA_VERSION)}
    notes = [{"unit": each.unit, "meaning": each.meaning} for each in columns]
    return pa.schema(
        [
            pa.field(each.name, TYPES[each.kind], metadata=note)
            for each, note in zip(columns, notes, strict=True)
        ],
        about,
    )
