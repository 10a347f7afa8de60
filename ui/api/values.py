"""What a program may send, read from JSON: a pydantic model for each endpoint, and one sentence
for what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from mars_core.arguments import read_tree
from mars_core.drafting import offered
from mars_core.models import PairSpec
from mars_core.numbers import quoted, read_bias, read_integer, read_number
from mars_core.types import PROCESSORS, PROTECTED
from ui.jobs.admission import LIST_ONLY
from ui.jobs.services import Services
from ui.public.access import parse
from ui.settings.drafters import CHAIN, TREE, TREE_NUMBERS
from ui.settings.fields import CUSTOM_MODELS
from ui.settings.form import MOST_REPEATS, Form, LaneForm
from ui.settings.readers import catalog_pair, read_custom_pair, thinking_word
from ui.settings.rule_text import read_rule_text, rule_of

AUTO = "auto"
MOST_ROWS = 200  # comparisons a call
M = TypeVar("M", bound="RequestValues")


class RequestValues(BaseModel):
    """Types are strict, but that the text of a number is one: ``1`` is not true. A field's description
    says what it must be."""

    model_config = ConfigDict(strict=True)

    @classmethod
    def read(cls: type[M], **values: object) -> M:
        """Raises ValueError with one sentence for the first value that is none."""
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
        if "error" in first.get("ctx", {}):  # a sentence of a function of this file
            raise ValueError(str(first["ctx"]["error"]))
        name = str(first["loc"][0])
        raise ValueError(
            f"{name} is {quoted(values[name])}; it must be {cls.model_fields[name].description}."
        )


def _not_blank(prompt: str) -> str:
    if not prompt.strip():
        raise ValueError("prompt is empty; it needs at least 1 character that is not a space.")
    return prompt


def _a_list(value: object) -> object:
    """One text stands for a list of one, nothing for an empty one."""
    items = [] if value in (None, "") else [value] if isinstance(value, str) else value
    return tuple(items) if isinstance(items, list | tuple) else items


def _rules(value: object) -> tuple[LaneForm, ...]:
    """Rules as ``"mars(theta=0.9)"`` or ``{"rule": "mars", "parameters": {"theta": 0.9}}``: one, a
    list, or a list as JSON text. Raises ValueError for an unknown rule, a parameter that the rule
    does not have, or one out of its range."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = parse(value.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise ValueError(f"rules is not JSON: {error}.") from None
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise ValueError(
            'rules is empty; give at least one, such as "strict" or "mars(theta=0.9)".'
        )
    return tuple(map(_lane, items))


def _lane(item: object) -> LaneForm:
    if isinstance(item, Mapping):
        name, parameters = item.get("rule"), item.get("parameters") or {}
        if (
            set(item) - {"rule", "parameters"}
            or not isinstance(name, str)
            or not isinstance(parameters, Mapping)
        ):
            raise ValueError(
                f'A rule is {quoted(item)}; as an object it has "rule" and "parameters".'
            )
    else:
        name, parameters = read_rule_text(item)
    return rule_of(name, parameters)


def _processors(value: object) -> dict[str, Any]:
    """As fields of the page. ``banned`` words are those with a bias of -inf. Raises ValueError."""
    settings = dict(value) if isinstance(value, Mapping) else {} if value is None else {"": value}
    protect: object = settings.pop("protect", [*PROTECTED])
    bias, banned = settings.pop("logit_bias", {}), settings.pop("banned", [])
    unknown = set(settings) - set(PROCESSORS)
    if (
        unknown
        or not isinstance(bias, dict)
        or not isinstance(banned, list)
        or not isinstance(protect, list)
        or not all(isinstance(word, str) for word in (*bias, *banned, *protect))
        or not all(word and not {*"\r\n"} & {*word} for word in (*bias, *banned, *protect))
    ):
        names = ", ".join(PROCESSORS)
        raise ValueError(
            f"processors is {quoted(value)}; it has {names}, logit_bias (an object: word to "
            "number, no line breaks), banned and protect (lists)."
        )
    words = bias | dict.fromkeys(banned, "-inf")
    biases = [f"{word}={number}" for word, number in words.items()]
    for line in biases:
        read_bias(line, "logit_bias")
    return {name: read_number(number, name) for name, number in settings.items()} | {
        "protect": "\n".join(protect),
        "logit_bias": "\n".join(biases),
    }


