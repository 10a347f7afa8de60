"""Grade-school word problems for the bundled corpus, solved step by step: free wording around
decisive digits.

A problem is a start and one to three changes of one quantity. All numbers stay between 0 and 100,
factors between 2 and 10.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from training.demo import lexicon
from training.demo.lexicon import choose, sentence

LIMIT = 100
_Text = tuple[
    list[str], list[str], int
]  # sentences of the question, sentences of the solution, answer


class Problem(NamedTuple):
    """A question, its worked solution (ends in ``#### N``) and the number N."""

    question: str
    solution: str
    answer: int


class _Equation(NamedTuple):
    a: int
    operator: str
    b: int

    @property
    def result(self) -> int:
        a, b = self.a, self.b
        return {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[self.operator]

    def __str__(self) -> str:
        return f"{self.a} {self.operator} {self.b} = {self.result}"


# Operator → sentences of the question, sentences of the solution.
_CHANGES = {
    "+": (
        (
            "[then|later|after that] {sub} [buys|gets|finds] {n} more.",
            "{friend} gives {obj} {n} {things}.",
            "{sub} [finds|collects|picks] {n} more {things} [at the {place}|in the {place}|on the way home].",
            "[the next day|on Monday|in the evening], {sub} [gets|receives] {n} more {things} from {friend}.",
            "{pos} [aunt|uncle|teacher] [brings|sends] {obj} another {n}.",
        ),
        (
            "{name} [gets|receives] {n} more, [so|which makes] {equation}.",
            "[adding|with] the {n} [new|extra] {things}, [we get|that is|it is] {equation}.",
            "[then|now] {sub} has {n} more: {equation}.",
            "[we add|add] {n}: {equation}.",
        ),
    ),
    "-": (
        (
            "[then|later|after that] {sub} [gives|sells|hands] {n} [of them |]to {friend}.",
            "{sub} loses {n} {things} [at the {place}|in the {place}|on the way home].",
            "{friend} [takes|borrows] {n} of [them|the {things}].",
            "[the next day|on Sunday|in the evening], {sub} [uses|gives away|sells] {n} {things}.",
            "{n} of the {things} [are broken|are lost|go missing].",
        ),
        (
            "{n} [are gone|go away|leave], [so|which leaves] {equation}.",
            "[taking away|without] the {n} {things}, [we get|that is|it is] {equation}.",
            "[then|now] {sub} has {n} fewer: {equation}.",
            "[we subtract|subtract] {n}: {equation}.",
        ),
    ),
    "*": (
        (
            "[then|later|by the end of the week] {sub} has {n} times as many.",
            "[a friendly|a kind] [neighbor|shopkeeper] [makes it|turns that into] {n} times as many.",
            "[after a month|after a good year], {pos} {things} are {n} times as many.",
        ),
        (
            "{n} times as many [is|makes|means] {equation}.",
            "[we multiply|multiply] by {n}: {equation}.",
            "[that becomes|it grows to] {n} times as many, [so|which makes] {equation}.",
        ),
    ),
    "/": (
        (
            "[then|later|in the end] {sub} [shares|divides|splits] them [equally|evenly] among {n} [friends|children|people], and keeps one share.",
            "{sub} [puts|packs] them [equally|evenly] into {n} {containers} and keeps one {container}.",
            "{sub} keeps one of {n} equal [parts|piles|groups] and gives the rest to {friend}.",
        ),
        (
            "one of {n} [equal shares|equal parts|shares] [is|has|means] {equation}.",
            "[we divide|divide] by {n}: {equation}.",
            "[split|shared] {n} ways, [that is|it is|we get] {equation}.",
        ),
    ),
}
_STARTS = (
    "{name} has {n} {things}.",
    "{name} [buys|collects|finds|picks] {n} {things} [at the {place}|in the {place}|with {friend}].",
    "[there are|we see] {n} {things} [on the table|in the {place}|in a {container}], and [all of them|they all] belong to {name}.",
    "{friend} gives {name} {n} {things}.",
    "[in the morning|on Friday|one day|today], {name} has {n} {things}.",
)
_GROUP_STARTS = (
    "{name} has {a} {containers} with {b} {things} [each|in each].",
    "{name} [buys|fills|carries] {a} {containers}. [each|every] {container} [holds|has] {b} {things}.",
    "[there are|{name} sees] {b} {things} in [each|every one] of {a} {containers}, and {name} takes them all.",
)
_GROUP_EXPLAINED = (
    "{a} {containers} with {b} {things} each [make|are|give] {equation}.",
    "[first|to begin], we multiply: {equation}.",
    "{name} [starts|begins] with {a} times {b} {things}: {equation}.",
)
_START_EXPLAINED = (
    "{name} [starts|begins] with {n} {things}.",
    "[at first|to begin with], {name} has {n}.",
    "[we start|start] with {n} {things}.",
    "[at first|in the beginning], [there are|we have] {n} {things}.",
)
_QUESTIONS = (
    "how many {things} does {name} have [now|in the end|left]?",
    "how many {things} [are left|are there now] for {name}?",
    "how many {things} does {sub} have [now|at the end|in total]?",
    "[what is|find] the number of {things} {name} has [now|in the end].",
)
_CONCLUSIONS = (
    "[so|therefore|in the end], {name} has {n} {things}.",
    "[the answer is|that makes|so the answer is] {n}[| {things}].",
    "{name} [now has|ends with|is left with] {n} {things}.",
)
_COMPARISONS = {
    "+": (
        "{name} has {a} {things}. {friend} has {b} {things}. how many {things} do they have [together|in all|in total]?",
        "{name} and {friend} [collect|pick|find] {things}. {name} [gets|has] {a} and {friend} [gets|has] {b}. how many is that [together|in all|in total]?",
        "a {thing} costs {a} [dollars|coins] and a {container} costs {b}. how much do [both|the two] cost [together|in all]?",
    ),
    "-": (
        "{name} has {a} {things} and {friend} has {b}. how many more does {name} have?",
        "{name} needs {a} {things} [for a party|for school|for a game] and already has {b}. how many more does {sub} need?",
        "a {container} costs {b} dollars. {name} pays with {a} dollars. how much [change|money] does {sub} get back?",
    ),
    "*": (
        "a {thing} costs {a} [dollars|coins]. how much do {b} {things} cost?",
        "{name} [walks|runs|rides] {a} miles [every|each] day. how many miles [is that|does {sub} go] in {b} days?",
        "{name} [plants|draws|makes] {a} rows of {b} {things}. how many {things} [are there|is that] [in all|in total]?",
    ),
    "/": (
        "{name} has {a} {things} and [wants to put|puts] {b} in each {container}. how many {containers} does {sub} need?",
        "{b} [friends|children] share {a} {things} [equally|evenly]. how many does each [one |]get?",
        "{b} {things} cost {a} [dollars|coins]. how much does one {thing} cost?",
    ),
}
_COMPARED = {
    "+": (
        "[we add|add] the two numbers: {equation}.",
        "[together|in all], [that is|it is|we get] {equation}.",
    ),
    "-": (
        "[we subtract|subtract]: {equation}.",
        "the difference [is|between {a} and {b} is] {equation}.",
    ),
    "*": ("[we multiply|multiply]: {equation}.", "{b} times {a} [is|makes|gives] {equation}."),
    "/": ("[we divide|divide]: {equation}.", "{a} divided by {b} [is|makes|gives] {equation}."),
}
_RESULTS = (
    "[so|therefore], the answer is {n}.",
    "the answer is {n}.",
    "[that makes|it is] {n}.",
    "so [it is|we get] {n}.",
)
_DRILLS = (
    "[what is|compute|find|how much is] {sum}[?|]",
    "[please |][solve|calculate] {sum}.",
    "{sum} = ?",
)


def practice(rng: random.Random) -> str:
    """Return a sheet of twelve equations: much arithmetic in few tokens."""
    return " ".join(f"{_random_equation(rng)}." for _ in range(12))


def problem(rng: random.Random) -> Problem:
    """Return one problem: a chain of one to three changes, a comparison of two numbers, or a bare
    sum."""
    kind = rng.choices((_chain, _comparison, _drill), weights=(0.6, 0.28, 0.12))[0]
    question, solution, answer = kind(rng)
    return Problem(" ".join(question), f"{' '.join(solution)}\n#### {answer}", answer)


def _chain(rng: random.Random) -> _Text:
    slots = _cast(rng)
    question, solution, value = _start(rng, slots)
    for _ in range(rng.choices((1, 2, 3), weights=(4, 4, 2))[0] - (" = " in solution[0])):
        operator = rng.choice([operator for operator in _CHANGES if _operands(operator, value)])
        equation = _Equation(value, operator, rng.choice(_operands(operator, value)))
        here = slots | {"n": equation.b, "equation": equation}
        for text, templates in zip((question, solution), _CHANGES[operator], strict=True):
            text.append(sentence(rng, templates, here))
        value = equation.result
    question.append(sentence(rng, _QUESTIONS, slots))
    solution.append(sentence(rng, _CONCLUSIONS, slots | {"n": value}))
    if " = " not in solution[0] and rng.random() < 0.4:
        del solution[0]
    return question, solution, value


def _start(rng: random.Random, slots: dict[str, object]) -> _Text:
    if rng.random() < 0.3:
        equation = _Equation(rng.randint(2, 10), "*", rng.randint(2, 10))
        here = slots | {"a": equation.a, "b": equation.b, "equation": equation}
        return (
            [sentence(rng, _GROUP_STARTS, here)],
            [sentence(rng, _GROUP_EXPLAINED, here)],
            equation.result,
        )
    value = rng.randint(2, 80)
    here = slots | {"n": value}
    return [sentence(rng, _STARTS, here)], [sentence(rng, _START_EXPLAINED, here)], value


def _comparison(rng: random.Random) -> _Text:
    equation = _random_equation(rng)
    a, operator, b = equation
    slots = _cast(rng) | {"a": a, "b": b, "n": equation.result, "equation": equation}
    question = sentence(rng, _COMPARISONS[operator], slots).replace(". how", ". How")
    return (
        [question],
        [sentence(rng, _COMPARED[operator], slots), sentence(rng, _RESULTS, slots)],
        equation.result,
    )


def _drill(rng: random.Random) -> _Text:
    equation = _random_equation(rng)
    question = sentence(rng, _DRILLS, {"sum": str(equation).partition(" =")[0]})
    result = [] if rng.random() < 0.6 else [sentence(rng, _RESULTS, {"n": equation.result})]
    return [question], [f"{equation}.", *result], equation.result


def _random_equation(rng: random.Random) -> _Equation:
    operator = rng.choice("+-*/")
    while True:
        a = rng.randint(2, 10) if operator == "*" else rng.randint(2, 98)
        if operands := _operands(operator, a):
            return _Equation(a, operator, rng.choice(operands))


def _operands(operator: str, value: int) -> Sequence[int]:
    """Return the second operands that keep the result within 0..LIMIT."""
    return {
        "+": range(2, LIMIT - value + 1),
        "-": range(1, value - 1),
        "*": [n for n in range(2, 11) if 2 <= value <= 12 and value * n <= LIMIT],
        "/": [n for n in range(2, 11) if value % n == 0 and value > n],
    }[operator]


def _cast(rng: random.Random) -> dict[str, object]:
    gender, other = rng.choice(("she", "he")), rng.choice(("she", "he"))
    name = rng.choice(lexicon.NAMES[gender])
    friend = rng.choice([n for n in lexicon.NAMES[other] if n != name])
    thing, things = rng.choice(lexicon.COUNTABLE)
    container, containers = rng.choice(lexicon.CONTAINERS)
    return {
        "name": name,
        "friend": friend,
        "thing": thing,
        "things": things,
        "container": container,
        "containers": containers,
        "place": choose(rng, lexicon.LOCATIONS, "place"),
        **lexicon.PRONOUNS[gender],
    }
