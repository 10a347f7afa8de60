"""The prompts of the suite ``tools``: ``python -m tests.data.tool_prompts FILE`` writes them.

80 requests that one of four functions fulfils, 20 texts to write as an object with an object in it
and 20 as a list. Every value of the right answer is in the request, a date also in words.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

SEED, OFFERED, CALLS, JSON_OF_EACH = 20261129, 4, 80, 20
NAMES = ("Ines", "Omar", "Greta", "Ravi", "Mia", "Tomas", "Aiko", "Lena", "Sam", "Chiara")
CITIES = ("Lyon", "Oslo", "Porto", "Kyoto", "Quito", "Graz", "Cork", "Turin", "Malmö", "Leeds")
THINGS = ("lamp", "chair", "kettle", "blanket", "bicycle", "mirror", "backpack", "clock")
TEXT = {"type": "string"}
DATE = {"type": "string", "format": "date", "description": "YYYY-MM-DD"}
NUMBER, WHOLE = {"type": "number"}, {"type": "integer"}

Values = dict[str, Any]
Properties = Mapping[str, Mapping[str, Any]]


def one_of(*values: str) -> Values:
    return {"type": "string", "enum": list(values)}


# name → what it does, its arguments, requests
FUNCTIONS: Mapping[str, tuple[str, Properties, tuple[str, ...]]] = {
    "get_weather": (
        "Return the weather forecast of a city.",
        {"city": TEXT, "day": DATE, "unit": one_of("celsius", "fahrenheit")},
        (
            "What will the weather be in {city} on {day}? In degrees {unit}, please.",
            "I travel to {city} on {day}. Tell me the forecast in {unit}.",
        ),
    ),
    "book_table": (
        "Reserve a table at a restaurant.",
        {"restaurant": TEXT, "day": DATE, "guests": WHOLE},
        (
            "Reserve a table for {guests} at {restaurant} on {day}.",
            "We are {guests} people and want to eat at {restaurant} on {day}. Please book.",
        ),
    ),
    "convert_money": (
        "Convert an amount of money to another currency.",
        {
            "amount": NUMBER,
            "source": one_of("EUR", "USD", "JPY", "CHF"),
            "target": one_of("GBP", "SEK", "INR", "BRL"),
        },
        ("How much is {amount} {source} in {target}?", "Convert {amount} {source} to {target}."),
    ),
    "send_message": (
        "Send a text message to a person.",
        {"recipient": TEXT, "text": TEXT},
        ('Send {recipient} this message: "{text}"', 'Text "{text}" to {recipient}.'),
    ),
    "set_heating": (
        "Set the temperature of a room.",
        {"room": one_of("kitchen", "bedroom", "bathroom", "office"), "degrees": NUMBER},
        ("Set the {room} to {degrees} degrees.", "I want {degrees} degrees in the {room}."),
    ),
    "find_train": (
        "Find a train between two cities.",
        {"origin": TEXT, "destination": TEXT, "day": DATE, "class": one_of("first", "second")},
        (
            "Find a train from {origin} to {destination} on {day}, in {class} class.",
            "On {day} I go from {origin} to {destination} by train, {class} class.",
        ),
    ),
    "create_invoice": (
        "Create an invoice for a customer.",
        {"customer": TEXT, "amount": NUMBER, "due": DATE},
        (
            "Create an invoice over {amount} for {customer}, due on {due}.",
            "Bill {customer} for {amount}. It has to be paid by {due}.",
        ),
    ),
    "order_goods": (
        "Order goods for delivery.",
        {"article": one_of(*THINGS), "count": WHOLE, "express": {"type": "boolean"}},
        ("Order {count} of the article {article}, {express}.",),
    ),
}
OBJECT: Properties = {
    "customer": {
        "type": "object",
        "properties": {"name": TEXT, "city": TEXT},
        "required": ["name", "city"],
    },
    "article": one_of(*THINGS),
    "count": WHOLE,
    "ordered": DATE,
}
MEMBER = {
    "type": "object",
    "properties": {"name": TEXT, "age": WHOLE, "city": TEXT},
    "required": ["name", "age", "city"],
}
LIST: Properties = {"members": {"type": "array", "items": MEMBER}}


def schema_of(properties: Properties) -> Values:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def rows(seed: int = SEED) -> Iterator[Values]:
    """Yield the lines of the suite, in random order: a part of it has every kind. No prompt is
    there twice."""
    rng, written = random.Random(seed), dict[str, Values]()
    names = list(FUNCTIONS) * (CALLS // len(FUNCTIONS))
    calls: list[Callable[[random.Random], Values]] = [partial(_call, name=name) for name in names]
    for make in (*calls, *[_object, _list] * JSON_OF_EACH):
        row = make(rng)
        while row["prompt"] in written:
            row = make(rng)
        written[row["prompt"]] = row
    for number, row in enumerate(rng.sample(list(written.values()), len(written))):
        yield {"id": str(number), **row}


def _call(rng: random.Random, name: str) -> Values:
    others = rng.sample([each for each in FUNCTIONS if each != name], OFFERED - 1)
    offered = rng.sample([name, *others], OFFERED)
    _, arguments, requests = FUNCTIONS[name]
    template = rng.choice(requests)
    values = {each: _value(rng, each, kind) for each, kind in arguments.items()}
    said = {each: _said(rng, value) for each, value in values.items()}
    return {
        "category": "call",
        "prompt": template.format(**said),
        "tools": [
            {"name": each, "description": text, "parameters": schema_of(kinds)}
            for each in offered
            for text, kinds, _ in [FUNCTIONS[each]]
        ],
        "references": [json.dumps([{"name": name, "arguments": values}], ensure_ascii=False)],
        "template": template,
    }


def _value(rng: random.Random, name: str, kind: Mapping[str, Any]) -> Any:
    texts = {
        "restaurant": ("Casa Verde", "Blue Door", "Nordlys", "The Old Mill"),
        "text": ("I am on my way", "The keys are at home", "See you at nine", "Happy birthday"),
        "recipient": NAMES,
        "customer": NAMES,
        "origin": CITIES[:5],
        "destination": CITIES[5:],
        "city": CITIES,
    }
    if kind is DATE:
        return (date(2026, 1, 1) + timedelta(rng.randrange(700))).isoformat()
    if kind is NUMBER:
        return rng.randrange(30, 400) / 2 if name == "amount" else rng.randrange(30, 50) / 2
    if kind is WHOLE:
        return rng.randrange(2, 13)
    return rng.choice(
        [True, False] if kind["type"] == "boolean" else kind.get("enum", texts.get(name))
    )


def _said(rng: random.Random, value: Any) -> str:
    """Return a value as a request says it: a date as it is written or in words."""
    if isinstance(value, bool):
        return "by express" if value else "not by express"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if text.count("-") == 2 and rng.random() < 0.5:
        day = date.fromisoformat(text)
        return f"{day.day} {day:%B %Y}"
    return text


def _object(rng: random.Random) -> Values:
    name, city, article = rng.choice(NAMES), rng.choice(CITIES), rng.choice(THINGS)
    day, count = _value(rng, "day", DATE), rng.randrange(2, 13)
    template = rng.choice(
        (
            "On {day}, {name} from {city} ordered {count} pieces of the article {article}.",
            "{name}, who lives in {city}, bought the article {article} on {day}: {count} pieces.",
        )
    )
    text = template.format(name=name, city=city, article=article, day=_said(rng, day), count=count)
    right = {
        "customer": {"name": name, "city": city},
        "article": article,
        "count": count,
        "ordered": day,
    }
    return _json("object", text, template, OBJECT, right)


def _list(rng: random.Random) -> Values:
    people = [
        {"name": name, "age": rng.randrange(18, 80), "city": rng.choice(CITIES)}
        for name in rng.sample(NAMES, rng.randrange(2, 5))
    ]
    template = rng.choice(
        ("{name} is {age} and lives in {city}.", "{name} ({age}) is from {city}.")
    )
    text = " ".join(template.format(**person) for person in people)
    return _json("list", text, template, LIST, {"members": people})


def _json(category: str, text: str, template: str, kinds: Properties, right: Values) -> Values:
    schema = schema_of(kinds)
    return {
        "category": category,
        "prompt": f"JSON schema:\n{json.dumps(schema)}\n\nText: {text}\n\nWrite the values that "
        "the text has as one JSON object that fits the schema. Do not repeat the schema.",
        "schema": schema,
        "references": [json.dumps(right, ensure_ascii=False)],
        "template": template,
    }


if __name__ == "__main__":
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")