def _number(value: object, field: ValidationInfo) -> float | None:
    """None where the field has that for a number of its own."""
    return None if value is None else read_number(value, str(field.field_name))


Text = Annotated[str, Field(description="text")]
Flag = Annotated[bool, Field(description="true or false")]
Number = Annotated[float, BeforeValidator(_number), Field(description="a number")]


def integer(low: int, high: int) -> Any:
    """A whole number, which JSON may write as 5.0."""
    return BeforeValidator(lambda value, field: read_integer(value, field.field_name, low, high))


class Page(RequestValues):
    """What ``/comparisons`` takes."""

    limit: Annotated[int, integer(1, MOST_ROWS)]
    offset: Annotated[int, integer(0, 10**9)]
    batches: Flag


class Lookup(RequestValues):
    """What the endpoints of one comparison take."""

    id: Text
    lane: Annotated[int, integer(0, 10**6)] = 0
    baseline: Annotated[int, integer(0, 10**6)] = 0


class ComparisonRequest(RequestValues):
    """What ``/compare`` takes. Ranges are the session's to judge, once the models are there."""

    prompt: Annotated[Text, AfterValidator(_not_blank)]
    rules: Annotated[tuple[LaneForm, ...], BeforeValidator(_rules)]
    pair: Text
    target: Text
    draft: Text
    head: Text
    drafter: Text
    k: Annotated[float | None, BeforeValidator(_number)]
    temperature: Number
    max_new_tokens: Number
    seed: Number
    system: Text
    chat: Flag
    draft_mode: Text
    tree: Text
    top_k: Number
    top_p: Number
    processors: Annotated[dict[str, Any], BeforeValidator(_processors)]
    stop: Annotated[tuple[str, ...], BeforeValidator(_a_list), Field(description="a list of texts")]
    prefix: Annotated[
        tuple[int, ...], BeforeValidator(_a_list), Field(description="a list of token ids")
    ]
    thinking: Annotated[bool | None, Field(description="true or false")]
    repeats: Annotated[int, integer(1, MOST_REPEATS)]

    def form(self, services: Services) -> Form:
        """The fields of the page for the same request, but for ``stop`` and ``prefix``. Raises
        ValueError and ModelError."""
        catalog, custom = services.catalog, (self.target, self.draft, self.head)
        if any(custom) and not services.custom_models:
            raise ValueError(LIST_ONLY)
        spec = (
            read_custom_pair(*custom)
            if any(custom)
            else catalog_pair(self.pair or catalog[0].key, catalog)
        )
        models: dict[str, Any] = dict(zip(CUSTOM_MODELS, custom, strict=True))
        return Form(
            **models,
            prompt=self.prompt,
            pair=spec.key,
            temperature=self.temperature,
            k=spec.k if self.k is None else self.k,
            max_new_tokens=self.max_new_tokens,
            seed=self.seed,
            lanes=self.rules,
            system=self.system,
            chat=self.chat,
            top_k=self.top_k,
            top_p=self.top_p,
            mode=self.draft_mode,
            thinking=thinking_word(self.thinking),
            drafter=self._drafter(spec),
            **self._tree(spec),
            **self.processors,
        )

    def _drafter(self, spec: PairSpec) -> str:
        """``auto``: the first that the pair has."""
        kinds = offered(spec)
        kind = kinds[0] if self.drafter in (AUTO, "") else self.drafter
        if kind not in kinds:
            raise ValueError(
                f"drafter is {kind[:80]!r}; the pair {spec.key} has {', '.join((AUTO, *kinds))}."
            )
        return kind

    def _tree(self, spec: PairSpec) -> dict[str, Any]:
        """The shape of an EAGLE-3 head's draft; nothing: the pair's own."""
        text = self.tree.strip()
        shape = read_tree(text, "tree") if text else spec.tree
        if shape is None:
            return {"shape": CHAIN}
        sizes = dict(zip(TREE_NUMBERS, astuple(shape), strict=True))
        return {"shape": TREE, **sizes}
