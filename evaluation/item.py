"""Items, each a prompt with its references, and the suite of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that an answer may call; ``required`` are some of its ``arguments``.
    ``function``: itself as OpenAI's API has it, in JSON; empty in studies of earlier versions."""

    name: str
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    function: str = ""

    @property
    def schema(self) -> Any:
        """Of its arguments."""
        return json.loads(self.function).get("parameters") if self.function else None


@dataclass(frozen=True, slots=True)
class Item:
    """One conversation: the user's turns in order, and the right answer, if known.

    ``references``: one per turn for several turns with a reference each; otherwise alternatives.
    ``template``: prompts that were made of one text have the same. ``tests``: Python assertions,
    for code only. ``metrics``: if they differ from the suite's, as in
    a mixed file. ``tools``: the last answer must call some of them. ``schema``: in JSON, the last
    answer must fit it.
    """

    id: str
    turns: tuple[str, ...]
    references: tuple[str, ...] = ()
    category: str = ""
    tests: str = ""
    metrics: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    template: str = ""
    schema: str = ""

    @property
    def structure(self) -> str:
        """What a prompt asks for beside its text, as ``PromptConfig.structure``."""
        offered = [json.loads(tool.function) for tool in self.tools if tool.function]
        fields: dict[str, Any] = {}
        if offered:
            fields["tools"] = [{"type": "function", "function": each} for each in offered]
        if self.schema:
            form = {"name": "answer", "strict": True, "schema": json.loads(self.schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return json.dumps(fields, ensure_ascii=False) if fields else ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Items that are reported as one group. ``sha256``: of the file, empty for a built-in suite.

    ``metrics``: names of evaluation.scoring, the first is the main one; empty: not scored. In a
    mixed suite: those of all items. ``tokens``: of every first prompt, at most; 0: as they are.
    """

    name: str
    items: tuple[Item, ...]
    source: str = ""  # path or built-in name, for display
    sha256: str = ""
    metrics: tuple[str, ...] = ()
    tokens: int = 0
